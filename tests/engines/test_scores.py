"""Given texts are as probable in vLLM, here and behind its server, as in transformers."""

from __future__ import annotations

import pytest
from vllm_server import Server

from mars_env.errors import ConfigError, ContextError, ModelError
from mars_env.models.http import HTTPModel
from mars_env.models.vllm import VLLMModel
from mars_env.types import Sampling, ScoringModel

PROMPT = "a:288b: - 72<|solve|>"
TEXTS = [("a:288", "b: - 72"), ("b:216",), ("a:288b:216",)]


@pytest.fixture(scope="module", params=["async", "offline"])
def model(request, checkpoint):
    with VLLMModel(checkpoint, engine=request.param, eager=True, max_lora_rank=None, name="scorer") as model:
        yield model


def reference(module, checkpoint):
    from transformers import AutoTokenizer

    from mars_env.models.hf import HFModel

    return HFModel((module, AutoTokenizer.from_pretrained(checkpoint)))


def gap(one, other):
    assert (one.prompt_ids, one.token_ids, one.text) == (other.prompt_ids, other.token_ids, other.text)
    return max(abs(a - b) for a, b in zip(one.logprobs, other.logprobs, strict=True))


async def test_scores_are_those_of_transformers(model, module, checkpoint, tolerance):
    local = reference(module, checkpoint)
    assert isinstance(model, ScoringModel)
    for texts in TEXTS:
        for end in (True, False):
            scored = await model.score(PROMPT, *texts, end=end)
            assert gap(scored, await local.score(PROMPT, *texts, end=end)) < tolerance
            assert scored.trainable and scored.temperature == 1.0
            assert scored.versions == ((model.version, len(scored.token_ids)),)
            assert model.written(PROMPT, *texts, end=end).token_ids == scored.token_ids


async def test_a_sampled_completion_scores_what_it_was_sampled_at(model, tolerance):
    for completion in await model.complete(PROMPT, 4, Sampling(max_tokens=40, seed=3)):
        scored = await model.score(completion.prompt_ids, completion.token_ids, end=False)
        assert max(abs(a - b) for a, b in zip(scored.logprobs, completion.logprobs, strict=True)) < tolerance


async def test_new_weights_score_anew(model, module, checkpoint, tolerance):
    import torch

    before = await model.score(PROMPT, "a:288")
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.mul_(1.1)
    model.refresh(module, version=5)
    try:
        scored = await model.score(PROMPT, "a:288")
        assert scored.versions[0][0] == 5 and scored.logprobs != before.logprobs
        assert gap(scored, await reference(module, checkpoint).score(PROMPT, "a:288")) < tolerance
    finally:
        model.refresh(str(checkpoint), version=0)


async def test_what_cannot_be_scored_is_refused(model):
    with pytest.raises(ContextError, match="its context holds"):
        await model.score(PROMPT, [3] * model.context, end=False)
    longest = model.context - 1 - len(model.encode(PROMPT))
    scored = await model.score(PROMPT, [3] * longest, end=False)
    assert len(scored.logprobs) == longest
    with pytest.raises(ModelError, match="no tokens"):
        await model.score(PROMPT, end=False)


def test_the_async_engine_with_adapters_scores_them_alone_on_cpus(model):
    model._adapters_alone, before = True, model._adapters_alone
    try:
        with pytest.raises(ConfigError, match="serves adapters alone"):
            model._refuse_alone()
    finally:
        model._adapters_alone = before


async def test_the_server_scores_alike(module, checkpoint, tolerance, tmp_path):
    local, server = reference(module, checkpoint), Server(checkpoint, tmp_path / "log")
    try:
        server.wait()
        model = HTTPModel(server.url, "miniature", tokenizer=checkpoint)
        for form in ("prompt_logprobs", "echo"):
            model._scorer._form = form
            for texts in TEXTS:
                scored = await model.score(PROMPT, *texts)
                assert gap(scored, await local.score(PROMPT, *texts)) < tolerance
    finally:
        server.kill()
