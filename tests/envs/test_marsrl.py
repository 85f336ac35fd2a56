import pytest

from mars_env.envs import solve_verify_correct
from mars_env.types import Action, Completion, Problem

PROBLEM = Problem("p", "What is 2 + 2?", "4")
PASS, FAIL = "Fine.\nCorrectness: Correct", "Step 1 is wrong.\nCorrectness: Wrong"
TRAINING, INFERENCE = {"schedule": "training"}, {}


def play(settings, verdicts):
    """Play with numbered solutions and the given verdicts; the agents that acted, and the answer's number."""
    rules, verdicts = solve_verify_correct(**settings), iter(verdicts)
    state, acted = rules.start(PROBLEM), []
    while (agent := rules.current_agent(state)) is not None:
        acted.append(agent[0])
        text = next(verdicts) if agent == "verifier_0" else f"solution {len(acted)}"
        state = rules.apply(state, Action(text), None)
    return "".join(acted), rules.final(state)


@pytest.mark.parametrize(
    ("settings", "verdicts", "acted", "final"),
    [
        (TRAINING, [FAIL, FAIL], "svcvc", 2),  # the last one was never judged: the chain ended with it
        (TRAINING, [PASS], "sv", 0),
        (TRAINING, [FAIL, PASS], "svcv", 1),
        # Inference: four passes in a row accept, ten failures give up, eleven verifications at most.
        (INFERENCE, [PASS, PASS, FAIL, PASS, PASS, PASS, PASS], "svvvcvvvv", 1),
        (INFERENCE, [FAIL] * 20, "s" + "vc" * 9 + "v", 0),
        (INFERENCE, [PASS, FAIL] * 20, "s" + "vvc" * 5 + "v", 0),
        # Without acceptance: the solution most often judged correct, ties to the earliest.
        ({"rounds": 6, "accept_after": 3}, [PASS, FAIL, PASS, PASS, FAIL, PASS, FAIL], "svvcvvvcvv", 1),
        ({"rounds": 3, "accept_after": 2}, [PASS, FAIL, PASS, FAIL], "svvcvv", 0),
    ],
)
def test_schedules(settings, verdicts, acted, final):
    assert play(settings, verdicts) == (acted, final)


def test_each_agent_sees_its_fields_and_solutions_alone_are_graded():
    rules = solve_verify_correct(schedule="training")
    state = rules.start(PROBLEM)
    assert rules.submission(state, Action("4")) == "4"
    state = rules.apply(state, Action("cut off", (Completion("cut off", "length"),)), None)
    assert rules.observe(state, "solver_0") == {"problem": PROBLEM.statement}
    seen = {"problem": PROBLEM.statement, "solution": "cut off", "truncated": 1}
    assert rules.observe(state, "verifier_0") == {**seen, "feedback": ""}
    assert rules.submission(state, Action(PASS)) is None
    note = {"truncated": False, "verdict": "Wrong", "malformed": True}
    assert rules.note(state, Action("?")) == note
    state = rules.apply(state, Action("Correctness: Wrong"), None)
    assert "gave no details" in rules.observe(state, "corrector_0")["report"]
