"""Environments under ids of the user."""

from typing import ClassVar

import pytest
from messages import raises
from pydantic import BaseModel, PositiveInt

import mars_env
from mars_env.api import make_gymnasium
from mars_env.envs import RulesSpec, Solve, registry
from mars_env.envs.growers import Linear
from mars_env.envs.rewards import outcome, team_outcome
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


def test_a_misspelt_argument_is_suggested_beside_the_settings():
    team = {"agents": lambda seen: "4"}
    for wrong, meant, call in (
        ("sample", "samples", lambda **given: mars_env.evaluate("arithmetic-tree-search", **team, **given)),
        ("problem", "problems", lambda **given: mars_env.make("arithmetic-solve", **given)),
        ("lerner", "learner", lambda **given: make_gymnasium("arithmetic-solve", **given)),
        ("on_turns", "on_turn", lambda **given: solve("2 + 2?", **team, **given)),
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


class Debate:
    """Rules whose own setting has the name of an argument, and that declare their defaults."""

    class Settings(BaseModel):
        agents: PositiveInt = 2
        kind: str = "oxford"

    rewards: ClassVar = {"solver": outcome}
    team_reward = staticmethod(team_outcome)
    training: ClassVar = {"agents": 3}

    def __init__(self, settings):
        self.chosen, self._solve = settings, Solve()

    def __getattr__(self, name):
        return getattr(self._solve, name)


def test_rules_declare_settings_and_defaults():
    registry.register_rules("debate", Debate)
    game = mars_env.make("arithmetic-debate", settings={"agents": 4}, kind="free").game
    assert game.rules.chosen == Debate.Settings(agents=4, kind="free")
    assert game.rewards == {"solver": outcome} and game.team_reward is team_outcome
    assert registry.rules_spec("debate").training == {"agents": 3}
    for wrong in ({"agents": 0}, {"agent": 1}):
        with raises(ConfigError):
            mars_env.make("arithmetic-debate", settings=wrong)


def test_settings_may_have_the_names_of_arguments():
    registry.register_rules("debate", Debate)
    settings = {"agents": 5, "kind": "free"}
    for call in (mars_env.evaluate, Answerer):
        with raises(ConfigError):
            call("arithmetic-debate", agents=lambda seen: "4", settings={**settings, "agents": 0})
    report = mars_env.evaluate("arithmetic-debate", agents=lambda seen: "4", limit=1, settings=settings)
    assert report.counts.episodes == 1
    assert Answerer("debate", lambda seen: "4", settings=settings).game.rules.chosen.kind == "free"


def test_arguments_replace_what_the_class_declares():
    registry.register_rules("debate", RulesSpec.of(Debate, training={}), rewards={})
    assert registry.rules_spec("debate").training == {} == registry.rules_spec("debate").rewards


@pytest.mark.parametrize("named", [True, False])
def test_an_environment_has_a_team_reward(named):
    def halved(tree):
        return {turn.id: 0.5 for turn in tree.turns}

    registry.register(
        "sums-halved", problems="arithmetic", rules="solve" if named else Solve, team_reward=halved
    )
    assert mars_env.make("sums-halved").game.team_reward is halved
    with raises(ConfigError):
        registry.register("sums-third", problems="arithmetic", rules="solve", team_reward=lambda: {})


def test_a_reward_for_a_misspelt_role_is_named():
    registry.register_rules("pairs", lambda revisions=0: Solve(revisions), rewards={"solvr": outcome})
    with raises(ConfigError):
        mars_env.make("arithmetic-pairs")
    registry.register_rules("pairs", lambda revisions=0: Solve(revisions), rewards={"judge": outcome})
    assert mars_env.make("arithmetic-pairs").game.rules.revisions == 0
