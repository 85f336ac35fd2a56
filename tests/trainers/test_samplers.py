"""The models that sample in a training: a probe that finds wrong weights, and engines made for a team."""

import asyncio
import copy
from typing import ClassVar

import pytest
import torch
from messages import raises
from tiny_team import Rows, brief, environment, settings, tiny

from mars_env.errors import ConfigError, ModelError
from mars_env.models import HFModel, vllm
from mars_env.rollout import PipelineSettings
from mars_env.trainers import LocalTrainer, Policy, make_team, samplers
from mars_env.trainers.loop import Texts, fit, train
from mars_env.trainers.lora import LoRASettings, add_adapters
from mars_env.trainers.samplers import COARSE, TOLERANCE, Samplers, probe_ids
from mars_env.types import Completion

GAP = "policy/one/probe_gap"


def pair(name="one", seed=0, dtype=torch.float32):
    """A policy, and a model with a copy of its weights."""
    trained = tiny(name, seed).module
    return Policy(trained), HFModel((copy.deepcopy(trained).to(dtype), None), name=name)


def learned(policy, size=0.02):
    """An update of the policy."""
    with torch.no_grad():
        for parameter in policy.model.parameters():
            parameter += size * torch.ones_like(parameter)
    policy.version += 1


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float32, TOLERANCE["float32"] / 100), (torch.bfloat16, COARSE / 3)]
)
def test_the_gap_of_a_faithful_copy_is_far_below_the_tolerance(dtype, tolerance):
    policy, model = pair(dtype=dtype)
    bring = Samplers({"one": model})
    for version in range(3):
        assert 0 <= bring({"one": policy})[GAP] < tolerance
        assert model.version == version
        learned(policy)


def stale(model):
    model.refresh = lambda weights, version: setattr(model, "version", version)


def shallow(model):
    model.module.model.layers = model.module.model.layers[:0]
    load = model.module.load_state_dict
    model.module.load_state_dict = lambda state: load(state, strict=False)


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


@pytest.mark.parametrize("plant", [stale, shallow, mislabelled, broken])
def test_a_sampler_without_the_weights_is_named_with_both_versions(plant):
    policy, model = pair()
    bring = Samplers({"one": model})
    bring({"one": policy})
    plant(model)
    learned(policy)
    with raises(ModelError):
        bring({"one": policy})


def test_the_limit_is_a_setting():
    policy, model = pair()
    stale(model)
    learned(policy)
    gap = Samplers({"one": model}, 100.0)({"one": policy})[GAP]
    with raises(ModelError):
        Samplers({"one": model}, gap / 2)({"one": policy})


def test_swapped_adapters_are_found():
    pytest.importorskip("peft", reason="adapters need the extra lora")

    def two():
        return add_adapters(tiny("base").module, ["one", "two"], LoRASettings(rank=4, alpha=8))

    policies = {name: Policy(adapter) for name, adapter in two().items()}
    for size, policy in zip((0.1, -0.2), policies.values(), strict=True):
        learned(policy, size)
    right = {name: HFModel((adapter, None), name=name) for name, adapter in two().items()}
    assert len(Samplers(right)(policies)) == 2
    swapped = {"one": right["two"], "two": right["one"]}
    for model in swapped.values():
        stale(model)
    with raises(ModelError):
        Samplers(swapped)(policies)


def test_the_probe_covers_the_vocabulary_and_is_always_the_same():
    prompt, tokens = probe_ids(1000)
    assert (prompt, tokens) == probe_ids(1000)
    assert (len(prompt), len(tokens)) == (1, samplers.PROBE)
    assert min(tokens) < 100 and max(tokens) > 900


def test_shared_weights_are_not_probed_and_copies_are_in_every_update():
    log = Rows()
    for staleness in (0, 1):
        env = environment(1)
        wanted = settings(steps=1, pipeline=PipelineSettings(staleness=staleness))
        team = make_team(wanted, env.possible_agents, [tiny("one")], agent=brief)
        asyncio.run(train(env.game, team, env.problems, wanted, loggers=[log]))
    rows = log.rows
    assert [GAP in row for row in rows] == [False, True]
    assert rows[1][GAP] < TOLERANCE["float32"] / 100


