import asyncio
import copy
import math
import threading
from dataclasses import replace

import numpy as np
import pytest
import torch
from messages import raises

from mars_env.errors import ConfigError, ContextError, ModelError
from mars_env.models import BatchLimits
from mars_env.models.batching import whole_waves
from mars_env.models.hf import HFModel
from mars_env.testing.model_suite import check_model
from mars_env.types import Sampling

PROMPTS = ("1+1=", "2*(3-4)/5 = ?", "x", "what is 12 + 30? think first.")


async def test_keeps_the_contract_of_models(tiny_pair):
    await check_model(HFModel(tiny_pair), exact=True, sampling=Sampling(max_tokens=12, seed=3))


async def to_all_prompts(model, n, sampling):
    groups = await asyncio.gather(*(model.complete(prompt, n, sampling) for prompt in PROMPTS))
    return [completion for group in groups for completion in group]


async def _long_one(model):
    """A sampling, and its completion, that goes on for more than twenty characters."""
    for seed in range(50):
        sampling = Sampling(max_tokens=40, seed=seed)
        [completion] = await model.complete("1+1=", 1, sampling)
        if len(completion.text) > 20:
            return sampling, completion
    raise AssertionError("the tiny model always ends early")


async def test_stop_texts_end_a_completion(tiny_pair):
    model = HFModel(tiny_pair)
    sampling, free = await _long_one(model)
    stop = free.text[10:12]
    await check_model(model, "1+1=", sampling=sampling, exact=True, stop=stop)
    [cut] = await model.complete("1+1=", 1, replace(sampling, stop=(stop,)))
    assert cut.token_ids == free.token_ids[: len(cut.token_ids)]
    assert len(cut.token_ids) < len(free.token_ids)


async def check_logprobs(model, sampling, tolerance):
    """Sampled log-probabilities are those of one pass over the whole text."""
    for completion in await to_all_prompts(model, 2, sampling):
        again = model.logprobs(completion.prompt_ids, completion.token_ids, sampling.temperature)
        assert completion.logprobs == pytest.approx(again, abs=tolerance)


@pytest.mark.parametrize("temperature", [0.7, 1.0, 1.5])
async def test_logprobs_are_those_of_the_distribution_sampled_from(tiny_pair, temperature):
    sampling = Sampling(max_tokens=30, seed=1, temperature=temperature)
    await check_logprobs(HFModel(tiny_pair), sampling, 1e-4)


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
        Sampling(
            max_tokens=5 + 9 * i, seed=i, temperature=0.6 + i / 5, top_p=1 - 0.1 * (i % 2), top_k=i % 3 * 4
        )
        for i in range(8)
    ]
    settings.append(Sampling(max_tokens=25, temperature=0))

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
    with raises(ContextError):
        await model.complete([3] * 250, 1, refusing)
    assert len(await model.complete([3] * 156, 1, refusing)) == 1
    [narrow] = await HFModel(tiny_pair, context=20).complete([3] * 18, 1, limited)
    assert (len(narrow.token_ids), narrow.finish_reason) == (2, "context")
    for prompt, n, error in (([3, 10_000], 1, ModelError), ("", 1, ModelError), ("1", 0, ConfigError)):
        with raises(error):
            await model.complete(prompt, n, Sampling())


async def test_chat_templates_are_used_where_there_are_any(tiny_pair):
    module, tokenizer = tiny_pair
    model = HFModel((module, tokenizer))
    messages = [{"role": "user", "content": "1+1="}]
    plain = tokenizer.decode(model.encode(messages))
    assert plain == "<unk>ser: 1+1=\n\n<unk>ssistant:"  # its vocabulary has no capitals
    tokenizer.chat_template = (
        "{% for m in messages %}{{ m.content }};{% endfor %}"
        "{% if add_generation_prompt %}?{% endif %}{{ extra }}"
    )
    model = HFModel((module, tokenizer), template_options={"extra": "x"})
    assert tokenizer.decode(model.encode(messages)) == "1+1=;?x"


