"""Estimates of the memory of an update, beside what the update takes."""

import weakref
from functools import partial

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from transformers import AutoModelForCausalLM
from turns import turn

from mars_env.models import tiny_model
from mars_env.trainers import LocalTrainer, Policy, TrainConfig
from mars_env.trainers.architecture import architecture
from mars_env.trainers.lora import add_adapters
from mars_env.trainers.memory import Shape, estimate
from mars_env.types import Completion, Group

CONFIG = tiny_model(width=128, context=256).module.config
MODEL = architecture(CONFIG.to_dict())
WORDS = CONFIG.vocab_size


class Peak(TorchDispatchMode):
    """The most bytes of tensors that were alive at once, but for those that were there before."""

    def __init__(self, before):
        super().__init__()
        self.most = self.now = 0
        self._known = {tensor.untyped_storage()._cdata for tensor in before}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        results = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(results):
            if isinstance(leaf, torch.Tensor):
                self._count(leaf.untyped_storage())
        return results

    def _count(self, storage):
        key, size = storage._cdata, storage.nbytes()
        if key in self._known:
            return
        self._known.add(key)
        self.now += size
        self.most = max(self.most, self.now)
        weakref.finalize(storage, partial(self._freed, key, size))

    def _freed(self, key, size):
        self._known.discard(key)
        self.now -= size


def rows(shape):
    """Two micro-batches' worth of rows that share nothing."""
    draw = torch.Generator().manual_seed(0)
    for number in range(2 * shape.rows):
        ids = torch.randint(0, WORDS, (shape.prompt + shape.sampled,), generator=draw).tolist()
        ids[0] = number
        read, sampled = tuple(ids[: shape.prompt]), tuple(ids[shape.prompt :])
        completion = Completion("", "stop", read, sampled, (-1.0,) * shape.sampled)
        yield turn(str(number), float(number % 2), completion, policy="one")


SHORT, LONG = Shape(32, 32, 4), Shape(32, 96, 16)


@pytest.mark.parametrize(
    ("settings", "rank", "shape"),
    [
        ({}, None, LONG),
        ({"gradient_checkpointing": True, "most_logits": 20 * WORDS}, None, LONG),
        ({"autocast": True}, None, LONG),
        ({"gradient_checkpointing": True}, 4, SHORT),
    ],
)
def test_the_estimate_is_what_a_step_takes(settings, rank, shape):
    train = TrainConfig(
        token_budget=shape.rows * (shape.prompt + shape.sampled), shared_prefixes=False, **settings
    )
    memory = estimate(MODEL, train, shape, adapter_rank=rank)
    model = AutoModelForCausalLM.from_config(CONFIG, dtype=torch.float32)
    held = list(model.parameters())
    if rank:
        model = add_adapters(model, ["adapter"], rank=rank)["adapter"]
    trainer = LocalTrainer({"one": Policy(model)}, train)
    group = [Group("g", tuple(rows(shape)))]
    trainer.step(group)  # makes the moments
    peak = Peak([*held, *model.parameters()])
    with peak:
        trainer.step(group)
    update = sum(memory.training.values()) - memory.training["weights"] - memory.training["optimizer"]
    assert update == pytest.approx(peak.most, rel=0.25)


def test_weights_moments_and_copies_are_counted():
    full, offloaded = (estimate(MODEL, TrainConfig(offload=offload), SHORT) for offload in (False, True))
    parameters = MODEL.parameters
    assert (full.training["weights"], full.training["optimizer"]) == (4 * parameters, 8 * parameters)
    assert offloaded.training["weights"] == 2 * parameters
    assert offloaded.host == 16 * parameters
    assert offloaded.peak < full.peak
    assert full.rollout["keys and values"] == 2 * 2 * 4 * 32 * 4 * 64 * 4