class Engine:
    """Stands in for `VLLMModel`: notes what happens to it, and scores with the weights that it got."""

    made: ClassVar[list] = []

    def __init__(self, model, **options):
        self.model, self.options, self.events = model, options, []
        self.name, self.dtype, self.version = options["name"], "float32", 0
        type(self).made.append(self)

    def adapter(self, weights, *, name, version=0):
        self.events.append(("adapter", name))
        other = copy.copy(self)
        other.name, other.weights = name, weights
        return other

    def refresh(self, weights, version=None):
        self.events.append(("refresh", version))
        self.weights, self.version = copy.deepcopy(weights), version

    def sleep(self):
        self.events.append(("sleep", self.version))

    async def score(self, prompt, *texts, end=True):
        found = HFModel((self.weights, None)).logprobs(prompt, texts[0])
        return Completion("", logprobs=tuple(found), versions=((self.version, len(found)),))

    async def complete(self, prompt, n, sampling):
        raise AssertionError("it is not asked for samples")


@pytest.fixture
def engines(monkeypatch):
    monkeypatch.setattr(samplers, "VLLMModel", Engine)
    monkeypatch.setattr(Engine, "made", [])
    return Engine.made


def on_disk(tmp_path, name="one", seed=0):
    model = tiny(name, seed)
    model.module.save_pretrained(tmp_path / name)
    model.tokenizer.save_pretrained(tmp_path / name)
    return HFModel(tmp_path / name, name=name, device="cpu")


@pytest.mark.parametrize(("staleness", "kind"), [(0, "offline"), (1, "async")])
def test_a_team_on_vllm_trains_its_models_and_samples_from_engines(tmp_path, engines, staleness, kind):
    env, wanted = environment(1), settings(pipeline=PipelineSettings(staleness=staleness))
    model = on_disk(tmp_path)
    team = make_team(
        wanted,
        env.possible_agents,
        [model],
        agent=brief,
        engine="vllm?eager=true&max_num_seqs=7&dtype=float32",
    )
    [engine] = engines
    assert engine.options["engine"] == kind and engine.options["eager"] is True
    assert engine.options["options"] == {"max_num_seqs": 7, "dtype": "float32", "max_model_len": 256}
    assert (engine.model, engine.name) == (str(tmp_path / "one"), "one")
    assert {agent.model for agent in team.agents.values()} == {engine}
    assert team.policies["one"].model is model.module

    async def batches(done):
        while True:
            yield Texts({})

    asyncio.run(fit(LocalTrainer(team.policies), batches, 2, refresh=team.refresh))
    assert engine.events == [("refresh", 0), ("sleep", 0), ("refresh", 0), ("sleep", 0), ("refresh", 0)]


def test_adapters_share_an_engine_with_room_for_their_rank(tmp_path, engines):
    pytest.importorskip("peft", reason="adapters need the extra lora")
    base = on_disk(tmp_path)
    adapters = add_adapters(base.module, ["a", "b"], LoRASettings(rank=9))
    models = [HFModel((adapter, base.tokenizer), name=name) for name, adapter in adapters.items()]
    ahead = settings(pipeline=PipelineSettings(staleness=1))
    team = make_team(ahead, environment(2).possible_agents, models, agent=brief, engine="vllm")
    [engine] = engines
    assert engine.options["max_lora_rank"] == 16
    assert engine.events == [("adapter", "a"), ("adapter", "b")]
    assert {name: policy.model for name, policy in team.policies.items()} == adapters


@pytest.mark.parametrize("engine", ["vlm", "hf?eager=true", ""])
def test_other_engines_are_refused(engine):
    with raises(ConfigError):
        make_team(settings(), ["coder_0"], [tiny("one")], engine=engine)


def test_vllm_needs_a_checkpoint(engines):
    with raises(ConfigError):
        make_team(settings(), ["coder_0"], [tiny("one")], engine="vllm")


def test_a_user_s_own_refresh_may_give_metrics_or_nothing():
    log = Rows()

    async def batches(done):
        yield Texts({})

    async def later(policies):
        return {"engine/lag": 3.0}

    for refresh in (lambda policies: None, lambda policies: {"engine/lag": 2.0}, later):
        asyncio.run(fit(LocalTrainer({"one": pair()[0]}), batches, 1, refresh=refresh, loggers=[log]))
    assert [row.get("engine/lag") for row in log.rows] == [None, 2.0, 3.0]


def test_the_stand_in_has_what_it_stands_in_for():
    for name in ("adapter", "refresh", "sleep", "score", "complete"):
        assert callable(getattr(vllm.VLLMModel, name))
