import collections
import itertools
import statistics
import subprocess
import sys
import time

import numpy as np
import pytest
from messages import raises

from mars_env.errors import ConfigError
from mars_env.problems import load_problems
from mars_env.problems.aime import LEVELS, TEMPLATES


def test_problems_are_complete():
    for problem in load_problems("aime", n=300):
        assert problem.kind == "math"
        assert problem.reference == str(int(problem.reference)) and 0 <= int(problem.reference) <= 999
        assert problem.metadata["source"] == "mars_env generated"
        assert problem.metadata["licence"] == "Apache-2.0"
        assert problem.metadata["generated"] is True and problem.metadata["integer"] is True
        template = TEMPLATES[problem.metadata["template"]]
        assert (problem.metadata["level"], problem.metadata["topic"]) == (template.level, template.topic)
        assert set(problem.id) <= set("abcdefghijklmnopqrstuvwxyz0123456789_-/")


def test_thousands_are_distinct():
    problems = load_problems("aime", n=3000)
    assert len({p.statement for p in problems}) > 2800
    answers = collections.Counter(p.reference for p in problems)
    assert answers.most_common(1)[0][1] < 60, "no answer is worth guessing"


def test_levels_come_up_equally_and_all_templates_come_up():
    problems = load_problems("aime", n=3000)
    levels = collections.Counter(p.metadata["level"] for p in problems)
    assert sorted(levels) == list(LEVELS)
    assert all(500 < count < 700 for count in levels.values())
    assert {p.metadata["template"] for p in problems} == set(TEMPLATES)


def test_train_and_test_share_no_statement_whatever_the_seed():
    sets = {
        (split, seed): {p.statement for p in load_problems("aime", n=800, split=split, seed=seed, level=1)}
        for split in ("train", "test")
        for seed in (0, 1)
    }
    for a, b in itertools.product((0, 1), repeat=2):
        assert not sets["train", a] & sets["test", b]
    assert len(sets["train", 0] - sets["train", 1]) > 300


def test_a_problem_depends_on_seed_and_index_alone():
    problems = load_problems("aime", seed=5)
    late = problems[1000]
    assert [problems[i] for i in (3, 1000, 3)] == [problems[3], late, problems[3]]
    assert problems[3].statement != load_problems("aime", seed=6)[3].statement


def test_a_seed_is_a_whole_number():
    plain, of_numpy = load_problems("aime", seed=1, n=2), load_problems("aime", seed=np.int64(1), n=2)
    assert list(plain) == list(of_numpy) and plain.manifest() == of_numpy.manifest()
    for seed in ("1", 1.0, True, None):
        with raises(ConfigError):
            load_problems("aime", seed=seed)


def test_another_process_makes_the_same_problems():
    code = (
        "from mars_env.problems import load_problems;"
        "print(load_problems('aime', n=40, seed=9).content_hash(),"
        " load_problems('arithmetic', n=40, seed=9).content_hash())"
    )
    other = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": "77"}
    ).stdout.split()
    ours = [load_problems(name, n=40, seed=9).content_hash() for name in ("aime", "arithmetic")]
    assert other == ours


def test_options_choose_templates():
    problems = load_problems("aime", n=60, level=[2, 5], topic="geometry", split="test")
    assert {(p.metadata["level"], p.metadata["topic"]) for p in problems} == {
        (2, "geometry"),
        (5, "geometry"),
    }
    assert problems[7].id == "aime-level25-geometry/test/0/7"
    assert problems.by_id(problems[7].id) == problems[7]
    one = load_problems("aime", n=5, template="necklaces")
    assert {p.metadata["template"] for p in one} == {"necklaces"}
    assert load_problems("aime", topic="number theory")[0].id == "aime-number_theory/train/0/0"


@pytest.mark.parametrize(
    "options",
    [
        {"level": 6},
        {"level": []},
        {"topic": "calculus"},
        {"template": "riddle"},
        {"template": "necklaces", "level": 1},
        {"split": "validation"},
    ],
)
def test_unknown_options_are_refused(options):
    with raises(ConfigError):
        load_problems("aime", **options)


@pytest.mark.parametrize("name", sorted(TEMPLATES))
def test_every_template_fills_the_rarer_split(name):
    assert len(load_problems("aime", n=25, template=name, split="test", seed=1).content_hash()) == 32


def test_making_a_problem_is_fast():
    problems, seconds = load_problems("aime"), []
    for i in range(200):
        begin = time.process_time()
        problems[i]
        seconds.append(time.process_time() - begin)
    assert statistics.median(seconds) < 0.005
