from itertools import product

import pytest

from mars_env.envs.solve_verify_correct import INFERENCE, TRAINING, Schedule, SolveVerifyCorrect
from mars_env.types import Action, Completion, Problem

PROBLEM = Problem("p", "What is 2 + 2?", "4")
PASS, FAIL = "Fine.\nCorrectness: Correct", "Step 1 is wrong.\nCorrectness: Wrong"


def play(schedule, verdicts):
    """Play with numbered solutions and the given verdicts; the agents that acted, and the last state."""
    rules, verdicts = SolveVerifyCorrect(schedule), iter(verdicts)
    state, acted = rules.start(PROBLEM), []
    while (agent := rules.current_agent(state)) is not None:
        acted.append(agent[0])
        text = next(verdicts) if agent == "verifier_0" else f"solution {len(state.solutions)}"
        state = rules.apply(state, Action(text), None)
    return "".join(acted), state, rules


def test_training_chain_of_the_paper():
    acted, state, rules = play(TRAINING, [FAIL, FAIL])
    assert acted == "svcvc"
    assert rules.final(state) == 2  # never judged: the chain ended with it


@pytest.mark.parametrize(
    ("schedule", "verdicts", "acted", "final"),
    [
        (TRAINING, [PASS], "sv", 0),
        (TRAINING, [FAIL, PASS], "svcv", 1),
        # Inference: four passes in a row accept, ten failures give up, eleven verifications at most.
        (INFERENCE, [PASS, PASS, FAIL, PASS, PASS, PASS, PASS], "svvvcvvvv", 1),
        (INFERENCE, [FAIL] * 20, "s" + "vc" * 9 + "v", 0),
        (INFERENCE, [PASS, FAIL] * 20, "s" + "vvc" * 5 + "v", 0),
        # Without acceptance: the solution most often judged correct, ties to the earliest.
        (Schedule(rounds=6, accept_after=3), [PASS, FAIL, PASS, PASS, FAIL, PASS, FAIL], "svvcvvvcvv", 1),
        (Schedule(rounds=3, accept_after=2), [PASS, FAIL, PASS, FAIL], "svvcvv", 0),
    ],
)
def test_schedules(schedule, verdicts, acted, final):
    played, state, rules = play(schedule, verdicts)
    assert (played, rules.final(state)) == (acted, final)


@pytest.mark.parametrize(
    "schedule", [INFERENCE, TRAINING, Schedule(rounds=1, accept_after=2), Schedule(rounds=0)]
)
def test_every_sequence_of_verdicts_ends_within_the_schedule(schedule):
    for verdicts in product([PASS, FAIL, "no verdict"], repeat=4):
        acted, state, rules = play(schedule, [*verdicts, *[FAIL] * 20])
        assert acted.startswith("s")
        assert acted.count("v") <= schedule.verifications
        assert acted.count("c") <= schedule.verifications
        assert 0 <= rules.final(state) < len(state.solutions)


def test_observations_are_what_each_agent_may_see():
    rules = SolveVerifyCorrect(TRAINING)
    state = rules.apply(rules.start(PROBLEM), Action("cut off", (Completion("cut off", "length"),)), None)
    assert rules.observe(state, "solver_0") == {"problem": PROBLEM.statement}
    assert rules.observe(state, "verifier_0") == {
        "problem": PROBLEM.statement,
        "solution": "cut off",
        "truncated": 1,
        "round": 0,
    }
    state = rules.apply(state, Action("Correctness: Wrong"), None)
    assert "gave no details" in rules.observe(state, "corrector_0")["report"]


def test_solutions_are_submitted_and_reports_are_not():
    rules = SolveVerifyCorrect(TRAINING)
    state = rules.start(PROBLEM)
    assert rules.submission(state, Action("4")) == "4"
    state = rules.apply(state, Action("4"), None)
    assert rules.submission(state, Action(PASS)) is None
    assert rules.note(state, Action("?")) == {
        "round": 0,
        "truncated": False,
        "verdict": "Wrong",
        "malformed": True,
    }
