"""What is told before a run: keys, names and lost servers are in tests/cli/test_command_line.py."""

import logging

import pytest
from exact_engine import Engine

from mars_env.errors import ConfigError
from mars_env.models import HTTPModel
from mars_env.models.preflight import preflight
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
