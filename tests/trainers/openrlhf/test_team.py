"""Who plays in a run with OpenRLHF."""

import pytest
from messages import raises

from mars_env.agents.registry import roles_of
from mars_env.agents.thinking import Thinking
from mars_env.errors import ConfigError
from mars_env.methods.spell.rules import Spell
from mars_env.miniature.agents import MiniatureAgent
from mars_env.models.scripted import ScriptedModel
from mars_env.trainers.openrlhf.settings import TeamSettings
from mars_env.trainers.openrlhf.team import POLICY, make_team
from mars_env.types import Sampling, role_of

NAMES = ["solver_0", "verifier_0", "corrector_0"]
SAMPLING = Sampling(temperature=0.85, max_tokens=32)


def team(**settings):
    settings = TeamSettings(env="arithmetic-solve-verify-correct", **settings)
    return make_team(settings, NAMES, ScriptedModel(["4"]), SAMPLING)


def asks_for_the_moon(model, moon):
    return {}


def forgets_the_corrector(model, names, policy):
    return {name: MiniatureAgent("solver", model, policy=policy) for name in names[:2]}


def test_the_library_s_own_agents_play_by_default():
    made = team(thinking="opened")
    assert [type(agent).__name__ for agent in made.values()] == ["Solver", "Verifier", "Corrector"]
    assert {agent.policy for agent in made.values()} == {POLICY}
    assert {agent.sampling for agent in made.values()} == {SAMPLING}
    assert made["solver_0"].thinking == Thinking(opened=True)


def test_a_function_makes_a_team_of_its_own():
    made = team(agents="mars_env.miniature.agents:team")
    assert all(isinstance(agent, MiniatureAgent) for agent in made.values())
    assert {agent.policy for agent in made.values()} == {POLICY}


def test_others_play_where_they_are_named():
    made = team(others={"solver_0": "scripted:42"})
    assert made["solver_0"].policy == "scripted"
    assert made["verifier_0"].policy == POLICY


@pytest.mark.parametrize(
    "function",
    ["asks_for_the_moon", "forgets_the_corrector"],
)
def test_a_function_that_does_not_fit_is_refused(function, monkeypatch):
    monkeypatch.setattr("mars_env.trainers.openrlhf.team.resolve", lambda name: globals()[name])
    with raises(ConfigError):
        team(agents=function)


def test_rules_name_their_agents():
    rules = Spell()
    settings = TeamSettings(env="reports-spell", others={"responder": "scripted:42"})
    made = make_team(settings, rules.possible_agents, ScriptedModel(["4"]), SAMPLING, roles=roles_of(rules))
    assert {name: type(agent) for name, agent in made.items()} == {
        name: roles_of(rules)[role_of(name)] for name in rules.possible_agents
    }
