"""A random Qwen3-MoE of two million parameters: vLLM and transformers, new weights, the routing."""

import asyncio

import pytest
from real_engines import gap
from tiny_checkpoint import tiny_mixture

from mars_env.errors import ModelError
from mars_env.models import HFModel, VLLMModel
from mars_env.types import Sampling

PROMPT = "What is 17 + 25?"
SAMPLING = Sampling(max_tokens=60, seed=1)


@pytest.fixture(scope="module")
def mixtures(tmp_path_factory):
    """Two checkpoints of one shape: before and after an update."""
    folder = tmp_path_factory.mktemp("mixtures")
    return [tiny_mixture(folder / f"{seed}", seed) for seed in range(2)]


async def furthest(engine, checkpoint):
    """The largest gap of some completions from transformers on a checkpoint."""
    model = HFModel(checkpoint)
    return max(gap(completion, model) for completion in await engine.complete(PROMPT, 4, SAMPLING))


@pytest.mark.parametrize("kind", ["async", "offline"])
async def test_new_weights_reach_the_experts(kind, mixtures, tolerance):
    """vLLM 0.32 packs experts for its kernels on CPUs when it loads a model, not when it reloads weights."""
    before, after = mixtures
    with VLLMModel(before, engine=kind, eager=True) as engine:
        assert await furthest(engine, before) < tolerance
        assert await furthest(engine, after) > 100 * tolerance
        await asyncio.to_thread(engine.refresh, HFModel(after).module)
        assert await furthest(engine, after) < tolerance
        await asyncio.to_thread(engine.refresh, HFModel(before).module)
        assert await furthest(engine, before) < tolerance
    with pytest.raises(ModelError):
        await engine.complete(PROMPT, 1, SAMPLING)