async def test_refresh_replaces_the_weights_and_tells_the_version(tiny_module, tiny_tokenizer):
    model = HFModel((tiny_module(0), tiny_tokenizer))
    other = HFModel((tiny_module(1), tiny_tokenizer))
    sampling = Sampling(max_tokens=10, seed=0)
    [before] = await model.complete("1+1=", 1, sampling)
    model.refresh(other.module.state_dict(), version=7)
    [after] = await model.complete("1+1=", 1, sampling)
    [expected] = await other.complete("1+1=", 1, sampling)
    assert before.versions == ((0, len(before.token_ids)),)
    assert after.versions == ((7, len(after.token_ids)),)
    assert after.token_ids == expected.token_ids != before.token_ids
    model.refresh()
    assert model.version == 8


async def test_training_mode_is_put_back_and_gradients_survive(tiny_pair):
    module, _ = tiny_pair
    module.train()
    model = HFModel(tiny_pair)
    [completion] = await model.complete("1+1=", 1, Sampling(max_tokens=5, seed=0))
    assert module.training
    loss = module(torch.tensor([[*completion.prompt_ids, *completion.token_ids]])).logits.sum()
    loss.backward()


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


async def test_a_failure_of_the_engine_is_a_model_error(tiny_pair, watch, monkeypatch):
    model = HFModel(tiny_pair)

    def fail(shape):
        raise RuntimeError("CUDA out of memory")

    watch(model, fail)
    with raises(ModelError):
        await model.complete("1", 2, Sampling(max_tokens=3))
    monkeypatch.undo()
    assert len(await model.complete("1", 2, Sampling(max_tokens=3))) == 2


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


async def test_a_model_works_from_several_event_loops_at_once(tiny_pair):
    model = HFModel(tiny_pair)
    sampling = Sampling(max_tokens=10, seed=0)
    [expected] = await model.complete("1+1=", 1, sampling)

    def ask():
        return model.complete("1+1=", 1, sampling)

    others = [asyncio.to_thread(lambda: asyncio.run(ask())) for _ in range(4)]
    found = await asyncio.gather(*others, *(ask() for _ in range(4)))
    assert {c.token_ids for [c] in found} == {expected.token_ids}


async def test_models_whose_layers_slide_use_the_library_s_cache(tiny_module, tiny_tokenizer):
    module = tiny_module(
        use_sliding_window=True,
        sliding_window=8,
        max_window_layers=1,
        layer_types=["full_attention", "sliding_attention"],
    )
    sampling = Sampling(max_tokens=20, seed=2, temperature=0.7)
    await check_logprobs(HFModel((module, tiny_tokenizer)), sampling, 1e-3)


async def test_a_checkpoint_is_loaded_by_its_path(tiny_pair, tmp_path):
    module, tokenizer = tiny_pair
    module.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    loaded = HFModel(tmp_path, device="cpu", name="tiny")
    sampling = Sampling(max_tokens=10, seed=0)
    [one], [two] = await asyncio.gather(
        loaded.complete("1+1=", 1, sampling), HFModel(tiny_pair).complete("1+1=", 1, sampling)
    )
    assert one.token_ids == two.token_ids
    assert repr(loaded) == "HFModel('tiny', version=0)"
    with raises(ConfigError):
        HFModel(tmp_path / "nothing")


async def test_cancelled_requests_stop_the_engine(tiny_pair, watch):
    model, steps = HFModel(tiny_pair), []
    begun, cancelled = threading.Event(), threading.Event()

    def wait(shape):
        steps.append(shape)
        begun.set()
        assert cancelled.wait(10)

    watch(model, wait)
    task = asyncio.ensure_future(model.complete("1", 1, Sampling(max_tokens=250, seed=0, temperature=0)))
    await asyncio.to_thread(begun.wait)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    cancelled.set()
    await model.complete("1", 1, Sampling(max_tokens=2, seed=0))
    assert len(steps) < 50


@pytest.mark.parametrize("kind", ["gpt2", "bloom"])
async def test_half_precision_learned_positions_and_biases_of_distance(tiny_tokenizer, kind):
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.manual_seed(0)
    sizes = {"vocab_size": len(tiny_tokenizer), "hidden_size": 32, "n_layer": 2, "n_head": 2}
    config = AutoConfig.for_model(kind, **sizes, initializer_range=0.5)
    config.eos_token_id = 1
    module = AutoModelForCausalLM.from_config(config).eval()
    for dtype, tolerance in ((torch.float32, 1e-3), (torch.bfloat16, 0.5)):
        model = HFModel((module.to(dtype), tiny_tokenizer))
        await check_logprobs(model, Sampling(max_tokens=20, seed=1), tolerance)


