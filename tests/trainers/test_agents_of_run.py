"""Who acts in a run, and with which policy."""

import pytest

from mars_env.agents.registry import roles_of
from mars_env.agents.thinking import Thinking
from mars_env.envs import solve_verify_correct
from mars_env.errors import ConfigError
from mars_env.methods.spell.rules import spell
from mars_env.miniature.agents import MiniatureAgent
from mars_env.models.scripted import ScriptedModel
from mars_env.trainers.assembly import POLICY, agents_by_name
from mars_env.trainers.recipes import RunSettings
from mars_env.types import Sampling, role_of

SAMPLING = Sampling(temperature=0.85, max_tokens=32)
MODELS = {POLICY: ScriptedModel(["4"], name=POLICY)}


def team(rules=None, **changes):
    settings = RunSettings(team={"model": "base", **changes}, sampling=SAMPLING)
    return agents_by_name(settings, rules or solve_verify_correct(), MODELS)


def asks_for_the_moon(model, moon):
    return {}


def forgets_the_corrector(model, names, policy):
    return {name: MiniatureAgent("solver", model, policy=policy) for name in names[:2]}


def test_library_agents():
    made = team(thinking="opened", others={"verifier_0": "scripted:42"})
    assert [type(agent).__name__ for agent in made.values()] == ["Solver", "Verifier", "Corrector"]
    assert [agent.policy for agent in made.values()] == [POLICY, "scripted", POLICY]
    assert {agent.sampling for agent in made.values()} == {SAMPLING}
    assert made["solver_0"].thinking == Thinking(opened=True)


@pytest.mark.parametrize("function", ["asks_for_the_moon", "forgets_the_corrector"])
def test_unfit_function(function, monkeypatch):
    monkeypatch.setattr("mars_env.trainers.assembly.import_object", lambda name: globals()[name])
    with pytest.raises(ConfigError):
        team(agents=function)


def test_agents_of_rules():
    rules = spell()
    made = team(rules, others={"responder": "scripted:42"})
    assert {name: type(agent) for name, agent in made.items()} == {
        name: roles_of(rules)[role_of(name)] for name in rules.possible_agents
    }
