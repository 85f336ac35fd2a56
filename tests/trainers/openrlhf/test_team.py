"""Who acts in a run with OpenRLHF, and with which policy."""

import pytest
from messages import raises

from mars_env.agents.registry import roles_of
from mars_env.agents.thinking import Thinking
from mars_env.errors import ConfigError
from mars_env.methods.spell.rules import Spell
from mars_env.miniature.agents import MiniatureAgent
from mars_env.models.scripted import ScriptedModel
from mars_env.trainers.openrlhf.settings import TeamSettings
from mars_env.trainers.openrlhf.team import POLICY, agents_by_name, policy_by_agent
from mars_env.types import Sampling, role_of

NAMES = ["solver_0", "verifier_0", "corrector_0"]
SAMPLING = Sampling(temperature=0.85, max_tokens=32)
MODELS = {POLICY: ScriptedModel(["4"], name=POLICY)}


def policies(names, *policies, **settings):
    made = TeamSettings(env="aime-solve", policies=dict.fromkeys(policies, "base"), **settings)
    return policy_by_agent(made, names)


def team(**settings):
    return agents_by_name(
        TeamSettings(env="arithmetic-solve-verify-correct", **settings), NAMES, MODELS, SAMPLING
    )


def asks_for_the_moon(model, moon):
    return {}


def forgets_the_corrector(model, names, policy):
    return {name: MiniatureAgent("solver", model, policy=policy) for name in names[:2]}


def test_policies():
    coders = ("coder_0", "coder_1", "coder_2")
    assert policies(coders, "a", "b", plays={"coder": "a", "coder_1": "b"}) == {
        "coder_0": "a", "coder_1": "b", "coder_2": "a",
    }  # fmt: skip
    assert policies(NAMES, "a") == dict.fromkeys(NAMES, "a")
    assert policies(NAMES) == dict.fromkeys(NAMES, POLICY)
    others = {"solver": "scripted:42"}
    assert policies(NAMES, "a", "b", others=others) == {"verifier_0": "a", "corrector_0": "b"}


@pytest.mark.parametrize(
    ("names", "plays"),
    [
        (["a", "b"], {}),
        (["a", "b"], {"solver": "a"}),
        (["a", "b"], {"solver": "a", "verifier": "a", "corrector": "a"}),
        (["a"], {"judge": "a"}),
        (["a"], {"solver": "c"}),
    ],
)
def test_misfits(names, plays):
    with raises(ConfigError):
        policies(NAMES, *names, plays=plays)


def test_library_agents():
    made = team(thinking="opened", others={"verifier_0": "scripted:42"})
    assert [type(agent).__name__ for agent in made.values()] == ["Solver", "Verifier", "Corrector"]
    assert [agent.policy for agent in made.values()] == [POLICY, "scripted", POLICY]
    assert {agent.sampling for agent in made.values()} == {SAMPLING}
    assert made["solver_0"].thinking == Thinking(opened=True)


def test_function():
    made = team(agents="mars_env.miniature.agents:team")
    assert all(isinstance(agent, MiniatureAgent) for agent in made.values())
    assert {agent.policy for agent in made.values()} == {POLICY}


@pytest.mark.parametrize("function", ["asks_for_the_moon", "forgets_the_corrector"])
def test_unfit_function(function, monkeypatch):
    monkeypatch.setattr("mars_env.trainers.openrlhf.team.import_object", lambda name: globals()[name])
    with raises(ConfigError):
        team(agents=function)


def test_agents_of_rules():
    rules = Spell()
    settings = TeamSettings(env="reports-spell", others={"responder": "scripted:42"})
    made = agents_by_name(settings, rules.possible_agents, MODELS, SAMPLING, roles=roles_of(rules))
    assert {name: type(agent) for name, agent in made.items()} == {
        name: roles_of(rules)[role_of(name)] for name in rules.possible_agents
    }
