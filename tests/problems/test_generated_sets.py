"""What all generated sets share: seeds, splits and senseless options; and the embedded set `programs`."""

import asyncio
import collections
import itertools

import numpy as np
import pytest
from command_line import run_python
from sandboxes import need_a_sandbox

from mars_env import load_problems
from mars_env.errors import ConfigError
from mars_env.grading.code.validate import validate_problems
from mars_env.problems.hub_code import CODE_SETS
from mars_env.problems.programs import programs_problems

SETS = {"aime": {"level": 1}, "arithmetic": {"max_terms": 1}, "reports": {}}


def load(name, **options):
    return load_problems(name, **SETS[name], **options)


@pytest.mark.parametrize("name", SETS)
def test_splits_share_no_statement(name):
    statements = {
        (split, seed): {p.statement for p in load(name, n=300, split=split, seed=seed)}
        for split in ("train", "test")
        for seed in (0, 1)
    }
    for a, b in itertools.product((0, 1), repeat=2):
        assert not statements["train", a] & statements["test", b]
    assert len(statements["train", 0] - statements["train", 1]) > 100


@pytest.mark.parametrize("name", SETS)
def test_a_problem_depends_on_seed_and_index(name):
    problems, again = load(name, seed=5), load(name, seed=np.int64(5))
    assert problems.endless and [problems[i] for i in (3, 10**6, 3)] == [again[i] for i in (3, 10**6, 3)]
    assert problems[3] != load(name, seed=6)[3] and problems.by_id(problems[7].id) == problems[7]
    with pytest.raises(KeyError):
        problems.by_id(load(name, seed=6)[3].id)


def test_another_process_makes_the_same_problems():
    names = ("aime", "arithmetic", "programs", "reports")
    code = f"import mars_env; print(*(mars_env.load_problems(n, n=40).content_hash() for n in {names}))"
    other = run_python(code, check=True, env={"PYTHONHASHSEED": "77"})
    assert other.stdout.split() == [load_problems(name, n=40).content_hash() for name in names]


@pytest.mark.parametrize(
    ("name", "options"),
    [
        *(("aime", {"seed": seed}) for seed in ("1", True)),
        *(("aime", {"level": level}) for level in (6, [])),
        *(("aime", {"n": "3"}), ("aime", {"name": "mine"}), ("aime", {"template": "riddle"})),
        ("aime", {"template": "necklaces", "level": 1}),
        *(("arithmetic", {"min_terms": low, "max_terms": high}) for low, high in ((0, 3), (4, 3), (1, 26))),
        *(("programs", {"split": "x"}), ("programs", {"level": 4})),
        *((name, {"split": "nowhere"}) for name in CODE_SETS),
    ],
)
def test_senseless_options(name, options):
    with pytest.raises(ConfigError):
        load_problems(name, **options)


def test_programs_are_many_in_all_forms_and_levels():
    problems = programs_problems()
    assert len(problems) >= 60
    counts = collections.Counter((p.metadata["level"], p.metadata["form"]) for p in problems)
    assert len(counts) == 9 and min(counts.values()) >= 6
    for problem in problems:
        assert problem.metadata["public_tests"] == 2 and len(problem.reference["tests"]) >= 6
        assert problem.reference["solutions"][0] not in problem.statement
    parts = [{p.id for p in programs_problems(split=s)} for s in ("train", "test")]
    assert not parts[0] & parts[1] and len(parts[0] | parts[1]) == len(problems)
    assert {p.metadata["level"] for p in load_problems("programs", level=[2, 3])} == {2, 3}


@pytest.mark.slow
def test_programs_are_fit_for_training():
    need_a_sandbox()
    found = asyncio.run(validate_problems(programs_problems()[::4], n_mutants=4))
    assert [v for v in found if not v.fit] == []
    assert sum(v.caught for v in found) > 0.85 * sum(v.mutants for v in found)
