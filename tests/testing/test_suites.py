"""The contract suites refuse environments and graders that break their promises."""

from contextlib import nullcontext
from types import SimpleNamespace

import pytest

import mars_env
from mars_env.envs import Game, MarsEnv, solve_verify_correct
from mars_env.grading import grader_for
from mars_env.testing import check_env, check_grader
from mars_env.types import Grade, Problem, Verdict

PROBLEM = Problem("p", "What is 2 + 2?", "4")


class Leaky(MarsEnv):
    """Shows the reference: to the agent whose turn it is, to those who wait, or in an info of theirs."""

    place = ""

    def observe(self, agent):
        seen = dict(super().observe(agent))
        if self.place == ("acting" if agent == self.agent_selection else "waiting"):
            seen["problem"] += f" ({self.problem.reference})"
        return seen

    def step(self, action):
        super().step(action)
        if self.place == "info":
            for agent in self.agents:
                if agent != self.agent_selection:
                    self.infos[agent]["hint"] = self.problem.reference


@pytest.mark.parametrize(
    ("place", "message"),
    [("acting", "observation"), ("waiting", "observation"), ("info", "info"), ("", None)],
)
def test_no_agent_may_be_shown_the_reference(monkeypatch, place, message):
    monkeypatch.setattr(Leaky, "place", place)

    def make(**options):
        game = Game(solve_verify_correct(), grader_for("math"))
        return Leaky(game, mars_env.load_problems("arithmetic", n=3), **options)

    refused = pytest.raises(AssertionError, match=f"the {message} of .* contains the reference")
    with refused if message else nullcontext():
        check_env(make, cycles=2)


class Shaped:
    """Grades right, in a shape that the engine does not take."""

    def __init__(self, shape):
        self.shape = shape

    async def grade(self, problem, text):
        return self.shape(Verdict.CORRECT if text == problem.reference else Verdict.WRONG)


def test_a_grader_must_give_grades():
    check_grader(Shaped(lambda verdict: Grade(verdict, float(verdict == "CORRECT"))), PROBLEM, "4", "5")
    for shape in (lambda verdict: SimpleNamespace(verdict=verdict), str, lambda verdict: None):
        with pytest.raises(AssertionError):
            check_grader(Shaped(shape), PROBLEM, "4", "5")
    with pytest.raises(AssertionError):
        check_grader(object(), PROBLEM, "4", "5")


def test_a_grader_that_raises_on_a_hostile_text_is_told_which():
    class Strict:
        async def grade(self, problem, text):
            return Grade.correct() if int(text) == 4 else Grade.wrong("another number")

    with pytest.raises(AssertionError):
        check_grader(Strict(), PROBLEM, "4", "5")
