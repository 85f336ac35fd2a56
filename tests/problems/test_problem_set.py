import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mars_env import load_problems
from mars_env.errors import ConfigError
from mars_env.problems import ProblemSet
from mars_env.problems.problem_set import HASHED
from mars_env.types import Problem


def small(n=10, name="small"):
    return ProblemSet(
        name,
        [Problem(f"p{i}", f"What is {i} + 1?", str(i + 1), metadata={"level": i % 3}) for i in range(n)],
        revision="r1",
        licence="MIT",
    )


def ids(problems):
    return [p.id for p in problems]


def test_it_is_a_sequence_whose_slices_are_sets_of_the_same_origin():
    problems = small()
    assert problems[-1].id == "p9" and ids(problems[::-1]) == ids(problems)[::-1]
    assert problems[3] in problems and Problem("p3", "else", "4") not in problems and "p3" not in problems
    part = problems[3:6]
    assert (part.name, part.revision, part.licence, len(part)) == ("small", "r1", "MIT", 3)
    assert part.by_id("p4").reference == "5"
    with pytest.raises(KeyError):
        part.by_id("p9")


@given(st.integers(2, 40), st.floats(0.05, 0.95), st.integers(0, 5))
def test_a_split_by_fraction_is_a_partition(n, fraction, seed):
    problems = small(n)
    if not 1 <= round(n * fraction) <= n - 1:
        with pytest.raises(ConfigError):
            problems.split(fraction, seed)
        return
    first, second = problems.split(fraction, seed)
    assert len(first) == round(n * fraction)
    assert sorted(ids(first) + ids(second)) == sorted(ids(problems))
    assert ids(first) == ids(problems.split(fraction, seed)[0])


def test_a_split_by_sizes_keeps_the_order_and_depends_on_the_seed():
    problems = small(100)
    a, _ = problems.split((30, 50), seed=1)
    assert ids(a) == [i for i in ids(problems) if i in set(ids(a))]
    assert ids(a) != ids(problems.split((30, 50), seed=2)[0])


@pytest.mark.parametrize("options", [{}, {"template": "flips_without_runs"}])
def test_no_statement_is_in_two_parts(options):
    problems = ProblemSet("aime", load_problems("aime", n=1000, **options))
    assert len({p.statement for p in problems}) < 1000
    for sizes, lengths in ((0.8, [800, 200]), ((700, 200), [700, 200]), ((300,) * 3, [300] * 3)):
        parts = problems.split(sizes, seed=0)
        statements = [{p.statement for p in part} for part in parts]
        assert sum(map(len, statements)) == len(set.union(*statements))
        assert [len(part) for part in parts] == lengths


@pytest.mark.parametrize("sizes", [0.0, 1.0, -1, (8, 3), (0, 5), ()])
def test_unfit_split_sizes_are_refused(sizes):
    with pytest.raises(ConfigError):
        small().split(sizes)


def test_samples_are_different_problems_and_follow_the_generator():
    problems = small(50)
    drawn = problems.sample(np.random.default_rng(3), 20)
    assert len(set(ids(drawn))) == 20
    assert drawn == problems.sample(np.random.default_rng(3), 20)
    assert drawn != problems.sample(np.random.default_rng(4), 20)
    with pytest.raises(ConfigError):
        problems.sample(np.random.default_rng(0), 51)


def test_filters():
    problems = small()
    assert ids(problems.filter(level=1)) == ["p1", "p4", "p7"]
    assert ids(problems.filter(level=[0, 2])) == ["p0", "p2", "p3", "p5", "p6", "p8", "p9"]
    assert ids(problems.filter(lambda p: int(p.reference) > 5, level={1, 2})) == ["p5", "p7", "p8"]
    assert ids(problems.filter(level=1).filter(lambda p: p.id > "p1")) == ["p4", "p7"]
    assert len(problems.filter(subject="geometry")) == 0
    with pytest.raises(ConfigError):
        problems.filter()


def test_an_endless_set_is_lazy_and_refuses_to_be_walked_through():
    problems = load_problems("arithmetic")
    assert problems.endless and problems.generated
    assert problems[999_999_999].id == "arithmetic/train/0/999999999"
    assert len(problems[5:25]) == 20 and not problems[5:25].endless
    assert problems[5:25].by_id("arithmetic/train/0/5") == problems[5]
    with pytest.raises(KeyError):
        problems[5:25].by_id("arithmetic/train/0/25")
    assert problems.by_id("arithmetic/train/0/77") == problems[77]
    assert len(problems.sample(np.random.default_rng(0), 4)) == 4
    with pytest.raises(ConfigError):
        problems.filter(level=3)
    with pytest.raises(ConfigError):
        problems.split(0.5)


@pytest.mark.parametrize(
    "unknown", ["arithmetic/train/0/-1", "arithmetic/train/0/007", "arithmetic/test/0/7", "p7", "7", "²"]
)
def test_an_endless_set_knows_only_its_own_ids(unknown):
    with pytest.raises(KeyError):
        load_problems("arithmetic").by_id(unknown)


def test_content_hashes_tell_sets_apart():
    same = small().content_hash() == small(name="renamed").content_hash()
    assert same, "the hash is of the content, not of the name"
    assert small().content_hash() != small(9).content_hash()


def test_content_hashes_tell_how_answers_are_judged():
    kinds = [{}, {"ordered": True}, {"ordered": False}, {"integer": True}, {"rubric": [{"text": "Short."}]}]
    sets = [ProblemSet("m", [Problem("p", "Which?", "2, 5", metadata=metadata)]) for metadata in kinds]
    assert len({problems.content_hash() for problems in sets}) == len(kinds)
    plain = ProblemSet("m", [Problem("p", "Which?", "2, 5", metadata={"level": 3, "target": 7})])
    assert plain.content_hash() == sets[0].content_hash(), "other metadata do not count"


@pytest.mark.parametrize(
    "make", [small, lambda: load_problems("aime", level=2)[:9], lambda: small().filter(level=1)]
)
def test_sets_travel_to_other_processes(make):
    problems = make()
    copy = pickle.loads(pickle.dumps(problems))
    assert list(copy) == list(problems)
    assert copy.manifest() == problems.manifest()


def test_the_hash_of_a_generated_list_covers_all_of_it():
    def made(last):
        problems = [Problem(f"p{i}", "How many?", str(i)) for i in range(HASHED)]
        return ProblemSet("made", [*problems, Problem("last", "How many?", last)], generated=True)

    assert made("1").content_hash() == made("1").content_hash() != made("2").content_hash()
