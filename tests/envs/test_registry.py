"""Environments under ids of the user."""

import pytest

import mars_env
from mars_env.api import make_gymnasium
from mars_env.envs import Solve, registry
from mars_env.envs.growers import Linear
from mars_env.errors import ConfigError
from mars_env.serving.answering import Answerer, solve


@pytest.fixture(autouse=True)
def registered_here(monkeypatch):
    for name in ("_RULES", "_IDS"):
        monkeypatch.setattr(registry, name, dict(getattr(registry, name)))


def other(rules, problem, tree_id, seed):
    return Linear(rules, problem, tree_id, seed)


def half(turn, path, problem):
    return 0.5


def test_rewards_and_grower_of_an_id_replace_those_of_its_named_rules():
    rules = "solve-verify-correct"
    mars_env.register("my-sums", problems="arithmetic", rules=rules, rewards={"solver": half}, grower=other)
    mars_env.register("my-plain-sums", problems="arithmetic", rules=rules)
    mine, plain = mars_env.make("my-sums").game, mars_env.make("my-plain-sums").game
    assert (mine.rewards["solver"], mine.grower) == (half, other)
    assert (plain.rewards["solver"], plain.grower) == (plain.rewards["corrector"], Linear)
    assert mine.rewards["verifier"] is plain.rewards["verifier"]
    team = {"solver": lambda seen: "4", "verifier": lambda seen: "", "corrector": lambda seen: "4"}
    report = mars_env.evaluate("my-sums", agents=team, limit=2)
    assert report.metrics["reward:solver"].estimate.value == 0.5


def test_a_reward_of_named_rules_must_fit():
    with pytest.raises(ConfigError):
        mars_env.register("my-sums", problems="arithmetic", rules="solve", rewards={"solver": lambda turn: 1})


def test_a_misspelt_argument_is_suggested_beside_the_settings():
    team = {"agents": lambda seen: "4"}
    for wrong, meant, call in (
        ("sample", "samples", lambda **given: mars_env.evaluate("arithmetic-solve", **team, **given)),
        (
            "sample",
            "samples",
            lambda **given: mars_env.evaluate("arithmetic-solve-verify-correct", **team, **given),
        ),
        ("sample", "samples", lambda **given: mars_env.evaluate("arithmetic-tree-search", **team, **given)),
        ("problem", "problems", lambda **given: mars_env.make("arithmetic-solve", **given)),
        ("lerner", "learner", lambda **given: make_gymnasium("arithmetic-solve", **given)),
        ("on_turns", "on_turn", lambda **given: solve("2 + 2?", **team, **given)),
        ("widht", "width", lambda **given: Answerer("solve", **team, **given)),
        ("revision", "revisions", lambda **given: mars_env.evaluate("arithmetic-solve", **team, **given)),
    ):
        with pytest.raises(ConfigError) as caught:
            call(**{wrong: 3})
        assert repr(wrong) in str(caught.value) and repr(meant) in str(caught.value)


def test_rules_that_check_their_settings_are_asked():
    given = []

    def rules(**settings):
        given.append(settings)
        return Solve()

    mars_env.register_rules("my-open-rules", rules)
    mars_env.make("arithmetic-my-open-rules", sample=3)
    assert given == [{"sample": 3}]
