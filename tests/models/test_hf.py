import asyncio
import copy
import itertools
import math
import threading
from dataclasses import replace

import numpy as np
import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from mars_env.errors import ConfigError, ContextError, ModelError
from mars_env.models import BatchLimits, HFModel
from mars_env.testing.model_suite import check_model
from mars_env.types import Sampling

PROMPTS = ("1+1=", "2*(3-4)/5 = ?", "x", "what is 12 + 30? think first.")


async def test_keeps_the_contract_of_models(tiny_pair):
    await check_model(HFModel(tiny_pair), exact=True, sampling=Sampling(max_tokens=12, seed=3))


async def test_greedy_is_the_library_s_own_greedy_text(tiny_pair):
    module, tokenizer = tiny_pair
    calls = [HFModel(tiny_pair).complete(p, 1, Sampling(temperature=0, max_tokens=20)) for p in PROMPTS]
    for prompt, [completion] in zip(PROMPTS, await asyncio.gather(*calls), strict=True):
        ids = torch.tensor([tokenizer.encode(prompt)])
        options = {"do_sample": False, "attention_mask": torch.ones_like(ids)}
        expected = module.generate(ids, max_new_tokens=20, **options)
        assert list(completion.token_ids) == expected[0, ids.shape[1] :].tolist()
        assert completion.temperature == 0
        at_one = HFModel(tiny_pair).logprobs(completion.prompt_ids, completion.token_ids, 0)
        assert completion.logprobs == pytest.approx(at_one, abs=1e-4)


async def test_rows_of_a_batch_do_not_influence_each_other(tiny_pair):
    model, small = HFModel(tiny_pair), HFModel(tiny_pair, batch=BatchLimits(1))
    settings = [
        Sampling(max_tokens=5 + 7 * i, seed=i, temperature=0.6 + i / 3, top_p=1 - 0.1 * i, top_k=i * 4)
        for i in range(4)
    ]
    settings.append(Sampling(max_tokens=15, temperature=0))

    async def play(one):
        calls = [one.complete(PROMPTS[i % 4], 1 + i % 3, s) for i, s in enumerate(settings)]
        return [[c.token_ids for c in group] for group in await asyncio.gather(*calls)]

    assert await play(model) == await play(small)


async def test_samples_follow_the_model_s_distribution(tiny_pair):
    model = HFModel(tiny_pair)
    sampling = Sampling(max_tokens=1, seed=0, temperature=0.8)
    completions = await model.complete("1+1=", 4000, sampling)
    counts = np.bincount([c.token_ids[0] for c in completions], minlength=model.module.config.vocab_size)
    ids = completions[0].prompt_ids
    expected = np.array([math.exp(model.logprobs(ids, [t], 0.8)[0]) for t in range(len(counts))])
    assert expected.sum() == pytest.approx(1, abs=1e-4)
    assert np.abs(counts / 4000 - expected).max() < 5 * math.sqrt(0.25 / 4000)


async def test_logprobs_under_top_p_and_top_k_are_renormalised(tiny_pair):
    model = HFModel(tiny_pair)
    for settings in ({"top_k": 3}, {"top_p": 0.5}, {"top_k": 5, "top_p": 0.7}):
        completions = await model.complete("1+1=", 300, Sampling(max_tokens=1, seed=0, **settings))
        seen = {c.token_ids[0]: c.logprobs[0] for c in completions}
        assert sum(map(math.exp, seen.values())) == pytest.approx(1, abs=1e-3)
        assert len(seen) <= settings.get("top_k", 99)


async def test_end_tokens_are_kept_in_the_ids_and_not_in_the_text(tiny_module, tiny_tokenizer):
    module = tiny_module()
    with torch.no_grad():  # every hidden state points at <eos> with some strength
        module.lm_head.weight[1] += 0.3 * module.lm_head.weight.std() * torch.sign(module.lm_head.weight[1])
    model = HFModel((module, tiny_tokenizer))
    completions = await model.complete("1+1=", 64, Sampling(max_tokens=200, seed=0, temperature=2.0))
    stopped = [c for c in completions if c.finish_reason == "stop"]
    assert len(stopped) > 8, "the model of this test should end by itself at times"
    for completion in completions:
        assert (completion.token_ids[-1] == 1) == (completion.finish_reason == "stop")
        assert 1 not in completion.token_ids[:-1]
        assert "<eos>" not in completion.text
        assert completion.completion_tokens == len(completion.token_ids)


async def test_the_context_limits_prompts_and_completions(tiny_pair):
    model = HFModel(tiny_pair)
    assert model.context == 256
    limited = Sampling(max_tokens=100, seed=0)
    [cut] = await model.complete([3] * 250, 1, limited)
    assert len(cut.token_ids) == 6
    assert cut.finish_reason == "context"  # its own limit would have been "length"
    [own] = await model.complete([3] * 250, 1, Sampling(max_tokens=6, seed=0))
    assert own.token_ids == cut.token_ids
    assert own.finish_reason == "length"
    for length in (256, 300):
        full = await model.complete([3] * length, 2, limited)
        assert [(c.text, c.finish_reason, c.completion_tokens) for c in full] == [("", "context", 0)] * 2
        assert not full[0].trainable
    refusing = replace(limited, overflow="refuse")
    with pytest.raises(ContextError):
        await model.complete([3] * 250, 1, refusing)
    assert len(await model.complete([3] * 156, 1, refusing)) == 1
    [narrow] = await HFModel(tiny_pair, context=20).complete([3] * 18, 1, limited)
    assert (len(narrow.token_ids), narrow.finish_reason) == (2, "context")
    for prompt, n, error in (([3, 10_000], 1, ModelError), ("", 1, ModelError), ("1", 0, ConfigError)):
        with pytest.raises(error):
            await model.complete(prompt, n, Sampling())