def test_recurrent_models_and_falcon_s_biases_of_distance_are_refused(tiny_tokenizer):
    """They take the cache and ignore it: the tokens of a completion did not depend on its prompt."""
    from transformers import FalconConfig, FalconForCausalLM, Mamba2Config, Mamba2ForCausalLM

    config = Mamba2Config(
        vocab_size=len(tiny_tokenizer), hidden_size=8, num_hidden_layers=1, num_heads=4, head_dim=4,
        state_size=4, n_groups=1,
    )  # fmt: skip
    with raises(ConfigError):
        HFModel((Mamba2ForCausalLM(config), tiny_tokenizer))
    falcon = FalconConfig(hidden_size=8, num_hidden_layers=1, num_attention_heads=2, alibi=True)
    with raises(ConfigError):
        HFModel((FalconForCausalLM(falcon), tiny_tokenizer))


async def test_requests_join_the_batch_under_way_and_change_no_sample(tiny_pair):
    """Short requests that come while a long one is decoded are answered before it, and as they are alone."""
    model, alone, order = HFModel(tiny_pair), HFModel(tiny_pair), []
    long = Sampling(max_tokens=200, seed=5, temperature=3.0)
    [slow] = await alone.complete(PROMPTS[3], 1, long)
    assert len(slow.token_ids) > 40

    async def ask(name, prompt, n, sampling):
        found = await model.complete(prompt, n, sampling)
        order.append(name)
        return found

    def request(i, turn):
        sampling = Sampling(max_tokens=4 + 3 * i, seed=10 * i + turn, temperature=1 + i / 4)
        return PROMPTS[(i + turn) % 4], 2, sampling

    async def chain(i):
        """Each request follows from the one before."""
        return [each for turn in range(3) for each in await ask("short", *request(i, turn))]

    [late], *chains = await asyncio.gather(ask("long", PROMPTS[3], 1, long), *map(chain, range(3)))
    assert order[-1] == "long" and len(order) == 10
    assert (late.token_ids, late.finish_reason) == (slow.token_ids, slow.finish_reason)
    for i, found in enumerate(chains):
        expected = [each for turn in range(3) for each in await alone.complete(*request(i, turn))]
        assert [c.token_ids for c in found] == [c.token_ids for c in expected]
        for one, other in zip(found, expected, strict=True):
            assert one.logprobs == pytest.approx(other.logprobs, abs=1e-4)


async def test_new_weights_go_on_with_the_tokens_of_the_old(tiny_pair):
    """A refresh between two rounds: every token has the log-probability of the weights that sampled it."""
    module, tokenizer = tiny_pair
    first, other = copy.deepcopy(module), copy.deepcopy(module)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.mul_(1.3)
    model = HFModel((copy.deepcopy(module), tokenizer))
    long = Sampling(max_tokens=120, seed=5, temperature=3.0)
    slow = asyncio.ensure_future(model.complete(PROMPTS[3], 1, long))
    await model.complete("1", 3, Sampling(max_tokens=20, seed=1, temperature=3.0))
    assert not slow.done()
    model.refresh(other, version=1)
    [found] = await slow
    (_, before), (_, after) = found.versions
    assert [version for version, _ in found.versions] == [0, 1]
    assert before + after == len(found.token_ids) and min(before, after) > 0
    old = HFModel((first, tokenizer)).logprobs(found.prompt_ids, found.token_ids, 3.0)
    new = HFModel((other, tokenizer)).logprobs(found.prompt_ids, found.token_ids, 3.0)
    assert found.logprobs == pytest.approx([*old[:before], *new[before:]], abs=1e-4)


async def test_whole_waves_are_the_same_whatever_else_is_asked(tiny_pair):
    whole_waves()
    model, order = HFModel(tiny_pair), []

    async def ask(name, sampling):
        await model.complete("1+1=", 1, sampling)
        order.append(name)

    async def two():
        await ask("first", Sampling(max_tokens=2, seed=1, temperature=3.0))
        await ask("second", Sampling(max_tokens=2, seed=1, temperature=3.0))

    await asyncio.gather(two(), ask("long", Sampling(max_tokens=100, seed=5, temperature=3.0)))
    assert order == ["first", "long", "second"]
