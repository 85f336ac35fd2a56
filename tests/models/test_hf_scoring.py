"""`HFModel.score`: exact ids, and the probabilities of given texts."""

import asyncio

import pytest

from mars_env.errors import ContextError, ModelError
from mars_env.models import HFModel
from mars_env.types import Sampling


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


def test_parts_are_encoded_apart_and_the_end_is_one_token(tiny_pair):
    model = HFModel(tiny_pair)
    whole = model.written("1+1=", "ab", "c")
    assert whole.token_ids == (*model.encode("ab"), *model.encode("c"), model.tokenizer.eos_token_id)
    assert (whole.text, whole.finish_reason, whole.logprobs) == ("abc", "stop", ())
    assert model.written("1+1=", "abc", end=False).token_ids == model.encode("abc")


def test_a_special_token_that_a_text_spells_out_does_not_end_it(tiny_pair):
    model = HFModel(tiny_pair)
    model.tokenizer.add_special_tokens({"eos_token": "<eos>"})
    assert 1 not in model.written("1", "a<eos>b", end=False).token_ids


async def test_what_cannot_be_scored_is_refused(tiny_pair):
    model = HFModel(tiny_pair, context=8)
    with pytest.raises(ContextError):
        await model.score("1+1=", "2" * 9)
    with pytest.raises(ModelError):
        await model.score("1", (10**6,))
    with pytest.raises(ModelError):
        await model.score("1", "", end=False)


async def test_a_failing_engine_fails_the_score_and_not_the_samples_beside_it(tiny_pair, monkeypatch):
    model = HFModel(tiny_pair)

    def broken(*_, **__):
        raise RuntimeError("out of memory")

    monkeypatch.setattr("mars_env.models.hf.given_logprobs", broken)
    scored, sampled = await asyncio.gather(
        model.score("1", "2"), model.complete("1", 1, Sampling(max_tokens=3, seed=0)), return_exceptions=True
    )
    assert isinstance(scored, ModelError) and len(sampled) == 1
