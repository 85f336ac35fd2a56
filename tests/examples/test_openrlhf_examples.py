"""Python files beside the run files of examples/openrlhf: own rules, agents and rewards; roles."""

import importlib
from pathlib import Path

import pytest

from mars_env.testing import check_game
from mars_env.types import Action, Grade, Problem, Turn

EXAMPLES = Path(__file__).parents[2] / "examples" / "openrlhf"
PROBLEM = Problem("p", "What is 2 + 2?", "4")


@pytest.fixture(autouse=True)
def beside_the_settings(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))


@pytest.fixture
def calibration():
    return importlib.import_module("calibration")


def test_the_game_keeps_the_contract(calibration):
    check_game(calibration.assessed, PROBLEM)


@pytest.mark.parametrize(
    ("grade", "stated", "reward"),
    [
        (Grade.correct(), 0.7, 0.91),
        (Grade.wrong("no"), 0.7, 0.51),
        (Grade.wrong("no"), None, 0.0),
        (Grade.unknown("lost"), 0.7, None),
    ],
)
def test_assessments_are_rewarded_by_briers_score(calibration, grade, stated, reward):
    solution = Turn("t", "0", None, "g", "solver_0", "", "p", Action("4"), grade)
    assessment = Turn("t", "0.0", "0", "g", "assessor_0", "", "p", Action(""), info={"probability": stated})
    assert calibration.brier(assessment, [solution], PROBLEM) == pytest.approx(reward)
