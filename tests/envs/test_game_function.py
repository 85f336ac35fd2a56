"""What `mars_env.game` makes of a function: settings, roles, fields, and play by hand."""

import pytest

from mars_env.agents import RoleAgent, Solver
from mars_env.agents.registry import roles_of
from mars_env.envs.game_function import GAMES, GameFunction, GameOptions
from mars_env.envs.rules import End, ask
from mars_env.errors import ConfigError
from mars_env.types import Problem

PROBLEM = Problem("p", "What is 2 + 2?", "4")


class Critic(RoleAgent):
    template = "{{ problem }}\nCorrect this: {{ attempt }}"


def two_tries(problem, *, hint: str = "", presets_are: int = 1):
    first = yield ask("solver", problem=problem.statement)
    second = yield ask("critic", problem=problem.statement, attempt=first.text + hint)
    return second


def made(function=two_tries, **options):
    options = {"max_turns": 2, "roles": {"solver": Solver, "critic": Critic}, **options}
    return GameFunction(function, GameOptions(**options))


def test_fields_are_what_the_default_agents_prompt_reads():
    rules = made()()
    assert [*rules.fields("critic_0")] == ["attempt", "problem"]
    assert {*rules.fields("solver_0")} == {"feedback", "kind", "problem", "solution", "truncated"}
    assert [*made(fields={"solver": ["problem"]})().fields("solver_0")] == ["problem"]
    assert roles_of(rules)["critic"] is Critic


def test_play_by_hand_shows_what_is_asked():
    game = made()
    played = game.play(PROBLEM, ["5"], hint="!")
    assert (played.pending.role, played.pending.fields["attempt"]) == ("critic", "5!")
    ended = game.play(PROBLEM, ["5", "4"])
    assert isinstance(ended.pending, End) and ended.pending.answer is ended.replies[1]
    with pytest.raises(ConfigError):
        game.play(PROBLEM, ["5", "4", "3"])


def test_settings_are_checked_and_presets_are_a_schedule():
    game = made(presets={"training": {"hint": "?"}})
    assert game(schedule="training", presets_are=2).settings.model_dump() == {"hint": "?", "presets_are": 2}
    assert game.training == {"schedule": "training"} and made().training == {}
    for wrong in ({"hint": 3}, {"hnt": ""}, {"schedule": "inference"}, {"presets_are": "2"}):
        with pytest.raises(ConfigError):
            game(**wrong)


def no_generator(problem):
    return None


def no_default(problem, *, tries):
    yield


def positional(problem, tries=1):
    yield


def no_problem():
    yield


@pytest.mark.parametrize("function", [no_generator, no_default, positional, no_problem, 3, two_tries("p")])
def test_what_is_no_game_is_rejected(function):
    with pytest.raises(ConfigError):
        made(function)


@pytest.mark.parametrize(
    "options",
    [
        {"max_turns": 0},
        {"max_turns": "2"},
        {"roles": ["solver"]},
        {"roles": {}},
        {"roles": {"my solver": None}},
        {"roles": {"solver": Solver, "solver_0": Solver}},
        {"roles": {"solver": None, "critic": Critic}},
        {"roles": {"solver": 3, "critic": "no.such:Class"}},
        {"rewards": {"solver": lambda turn: 1.0}},
        {"rewards": [lambda turn, path, problem: 1.0]},
        {"team_reward": lambda: {}},
    ],
)
def test_options_that_do_not_fit(options):
    with pytest.raises(ConfigError):
        rules = made(**options)()
        roles_of(rules)
        rules.start(PROBLEM)


def test_a_game_of_a_notebook_has_no_source():
    """Cells are compiled from strings, under names of files that are not there."""
    cell = """
from mars_env import ask, game, make
@game(max_turns=1, roles={"solver": "mars_env.agents:Solver"})
def once(problem):
    return (yield ask("solver", problem=problem.statement))
assert make(once, problems="arithmetic").game.rules.name == "once"
assert once.play(make("arithmetic-once").problems[0]).pending.role == "solver"
"""
    exec(compile(cell, "<ipython-input-1>", "exec"), {"__name__": "__main__"})  # noqa: S102 (a cell)
    del GAMES["once"]
