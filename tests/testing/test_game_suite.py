"""The contract suites of games and of environments pass the library's own, and find what is broken."""

from contextlib import nullcontext

import pytest

import mars_env
from mars_env.envs import Game, MarsEnv, solve, solve_verify_correct
from mars_env.envs.game_function import GameFunction, GameOptions
from mars_env.envs.rules import Reply, ask
from mars_env.grading import grader_for
from mars_env.testing import check_env, check_game
from mars_env.types import Problem

PROBLEM = Problem("p", "What is 2 + 2?", "4")


SCHEDULES = [{}, {"schedule": "training"}, {"rounds": 0}]


@pytest.mark.parametrize("rules", [solve(), *(solve_verify_correct(**schedule) for schedule in SCHEDULES)])
def test_the_librarys_games_keep_the_contract(rules):
    check_game(rules, PROBLEM)


def game_of(function, max_turns=3):
    options = GameOptions(max_turns=max_turns, roles={"solver": None}, fields={"solver": ["problem"]})
    return GameFunction(function, options)


def leak(problem):
    return (yield ask("solver", problem=f"{problem.statement} (hint: {problem.reference})"))


def grade(problem):
    first = yield ask("solver", problem="")
    return (yield ask("solver", problem=f"{first.grade and first.grade.score}"))


def late_grade(problem):
    first = yield ask("solver", problem="")
    yield ask("solver", problem="")
    return (yield ask("solver", problem=f"{first.grade and first.grade.score}"))


def assumed_grade(problem):
    first = yield ask("solver", problem="")
    return first if first.grade.score else None


def endless(problem):
    while True:
        yield ask("solver", problem="")


def unknown_role(problem):
    yield ask("solver", problem="", extra="x")


def foreign_answer(problem):
    reply = yield ask("solver", problem="")
    return Reply(reply.action, {})


def feedback(problem):
    reply = yield ask("solver", problem="")
    if not reply.feedback:
        yield ask("solver", problem="")
    return reply


def not_plain(problem):
    return (yield ask("solver", problem="", info={"seen": {1, 2}}))


@pytest.mark.parametrize(
    "function",
    [leak, grade, late_grade, assumed_grade, endless, unknown_role, foreign_answer, feedback, not_plain],
)
def test_the_contract_finds_what_is_broken(function):
    with pytest.raises(AssertionError):
        check_game(game_of(function), PROBLEM)


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
