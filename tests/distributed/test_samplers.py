"""Which weights a sampler acts with, and the team with samplers, without Ray."""

import asyncio
import pickle
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mars_env.distributed.samplers import SamplingAgent, SamplingModels, Weights, push_weights
from mars_env.errors import ConfigError
from mars_env.types import Action


def weights(number):
    states = asyncio.get_running_loop().create_future()
    states.set_result({"p": number})
    return Weights(number, {"p": number}, states)


@dataclass
class Model:
    """Remembers its weights; `acting` counts acts under way, `mixed` whether one saw a change."""

    version: int = -1
    acting: int = 0
    mixed: bool = False
    fails: bool = False
    refreshed: list[int] = field(default_factory=list)

    def refresh(self, state, version):
        if self.fails:
            raise RuntimeError("another shape")
        self.mixed |= self.acting > 0
        self.version = version
        self.refreshed.append(version)


@dataclass
class Player:
    model: Model
    policy: str = "p"

    async def act(self, observation, n, seed):
        self.model.acting += 1
        version = self.model.version
        for _ in range(seed):
            await asyncio.sleep(0)
        self.model.acting -= 1
        return [Action(str(version))]


def sampler(exact, model=None):
    model = model or Model()
    return SamplingAgent(Player(model), SamplingModels({"p": [model]}, exact)), model


acts = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3), st.integers(0, 6)), max_size=12)


@given(acts, st.booleans())
async def test_no_act_is_older_than_demanded_and_exact_acts_are_never_mixed(wanted, exact):
    agent, model = sampler(exact)

    async def act(least, ahead, turns):
        given = weights(least if exact else least + ahead)
        [action] = await agent.act({}, 1, turns, given, least)
        return int(action.text), least

    pushes = [push_weights({"a": agent}, weights(number)) for number in range(3)]
    *versions, _, _, _ = await asyncio.gather(*(act(*each) for each in wanted), *pushes)
    for version, least in versions:
        assert version == least if exact else version >= least
    if exact:
        assert not model.mixed
    else:
        assert model.refreshed == sorted(set(model.refreshed))  # never an older one, none twice


async def test_weights_that_do_not_fit_are_an_error_of_the_act_and_the_next_act_tries_again():
    agent, model = sampler(False, Model(fails=True))
    with pytest.raises(ConfigError):
        await agent.act({}, 1, 0, weights(0), 0)
    model.fails = False
    [action] = await agent.act({}, 1, 0, weights(1), 1)
    assert action.text == "1"


def test_a_model_is_sent_with_its_weights_and_locks_its_own_module():
    torch = pytest.importorskip("torch", reason="models need torch: pip install 'mars-env[hf]'")
    from mars_env.models import tiny_model

    model = tiny_model(context=64)
    copy = pickle.loads(pickle.dumps(model))
    assert copy.lock is not model.lock and copy.identity() == model.identity()
    for name, value in model.module.state_dict().items():
        assert torch.equal(copy.module.state_dict()[name], value)


async def test_a_model_that_does_not_take_its_weights_is_found():
    pytest.importorskip("torch", reason="training needs torch: pip install 'mars-env[hf]'")
    from mars_env.models import tiny_model
    from mars_env.trainers.elsewhere import sampling_agents

    model, trained = tiny_model(context=64), tiny_model(seed=1, context=64).module.state_dict()
    agent = sampling_agents(lambda: {"a": Player(model)}, frozenset({"p"}), False)["a"]
    states = asyncio.get_running_loop().create_future()
    states.set_result({"p": trained})
    model.refresh = lambda weights, version: setattr(model, "version", version)
    with pytest.raises(ConfigError):
        await push_weights({"a": agent}, Weights(0, {"p": 0}, states))
    del model.refresh
    await push_weights({"a": agent}, Weights(1, {"p": 1}, states))
    assert model.version == 1
