"""Environments under ids of the user, and what names a game."""

import pytest

import mars_env
from mars_env import ask, game
from mars_env.envs import game_function, registry, solve_verify_correct
from mars_env.errors import ConfigError
from mars_env.serving.answering import Answerer


@pytest.fixture(autouse=True)
def registered_here(monkeypatch):
    for module, name in ((game_function, "GAMES"), (registry, "_IDS")):
        for key, value in dict(getattr(module, name)).items():
            monkeypatch.setitem(getattr(module, name), key, value)
        monkeypatch.delitem(getattr(module, name), "one-try", raising=False)


SOLVER = {"solver": "mars_env.agents:Solver"}


def one_try(problem, *, agents: int = 2, kind: str = "oxford"):
    return (yield ask("solver", problem=problem.statement))


def test_settings_may_have_the_names_of_arguments():
    game(max_turns=1, roles=SOLVER)(one_try)
    settings = {"agents": 5, "kind": "free"}
    for call in (mars_env.evaluate, Answerer):
        with pytest.raises(ConfigError):
            call("arithmetic-one-try", agents=lambda seen: "4", settings={**settings, "agents": "many"})
    report = mars_env.evaluate("arithmetic-one-try", agents=lambda seen: "4", limit=1, settings=settings)
    assert report.counts.episodes == 1
    assert Answerer("one-try", lambda seen: "4", settings=settings).game.rules.settings.kind == "free"
    assert mars_env.make("arithmetic-one-try").game.rules.settings.kind == "math"  # of the problems


def test_a_game_is_named_by_itself_its_name_its_module_or_an_id():
    made = game(max_turns=1, roles=SOLVER)(one_try)
    for named in (made, "one-try", "arithmetic-one-try"):
        env = mars_env.make(named, problems="arithmetic")
        assert env.game.rules.name == "one-try"
        report = mars_env.evaluate(named, agents=lambda seen: "4", problems="arithmetic", limit=1)
        assert report.counts.episodes == 1
        assert mars_env.solve("2 + 2?", agents=lambda seen: r"\boxed{4}", env_id=named).answer == "4"
    named = "mars_env.envs:solve_verify_correct"
    assert mars_env.spec(named).game is solve_verify_correct
    for nowhere in (made, "one-try", named):
        with pytest.raises(ConfigError):
            mars_env.make(nowhere)


def test_the_same_name_again_replaces_a_game_and_an_id_names_its_own():
    first, second = (game(max_turns=1, roles=SOLVER)(one_try) for _ in range(2))
    assert registry.find_game("one-try") is second is not first
    mars_env.register("my-sums", problems="arithmetic", game=first)
    assert mars_env.spec("my-sums").game is first and "my-sums" in mars_env.list_envs()
    with pytest.raises(ConfigError):
        mars_env.register("arithmetic-solve", problems="arithmetic", game=first)
    with pytest.raises(ConfigError):
        mars_env.register("other-sums", problems="arithmetic", game=one_try)


def test_a_name_that_other_libraries_have_is_suggested_as_it_is_here():
    with pytest.raises(ConfigError, match="did you mean 'samples'"):
        mars_env.evaluate("arithmetic-solve", agents=lambda seen: "4", n=2)