@pytest.fixture
def watch(monkeypatch):
    """Calls a function with the shape of each input before the module computes it."""

    def watched(model, look):
        forward = model.module.forward

        def spy(**kwargs):
            look(tuple(kwargs["input_ids"].shape))
            return forward(**kwargs)

        monkeypatch.setattr(model.module, "forward", spy)

    return watched


async def test_a_batch_too_large_for_the_memory_is_halved(tiny_pair, watch):
    model = HFModel(tiny_pair)
    sampling = Sampling(max_tokens=5, seed=0)
    expected = await model.complete("1", 7, sampling)

    def small(shape):
        if shape[1] == 1 and shape[0] > 2:
            raise torch.OutOfMemoryError("CUDA out of memory")

    watch(model, small)
    found = await model.complete("1", 7, sampling)
    assert [c.token_ids for c in found] == [c.token_ids for c in expected]


async def test_each_prompt_is_read_once_and_requests_share_batches(tiny_pair, watch):
    model, shapes = HFModel(tiny_pair), []
    watch(model, shapes.append)
    sampling = Sampling(max_tokens=3, seed=0)
    await asyncio.gather(*(model.complete(p, 4, sampling) for p in (*PROMPTS, PROMPTS[0])))
    assert shapes[0] == (4, max(map(len, PROMPTS)))
    assert shapes[1:] == [(20, 1), (20, 1)]


async def test_cancelled_requests_stop_the_engine(tiny_pair, watch):
    model, steps = HFModel(tiny_pair), []
    begun, cancelled = threading.Event(), threading.Event()

    def wait(shape):
        steps.append(shape)
        begun.set()
        assert cancelled.wait(600)

    watch(model, wait)
    task = asyncio.ensure_future(model.complete("1", 1, Sampling(max_tokens=250, seed=0, temperature=0)))
    await asyncio.to_thread(begun.wait)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    cancelled.set()
    await model.complete("1", 1, Sampling(max_tokens=2, seed=0))
    assert len(steps) < 50


SLIDING = {
    "use_sliding_window": True, "sliding_window": 8, "max_window_layers": 1, "num_key_value_heads": 1,
    "layer_types": ["full_attention", "sliding_attention"],
}  # fmt: skip
KINDS = {"gpt2": {}, "bloom": {}, "falcon": {"alibi": True}, "qwen3": SLIDING}


@pytest.mark.parametrize("kind", KINDS)
async def test_half_precision_positions_distances_and_sliding_layers(tiny_tokenizer, kind):
    """Sampled log-probabilities are those of one pass over the whole text."""
    torch.manual_seed(0)
    sizes = {"vocab_size": len(tiny_tokenizer), "hidden_size": 32, "initializer_range": 0.5}
    layers = {"num_hidden_layers": 2, "num_attention_heads": 2, **KINDS[kind]}
    config = AutoConfig.for_model(kind, **sizes, **layers)
    config.eos_token_id = 1
    module = AutoModelForCausalLM.from_config(config).eval()
    sampling = Sampling(max_tokens=20, seed=1)
    for dtype, tolerance in ((torch.float32, 1e-3), (torch.bfloat16, 0.5)):
        model = HFModel((module.to(dtype), tiny_tokenizer))
        groups = await asyncio.gather(*(model.complete(prompt, 2, sampling) for prompt in PROMPTS))
        for completion in itertools.chain(*groups):
            again = model.logprobs(completion.prompt_ids, completion.token_ids, sampling.temperature)
            assert completion.logprobs == pytest.approx(again, abs=tolerance)


async def test_a_refresh_waits_for_the_batch_so_a_completion_has_one_version(tiny_pair, watch):
    module, tokenizer = tiny_pair
    weights = [copy.deepcopy(module), copy.deepcopy(module)]
    with torch.no_grad():
        for parameter in weights[1].parameters():
            parameter.mul_(1.3)
    model, begun = HFModel((module, tokenizer)), threading.Event()
    watch(model, lambda shape: begun.set())
    sampling = Sampling(max_tokens=60, seed=5, temperature=3.0)
    task = asyncio.ensure_future(model.complete(PROMPTS[3], 2, sampling))
    await asyncio.to_thread(begun.wait)
    await asyncio.to_thread(model.refresh, weights[1], 1)
    for version, completions in enumerate([await task, await model.complete(PROMPTS[3], 2, sampling)]):
        for completion in completions:
            assert completion.versions == ((version, len(completion.token_ids)),)
            again = HFModel((weights[version], tokenizer)).logprobs(
                completion.prompt_ids, completion.token_ids, 3.0
            )
            assert completion.logprobs == pytest.approx(again, abs=1e-4)


async def test_a_batch_scores_each_row_as_alone(tiny_pair, monkeypatch):
    model = HFModel(tiny_pair)
    asked = [("1+1=", "2"), ("what is 12 + 30?", "it is 42."), ("x", "yzyzyzyz"), ("a", "b")]
    together = await asyncio.gather(*(model.score(*each) for each in asked))
    for (prompt, text), scored in zip(asked, together, strict=True):
        alone = model.logprobs(model.encode(prompt), scored.token_ids)
        assert scored.logprobs == pytest.approx(alone, abs=1e-4)
        assert scored.text == text
    monkeypatch.setattr("mars_env.models.hf_decoding.LOGITS", 1)  # one row at a time
    small = await asyncio.gather(*(model.score(*each) for each in asked))
    for one, other in zip(small, together, strict=True):
        assert one.logprobs == pytest.approx(other.logprobs, abs=1e-4)
