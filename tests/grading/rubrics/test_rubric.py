import json
from pathlib import Path

import pytest
from rows import read_rows

from mars_env import ask
from mars_env.envs import GameFunction, solve
from mars_env.errors import ConfigError
from mars_env.grading.rubrics import Rubric
from mars_env.testing import check_game
from mars_env.types import Problem


def test_rows_come_back_as_they_were():
    rows = [
        {"id": "a", "text": "A.", "points": 2.0, "tags": ["style"]},
        {"id": "b", "text": "B.", "points": -1.0, "tiers": [[0.0, "no"], [0.5, "some"], [1.0, "much"]]},
        {"id": "c", "text": "C.", "points": 1.0, "check": {"most_words": 9}},
    ]
    assert Rubric.from_rows(rows).rows() == rows
    assert Rubric.from_rows(json.loads(json.dumps(rows))) == Rubric.from_rows(rows)
    assert [c.id for c in Rubric.from_rows(rows).tagged(["style"]).criteria] == ["a"]


def test_rows_of_healthbench_and_of_ruscarl_are_read():
    rule = ["verifier:rule", "function:math_verify", "parameters:42"]
    health = {"criterion": "Names a doctor.", "points": 7, "tags": ["level:example", "axis:accuracy"]}
    rubric = Rubric.from_rows([health, {"criterion": "", "points": 1, "tags": rule}])
    assert rubric.criteria[0].text == "Names a doctor." and not rubric.criteria[0].check
    assert (rubric.criteria[1].check, rubric.criteria[1].value) == ("answer", "42")


@pytest.mark.parametrize("rows", read_rows(Path(__file__).with_name("unreadable.jsonl")), ids=str)
def test_a_rubric_that_cannot_be_read_says_where(rows):
    with pytest.raises(ConfigError):
        Rubric.from_rows(rows)


def test_no_observation_contains_a_rubric():
    def leaky(problem):
        return (yield ask("solver", problem=str(problem.metadata)))

    with pytest.raises(AssertionError):
        check_game(GameFunction(leaky, solve.options), Problem("p", "2 + 2?", "4"))
