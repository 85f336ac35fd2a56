"""The models that sample in a training: a probe that finds wrong weights."""

import asyncio
import copy
import re

import pytest
import torch
from tiny_team import Rows, brief, environment, settings, tiny
from transformers import AutoModelForCausalLM

from mars_env.errors import ModelError
from mars_env.models import HFModel
from mars_env.rollout import PipelineSettings
from mars_env.trainers import Policy, make_team
from mars_env.trainers.loop import train
from mars_env.trainers.lora import add_adapters
from mars_env.trainers.samplers import Refresher

READ = "policy/one/weights_read"


def pair(name="one", seed=0, dtype=torch.float32):
    """A policy, and a model with a copy of its weights."""
    trained = tiny(name, seed).module
    return Policy(trained), HFModel((copy.deepcopy(trained).to(dtype), None), name=name)


def twelve_layers():
    """Random weights in twelve layers."""
    config = copy.deepcopy(tiny("one").module.config)
    config.num_hidden_layers, config.layer_types = 12, ["full_attention"] * 12
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return AutoModelForCausalLM.from_config(config)


def learned(policy, size=0.02):
    """An update of the policy."""
    with torch.no_grad():
        for parameter in policy.model.parameters():
            parameter += size * torch.ones_like(parameter)
    policy.version += 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_faithful_copy_is_compared_in_every_update(dtype):
    policy, model = pair(dtype=dtype)
    bring = Refresher({"one": model})
    for version in range(3):
        assert bring({"one": policy}) == {READ: 1.0}
        assert model.version == version
        learned(policy)


def stale(model):
    model.refresh = lambda weights, version: setattr(model, "version", version)


def without_the_last_layer(model):
    load, last = model.module.load_state_dict, f".{len(model.module.model.layers) - 1}."
    model.module.load_state_dict = lambda state: load(
        {name: tensor for name, tensor in state.items() if last not in name}, strict=False
    )


def with_swapped_layers(model):
    load, swapped = model.module.load_state_dict, {"0": "1", "1": "0"}

    def renamed(name):
        return re.sub(r"layers\.([01])\.", lambda match: f"layers.{swapped[match[1]]}.", name)

    model.module.load_state_dict = lambda state: load({renamed(name): state[name] for name in state})


def mislabelled(model):
    refresh = model.refresh
    model.refresh = lambda weights, version: refresh(weights, version - 1)


def broken(model):
    refresh = model.refresh

    def spoil(weights, version):
        refresh(weights, version)
        with torch.no_grad():
            model.module.lm_head.weight.fill_(torch.nan)

    model.refresh = spoil


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("plant", [stale, without_the_last_layer, with_swapped_layers, mislabelled, broken])
def test_a_sampler_without_the_weights_is_found_after_one_small_update(plant, dtype):
    """Also where it is one update of 1e-6 behind in bfloat16, or lacks one layer of twelve."""
    trained = twelve_layers()
    policy, model = Policy(trained), HFModel((copy.deepcopy(trained).to(dtype), None), name="one")
    bring = Refresher({"one": model})
    bring({"one": policy})
    plant(model)
    learned(policy, 1e-6)
    with pytest.raises(ModelError):
        bring({"one": policy})


def test_an_update_that_rounding_loses_is_no_fault():
    policy, model = pair(dtype=torch.bfloat16)
    bring = Refresher({"one": model})
    bring({"one": policy})
    stale(model)
    learned(policy, 0.0)
    assert bring({"one": policy}) == {READ: 1.0}


def test_swapped_adapters_are_found():
    pytest.importorskip("peft", reason="adapters need the extra lora")

    def two():
        return add_adapters(tiny("base").module, ["one", "two"], rank=4)

    policies = {name: Policy(adapter) for name, adapter in two().items()}
    for size, policy in zip((0.1, -0.2), policies.values(), strict=True):
        learned(policy, size)
    right = {name: HFModel((adapter, None), name=name) for name, adapter in two().items()}
    assert len(Refresher(right)(policies)) == 2
    swapped = {"one": right["two"], "two": right["one"]}
    for model in swapped.values():
        stale(model)
    with pytest.raises(ModelError):
        Refresher(swapped)(policies)


def test_shared_weights_need_no_proof_and_copies_are_compared_in_every_update():
    log = Rows()
    for staleness in (0, 1):
        env = environment(1)
        wanted = settings(steps=1, pipeline=PipelineSettings(staleness=staleness))
        team = make_team(wanted, env.possible_agents, [tiny("one")], agent=brief)
        asyncio.run(train(env.game, team, env.problems, wanted, loggers=[log]))
    rows = log.rows
    assert [row.get(READ) for row in rows] == [None, 1.0]
