"""What is told before a run: keys, names and lost servers are in tests/cli/test_command_line.py."""

import logging
from dataclasses import replace

import pytest
from exact_engine import Engine

import mars_env
from mars_env.agents import GenerativeJudge, make_agents
from mars_env.envs.search_graders import RewardModelGrader, VerifierGrader
from mars_env.envs.selection import Highest
from mars_env.errors import ConfigError, ModelError
from mars_env.grading.rubrics import RubricGrader
from mars_env.models import HTTPModel
from mars_env.models.preflight import models_of, preflight
from mars_env.rollout.segments import SegmentedModel
from mars_env.serving.recorder import Recorder
from mars_env.types import Sampling


class Playing:
    """An agent, as far as a check before a run looks at one."""

    def __init__(self, model, **sampling):
        self.model, self.sampling = model, Sampling(**{"temperature": 1.0, **sampling})


@pytest.fixture
async def engine():
    async with Engine() as running:
        yield running


@pytest.mark.parametrize("lacks", ["logprobs", "token_ids"])
async def test_a_server_without_what_training_needs_is_told_before_a_run(engine, lacks):
    model = HTTPModel(engine.url, "m", exact=True)
    await preflight({"solver_0": Playing(model)}, trained=["solver_0"])
    engine.lacks = (lacks,)
    with pytest.raises(ConfigError):
        await preflight({"solver_0": Playing(model)})


async def test_a_trained_agent_must_ask_for_tokens_and_another_need_not(engine):
    model = HTTPModel(engine.url, "m")
    agents = {"solver_0": Playing(model), "verifier_0": Playing(model)}
    await preflight(agents)
    with pytest.raises(ConfigError):
        await preflight(agents, trained=["verifier_0"])
    assert engine.requests == []


@pytest.mark.parametrize("sampling", [{"temperature": 0.6}, {"top_p": 0.9}, {"top_k": 20}])
async def test_log_probabilities_of_another_distribution_are_told(engine, sampling, caplog):
    biased = HTTPModel(engine.url, "m", exact=True, extra_body={"repetition_penalty": 1.1, "priority": 2})
    with pytest.raises(ConfigError):
        await preflight({"solver_0": Playing(biased)}, trained=["solver_0"])
    model = HTTPModel(engine.url, "m", exact=True)
    agents = {"solver_0": Playing(model, **sampling)}
    with pytest.raises(ConfigError):
        await preflight(agents, trained=agents)
    with caplog.at_level(logging.WARNING):
        await preflight(agents)  # its texts may be all that is wanted
    assert "turns of solver_0 cannot be trained on later" in caplog.text
    caplog.clear()
    processed = HTTPModel(engine.url, "m", exact=True, logprobs="processed")
    await preflight({"solver_0": Playing(processed, **sampling)}, trained=agents)
    assert not caplog.text


async def test_a_name_that_is_not_listed_but_answered_is_warned_of(engine, caplog):
    for name in ("n", "m"):
        await preflight({"solver_0": Playing(HTTPModel(engine.url, name))})
    [warning] = [record for record in caplog.records if record.name.endswith("preflight")]
    assert "'n'" in warning.message and "only m" in warning.message


async def test_every_replica_is_asked():
    async with Engine() as one, Engine() as two:
        two.lacks = ("logprobs",)
        model = HTTPModel([one.url, two.url], "m", exact=True)
        with pytest.raises(ConfigError):
            await preflight({"solver_0": Playing(model)})
        assert model.endpoints == [one.url, two.url]
        assert len(one.requests) == 1


async def test_models_inside_others_and_those_that_judge_are_asked():
    gone = HTTPModel("http://127.0.0.1:9/v1", "gone", attempts=1)
    game = mars_env.make("arithmetic-solve").game
    for model in (SegmentedModel(gone, 8), gone):
        with pytest.raises(ModelError):
            await preflight({"solver_0": Playing(model)})
    judging = RewardModelGrader(GenerativeJudge(gone))
    for grader in (RubricGrader(gone), VerifierGrader(Playing(gone)), judging):
        with pytest.raises(ModelError):
            await preflight({}, replace(game, grader=grader))
    assert gone in models_of(Highest(GenerativeJudge(gone)))
    search = mars_env.make("arithmetic-tree-search", agents=1, reward_model=GenerativeJudge(gone)).game
    with pytest.raises(ModelError):
        await preflight(make_agents("scripted:4", search.rules.possible_agents), search)


def test_an_evaluation_asks_the_judge_before_it_plays(tmp_path):
    judge = RubricGrader(HTTPModel("http://127.0.0.1:9/v1", "gone", attempts=1))
    settings = {"agents": "scripted:4", "limit": 1, "out": tmp_path / "run"}
    with pytest.raises(ModelError):
        mars_env.evaluate("arithmetic-solve", grader=judge, **settings)


async def test_the_recorder_asks_its_engine(tmp_path):
    async with Engine() as engine:
        recorder = Recorder(engine.url, tmp_path)
        await recorder.check()
        engine.lacks = ("logprobs",)
        with pytest.raises(ConfigError):
            await recorder.check()
        engine.status = 401  # a key that only the program has
        await recorder.check()
    with pytest.raises(ModelError):
        await recorder.check()
