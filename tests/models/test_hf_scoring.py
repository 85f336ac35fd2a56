"""`HFModel.score`: exact ids, and the probabilities of given texts."""

import asyncio

import pytest

from mars_env.models import HFModel


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
