"""The Verifier of solve-verify-correct reads the results of a program's public tests, and of no others."""

import asyncio
from dataclasses import replace

import pytest

import mars_env
from mars_env.envs import make_game, spec
from mars_env.envs.visibility import public_tests
from mars_env.players import assign_agents
from mars_env.problems.code import code_problem_from_row
from mars_env.rollout import Job, Store, collect, play
from mars_env.types import Verdict

ID = "programs-solve-verify-correct"
RIGHT = "```python\ndef f(x):\n    return 2 * x if x < 5 else 0\n```"
SHOWN_ONLY = "```python\ndef f(x):\n    return 2 * x\n```"  # passes the public tests alone
WRONG = "```python\ndef f(x):\n    return x\n```"
DOUBLE = code_problem_from_row({
    "id": "double", "prompt": "Return the double of x below 5, and 0 above.", "public_tests": 2,
    "mode": "function_call", "fn_name": "f", "inputs": [[1], [2], [7], [8]], "outputs": [2, 4, 0, 0],
})  # fmt: skip
PASS, FAIL = "Fine.\nCorrectness: Correct", "It is not.\nCorrectness: Wrong"


def private(problem, change):
    """The problem with other private tests."""
    tests = problem.reference["tests"]
    shown = public_tests(problem)
    hidden = [test for test in tests if not test["public"]]
    return replace(problem, reference={**problem.reference, "tests": [*shown, *change(hidden)]})


class Watched:
    """Agents that write the given programs in turn, and what the Verifier saw."""

    def __init__(self, programs=(WRONG, SHOWN_ONLY, RIGHT)):
        self.programs = programs
        self.seen = []

    def write(self, observation):
        written = self.programs.index(observation["solution"]) + 1 if "solution" in observation else 0
        return self.programs[min(written, len(self.programs) - 1)]

    def verify(self, observation):
        self.seen.append(dict(observation))
        return PASS if observation["feedback"].startswith("All") else FAIL

    def agents(self, game):
        return assign_agents(
            game.rules, {"solver": self.write, "verifier": self.verify, "corrector": self.write}
        )


def game_of(**settings):
    return make_game(spec(ID, **{"public_feedback": True, "schedule": "training", **settings}), kind="code")


def test_the_verifier_reads_it_in_the_aec_shell():
    env = mars_env.make(ID, problems=[DOUBLE], schedule="training", public_feedback=True)
    env.reset(seed=0)
    env.step(WRONG)
    seen = env.observe("verifier_0")
    assert env.observation_space("verifier_0").contains(seen)
    assert "Expected: 2" in seen["feedback"] and "Returned: 1" in seen["feedback"]
    assert "feedback" not in env.observe("solver_0") and "feedback" not in env.observe("corrector_0")
    env.step(FAIL)
    assert env.observe("verifier_0")["feedback"] == seen["feedback"]  # still that of the same program
    env.step(SHOWN_ONLY)
    assert env.observe("verifier_0")["feedback"] == "All 2 tests passed."
    assert env.tree.turns[-1].grade.verdict is Verdict.WRONG  # all tests judge it, as ever
    assert all(turn.search_score is None for turn in env.tree.turns)


def test_the_engine_shows_the_same_and_a_resumed_run_too(tmp_path):
    game, watched = game_of(), Watched((WRONG, WRONG, SHOWN_ONLY))
    (tree,) = asyncio.run(collect(game, watched.agents(game), [Job(DOUBLE)], seed=0))
    assert [seen["feedback"].split(".")[0] for seen in watched.seen] == ["0 tests passed"] * 2
    assert [turn.agent[0] for turn in tree.turns] == list("svcvc") and tree.final == tree.turns[-1].id

    again = Watched(watched.programs)
    with Store(tmp_path, {}, [DOUBLE]) as store:
        store.write_turns(tree.turns[:3])
    with Store(tmp_path, {}, [DOUBLE]) as store:
        resumed = asyncio.run(play(game, again.agents(game), Job(DOUBLE), seed=0, journal=store))
    assert again.seen == watched.seen[1:]
    assert [turn.text for turn in resumed.turns] == [turn.text for turn in tree.turns]


@pytest.mark.parametrize("programs", [(WRONG, SHOWN_ONLY), (SHOWN_ONLY,), (RIGHT,)])
def test_private_tests_change_nothing_that_the_verifier_sees(programs):
    game = game_of(schedule="inference", rounds=2, accept_after=2)
    changed = [
        private(DOUBLE, lambda tests: [{**test, "accept": [14, 16]} for test in tests[::-1]]),
        private(DOUBLE, lambda tests: []),
    ]
    found, grades = [], []
    for problem in (DOUBLE, *changed):
        watched = Watched(programs)
        (tree,) = asyncio.run(collect(game, watched.agents(game), [Job(problem)], seed=0))
        found.append((watched.seen, [(t.text, dict(t.info)) for t in tree.turns], tree.final))
        grades.append([turn.grade.verdict for turn in tree.turns if turn.grade])
    assert found[0] == found[1] == found[2]
    assert any(seen["feedback"] for seen in found[0][0])
    assert any(grades[0] != others for others in grades[1:]) or programs == (RIGHT,)
