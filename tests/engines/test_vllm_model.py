"""vLLM in this process, both ways: the contract, exactness, scores, refreshes, adapters, a training step."""

import asyncio
import copy
from dataclasses import replace

import pytest
import torch
from real_engines import PROMPT, gap, shaken

from mars_env.errors import ConfigError, ContextError, ModelError
from mars_env.models import HFModel, VLLMModel
from mars_env.testing.model_suite import check_model
from mars_env.types import Sampling, ScoringModel


async def test_keeps_the_contract_of_models(model):
    sampling = Sampling(max_tokens=24, seed=1)
    [free] = await model.complete(PROMPT, 1, sampling)
    await check_model(model, PROMPT, sampling=sampling, exact=True, stop=free.text[1])
    await check_model(model, PROMPT, sampling=replace(sampling, temperature=0.7, top_p=0.9), exact=True)


@pytest.mark.parametrize("temperature", [0, 0.5, 1, 1.7])
async def test_log_probabilities_are_those_of_transformers(model, module, tolerance, temperature):
    sampling = Sampling(temperature=temperature, max_tokens=100, seed=3)
    for completion in await model.complete(PROMPT, 8, sampling):
        assert completion.trainable
        assert gap(completion, module) < tolerance


async def test_log_probabilities_are_those_after_top_k(model, module, tolerance):
    sampling = Sampling(temperature=1.5, top_k=3, max_tokens=40, seed=5)
    for completion in await model.complete(PROMPT, 4, sampling):
        ids = torch.tensor([[*completion.prompt_ids, *completion.token_ids]])
        logits = module(input_ids=ids).logits[0, len(completion.prompt_ids) - 1 : -1] / 1.5
        best, places = logits.topk(3)
        for token, value, row, kept in zip(
            completion.token_ids, completion.logprobs, best.log_softmax(-1), places, strict=True
        ):
            assert abs(value - float(row[kept.tolist().index(token)])) < tolerance


async def test_greedy_tokens_texts_and_ends_are_those_of_transformers(model, module):
    other = HFModel((module, model.tokenizer))
    sampling = Sampling(temperature=0, max_tokens=60)
    for prompt in (PROMPT, "a:1b: + 1c: * 22<|solve|>", [{"role": "user", "content": "a:5"}]):
        [ours], [theirs] = [await asked.complete(prompt, 1, sampling) for asked in (model, other)]
        assert (ours.text, ours.token_ids) == (theirs.text, theirs.token_ids)
        assert ours.prompt_ids == theirs.prompt_ids
        assert (ours.finish_reason, ours.token_ids[-1]) == ("stop", module.config.eos_token_id)


async def test_samples_have_seeds_of_their_own(model):
    sampling = Sampling(temperature=2, max_tokens=30, seed=11)
    samples = await model.complete(PROMPT, 6, sampling)
    assert len({sample.token_ids for sample in samples}) > 3
    unseeded = [await model.complete(PROMPT, 1, replace(sampling, seed=None)) for _ in range(6)]
    assert len({sample.token_ids for [sample] in unseeded}) > 3


async def test_refresh_changes_the_weights_in_place(model, module, tolerance):
    sampling = Sampling(max_tokens=40, seed=2)
    [before] = await model.complete(PROMPT, 1, sampling)
    changed = shaken(module, seed=1)
    assert gap(before, changed) > 100 * tolerance
    model.refresh(changed, version=7)
    for after in await model.complete(PROMPT, 4, sampling):  # the very prompt that is in the prefix cache
        assert gap(after, changed) < tolerance
        assert after.versions == ((7, len(after.token_ids)),)

    model.refresh(shaken(changed, seed=2).state_dict())
    [again] = await model.complete(PROMPT, 1, sampling)
    assert gap(again, changed) < tolerance
    assert again.versions == ((8, len(again.token_ids)),)


async def test_refresh_refuses_a_part_of_the_weights(model, module):
    state, version = module.state_dict(), model.version
    lacking = {name: tensor for name, tensor in state.items() if name != "model.norm.weight"}
    wrapped = {f"base_model.{name}": tensor for name, tensor in state.items()}
    for unusable in (lacking, wrapped):
        with pytest.raises(ConfigError):
            model.refresh(unusable)
    assert model.version == version


async def test_refresh_waits_for_completions_under_way(streaming, module):
    streaming.refresh(shaken(module, seed=6, endless=True), version=1)
    task = asyncio.create_task(streaming.complete(PROMPT, 4, Sampling(max_tokens=300, seed=1)))
    await asyncio.sleep(0.2)
    await asyncio.to_thread(streaming.refresh, module, 2)
    assert task.done() or streaming.version == 2
    assert all(len(completion.versions) == 1 for completion in await task)


