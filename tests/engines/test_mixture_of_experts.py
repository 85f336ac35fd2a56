"""A random Qwen3-MoE of two million parameters: vLLM and transformers, new weights, the routing."""

from __future__ import annotations

import asyncio

import pytest
from tiny_checkpoint import tiny_mixture

from mars_env.errors import ConfigError
from mars_env.models.hf import HFModel
from mars_env.types import Sampling

PROMPT = "What is 17 + 25?"
SAMPLING = Sampling(max_tokens=60, seed=1)


@pytest.fixture(scope="module")
def mixtures(tmp_path_factory):
    """Two checkpoints of one shape: before and after an update."""
    folder = tmp_path_factory.mktemp("mixtures")
    return [tiny_mixture(folder / f"{seed}", seed) for seed in range(2)]


@pytest.fixture(scope="module", params=["async", "offline"])
def engine(request, mixtures):
    from mars_env.models.vllm import VLLMModel

    with VLLMModel(mixtures[0], engine=request.param, eager=True) as model:
        yield model


async def gap(engine, checkpoint):
    """The largest difference of a log-probability between the engine and transformers on a checkpoint."""
    model, found = HFModel(checkpoint), []
    for completion in await engine.complete(PROMPT, 4, SAMPLING):
        expected = model.logprobs(completion.prompt_ids, completion.token_ids)
        found += [abs(a - b) for a, b in zip(completion.logprobs, expected, strict=True)]
    return max(found)


async def test_new_weights_reach_the_experts(engine, mixtures, tolerance):
    """vLLM 0.32 packs experts for its kernels on CPUs when it loads a model, not when it reloads weights."""
    before, after = mixtures
    assert await gap(engine, before) < tolerance
    assert await gap(engine, after) > 100 * tolerance
    await asyncio.to_thread(engine.refresh, after)
    assert await gap(engine, after) < tolerance
    await asyncio.to_thread(engine.refresh, HFModel(before).module)
    assert await gap(engine, before) < tolerance


def test_cpus_do_not_say_which_experts_were_chosen(mixtures):
    """vLLM 0.32 records the routing in its second model runner alone, which needs Triton."""
    import vllm

    from mars_env.models.vllm import VLLMModel

    if vllm.__version__ < "0.32":
        pytest.skip("before 0.32 vLLM refuses it inside the engine's process, which then may never end")
    with pytest.raises(ConfigError, match=r"AuxOutput Connector requires Model Runner V2"):
        VLLMModel(mixtures[0], eager=True, options={"enable_return_routed_experts": True})
