"""The step rewards of MarsRL."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_runs import GRADES
from turns import turn

from mars_env.envs.rewards import agreement, checked_team_rewards, outcome
from mars_env.envs.verdicts import read_judgement
from mars_env.types import Problem, Tree


def reward_of(text, grade):
    """The reward of a report on a solution with this grade."""
    judgement = read_judgement(text)
    info = {"verdict": "Correct" if judgement.passed else "Wrong", "malformed": judgement.malformed}
    report = turn("0.0", None, agent="verifier_0", info=info)
    return agreement(report, [turn("0", None, grade=GRADES[grade])], None)


@pytest.mark.parametrize(
    ("text", "rewards"),
    [
        ("Correctness: Correct", [1.0, 0.0, None]),
        ("Correctness: Wrong", [0.0, 1.0, None]),
        ("lorem ipsum", [0.0, 0.0, None]),
    ],
)
def test_a_verdict_is_paid_for_agreement_and_a_malformed_one_never(text, rewards):
    assert [reward_of(text, grade) for grade in "+-?"] == rewards


@given(st.text() | st.sampled_from(["Correctness: Correct", "Correctness: Wrong", "correctness: **wrong**."]))
def test_a_text_is_paid_on_right_or_on_wrong_solutions_and_never_on_both(text):
    assert reward_of(text, "+") + reward_of(text, "-") == (0.0 if read_judgement(text).malformed else 1.0)


def test_a_turn_without_a_verdict_earns_nothing():
    solution = turn("0", None, grade=GRADES["-"])
    assert agreement(turn("0.0", None, agent="verifier_0"), [solution], None) == 0.0
    assert agreement(turn("0.0", None, agent="verifier_0"), [], None) is None


def test_a_solution_earns_the_score_of_its_grade():
    turns = [*(turn("0", None, grade=GRADES[grade]) for grade in "+-?"), turn("0", None)]
    assert [outcome(solution, [], None) for solution in turns] == [1.0, 0.0, None, None]


def test_an_invalid_reward_of_a_team_costs_its_own_turn_alone():
    tree = Tree("p#0", Problem("p", "?", "1"), (turn("0", None), turn("0.0", None)))
    rewards, faults = checked_team_rewards({"0": math.nan, "0.0": 0.5}, tree)
    assert rewards == {"0": None, "0.0": 0.5} and set(faults) == {"0"}