def adapted(module, path, seed):
    """The module with a random LoRA adapter merged in, which is saved apart."""
    peft = pytest.importorskip("peft")
    torch.manual_seed(seed)
    targets = ["q_proj", "v_proj", "down_proj"]
    config = peft.LoraConfig(r=4, lora_alpha=16, target_modules=targets, init_lora_weights=False)
    model = peft.get_peft_model(copy.deepcopy(module), config)
    model.save_pretrained(path)
    return model.merge_and_unload()


async def test_adapters_are_models_of_their_own(offline, module, tolerance, tmp_path):
    offline.refresh(module, version=3)
    sampling = Sampling(max_tokens=30, seed=1)
    merged = [adapted(module, tmp_path / f"adapter{i}", seed=i) for i in range(2)]
    adapter = offline.adapter(tmp_path / "adapter0", name="solver")
    (bare,), (first,) = await asyncio.gather(
        offline.complete(PROMPT, 1, sampling), adapter.complete(PROMPT, 1, sampling)
    )
    assert gap(bare, module) < tolerance
    assert gap(first, merged[0]) < tolerance
    assert gap(first, module) > 100 * tolerance
    assert (bare.versions[0][0], first.versions[0][0]) == (3, 0)

    adapter.refresh(tmp_path / "adapter1")
    [second] = await adapter.complete(PROMPT, 1, sampling)
    assert gap(second, merged[1]) < tolerance
    assert second.versions == ((1, len(second.token_ids)),)
    await check_model(adapter, PROMPT, exact=True)


async def test_a_context_that_is_full(model):
    [full] = await model.complete([5] * 512, 1, Sampling())
    assert (full.text, full.finish_reason, full.token_ids) == ("", "context", ())
    [long] = await model.complete([5] * 508, 1, Sampling(max_tokens=4096, temperature=2, seed=1))
    assert len(long.token_ids) <= 4
    assert long.finish_reason != "length"


async def test_what_cannot_be_asked_for_is_refused(model):
    with pytest.raises(ContextError):
        await model.complete([5] * 512, 1, Sampling(overflow="refuse"))
    with pytest.raises(ModelError):
        await model.complete([5, 10**6], 1, Sampling())
    for temperature in (0.001, 2.5):
        with pytest.raises(ConfigError):
            await model.complete(PROMPT, 1, Sampling(temperature=temperature))
    with pytest.raises(ContextError):
        await model.score(PROMPT, [3] * model.context, end=False)
    with pytest.raises(ModelError):
        await model.score(PROMPT, end=False)


def test_settings_are_checked(checkpoint, streaming, offline, module, tmp_path):
    for refused in (
        lambda: streaming.adapter(tmp_path),
        lambda: offline.adapter(tmp_path),
        lambda: VLLMModel(checkpoint, options={"enforce_eager": True}),
        lambda: VLLMModel(checkpoint, engine="other"),
    ):
        with pytest.raises(ConfigError):
            refused()
    with pytest.raises(ConfigError):
        VLLMModel(tmp_path)


async def test_more_seeded_prompts_than_one_step_reads(model, module, tolerance):
    """Where prompts are read in parts, a part draws no token: on CPUs, seeds and parts do not go together."""
    prompts = [[5 + (i * 7 + j) % 10 for j in range(150)] for i in range(100)]  # 15,000 tokens
    sampling = Sampling(max_tokens=4, seed=1)
    answers = await asyncio.gather(*(model.complete(prompt, 1, sampling) for prompt in prompts))
    assert all(len(completion.token_ids) > 0 for [completion] in answers)
    assert gap(answers[-1][0], module) < tolerance


@pytest.mark.parametrize("end", [True, False])
@pytest.mark.parametrize("texts", [("a:288", "b: - 72"), ("b:216",), ("a:288b:216",)])
async def test_scores_are_those_of_transformers(model, module, tolerance, texts, end):
    assert isinstance(model, ScoringModel)
    scored = await model.score(PROMPT, *texts, end=end)
    expected = await HFModel((module, model.tokenizer)).score(PROMPT, *texts, end=end)
    assert (scored.prompt_ids, scored.token_ids) == (expected.prompt_ids, expected.token_ids)
    assert scored.text == expected.text
    assert gap(scored, module) < tolerance
    assert scored.trainable and scored.temperature == 1.0
    assert scored.versions == ((model.version, len(scored.token_ids)),)
    assert model.written(PROMPT, *texts, end=end).token_ids == scored.token_ids


async def test_the_longest_text_is_scored(model):
    longest = model.context - 1 - len(model.encode(PROMPT))
    scored = await model.score(PROMPT, [3] * longest, end=False)
    assert len(scored.logprobs) == longest
