"""Teams: whose weights each agent plays with, and what is refused before anything is played."""

import asyncio
from dataclasses import replace

import pytest
from tiny_checkpoint import tiny_checkpoint
from tiny_team import SAMPLING, brief, settings, tiny

import mars_env
from mars_env.envs import GroupedSettings
from mars_env.errors import ConfigError
from mars_env.models import HFModel
from mars_env.problems import ProblemSet
from mars_env.rollout import PipelineSettings
from mars_env.trainers import Team, TrainConfig, make_team, train
from mars_env.trainers.lora import add_adapters
from mars_env.types import Problem

PAIR = ["solver_0", "solver_1"]
ROLES = ["solver_0", "verifier_0", "corrector_0"]


def policies(names, models, **changes):
    players = make_team(settings(**changes), names, models, agent=brief)
    return {name: agent.policy for name, agent in players.agents.items()}


def test_one_model_is_shared_and_several_are_one_an_agent_or_by_name():
    one, two = tiny("one"), tiny("two", 1)
    assert policies(PAIR, [one]) == {"solver_0": "one", "solver_1": "one"}
    assert policies(PAIR, [one, two]) == {"solver_0": "one", "solver_1": "two"}
    assert policies(ROLES, {"solver": one, "verifier_0": two, "corrector": two}) == {
        "solver_0": "one",
        "verifier_0": "two",
        "corrector_0": "two",
    }


def test_a_checkpoint_in_16_bits_trains_as_it_does_from_a_run_file(tmp_path):
    """Audit E2: the same checkpoint was an error from Python."""
    model = HFModel(str(tiny_checkpoint(tmp_path)), name="one")
    assert model.dtype == "bfloat16"
    env = mars_env.make("arithmetic-solve")
    brief_run = settings(steps=1)
    team = make_team(brief_run, env.possible_agents, [model])
    (step,) = asyncio.run(train(env.game, team, env.problems, brief_run))
    assert step.step == 1 and model.dtype == "float32"


@pytest.mark.parametrize(
    ("names", "models"),
    [
        (ROLES, ["one", "two"]),
        (PAIR, []),
        (PAIR, ["one", "one"]),
        (ROLES, {"solver": "one"}),
        (PAIR, {"solver": "one", "judge": "two"}),
    ],
)
def test_models_that_do_not_fit_the_agents_are_refused(names, models):
    made_of = {k: tiny(v) for k, v in models.items()} if isinstance(models, dict) else list(map(tiny, models))
    with pytest.raises(ConfigError):
        policies(names, made_of)


def test_adapters_do_not_sample_while_their_base_is_trained():
    pytest.importorskip("peft", reason="adapters need the extra lora")
    adapters = add_adapters(tiny("base").module, ["a", "b"], rank=2)
    models = [HFModel((adapter, None), name=name) for name, adapter in adapters.items()]
    with pytest.raises(ConfigError):
        policies(PAIR, models, pipeline=PipelineSettings(staleness=1))


def test_tools_by_name_know_the_problems_of_the_run():
    reference = {"form": "stdin", "tests": [{"input": "3", "output": "6", "public": True}]}
    problems = ProblemSet("p", [Problem("double", "Double it.", reference, "code")])
    asked = settings(team={"tools": "python+public_tests"})
    [coder] = make_team(asked, ["coder_0"], [tiny("a")], problems=problems).agents.values()
    assert (type(coder).__name__, coder.policy, coder.sampling) == ("Coder", "a", SAMPLING)
    assert [*coder.toolbox.by_name] == ["python", "public_tests"]
    with pytest.raises(ConfigError):
        make_team(asked, ["coder_0"], [tiny("a")])


@mars_env.game(max_turns=1, roles={"solver": "mars_env.agents:Solver"})
def ungraded(problem):
    """A game in which nothing is graded, so that no grade rewards its agents either."""
    yield mars_env.ask("solver", problem=problem.statement, graded=False)


def test_a_role_that_nothing_rewards_is_named():
    """Its turns would be left out without a word."""
    env = mars_env.make("arithmetic-solve")
    game = replace(env.game, rules=ungraded(), rewards={})
    grouped = settings(steps=1, rollouts=GroupedSettings(group=2), train=TrainConfig())
    players = make_team(grouped, game.rules.possible_agents, [tiny("one", positions=4096)])
    with pytest.raises(ConfigError):
        asyncio.run(train(game, players, env.problems, grouped))
    both = make_team(
        grouped, ["solver_0", "solver_1"], [tiny("one", positions=4096), tiny("other", positions=4096)]
    )
    frozen = Team(both.agents, {"other": both.policies["other"]})
    history = asyncio.run(train(game, frozen, env.problems, grouped))
    assert history[0].advantages.kept == 0
