"""OpenRLHF's engines as a model; here they are functions."""

import asyncio
from types import SimpleNamespace

import pytest

from mars_env.errors import ContextError, ModelError
from mars_env.miniature.model import build_tokenizer
from mars_env.models.requests import Sampled
from mars_env.testing.model_suite import check_model
from mars_env.trainers.openrlhf.rollouts.engines import CALLS, EnginesModel, streamed
from mars_env.types import Sampling

TOKENIZER = build_tokenizer()
TEXT = "a: = 288\n"
PROMPT = "a:288b: - 72<|solve|>"


class Engine:
    """Always writes one text; counts its calls."""

    def __init__(self, text=TEXT, reason="stop"):
        self.ids = tuple(TOKENIZER.encode(text))
        self.reason, self.requests, self.at_once, self.most = reason, [], 0, 0

    async def sample(self, ids, requests):
        self.requests += requests
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        await asyncio.sleep(0.001)
        self.at_once -= 1
        return [self._one(request) for request in requests]

    async def score(self, ids):
        return [-0.1 * place for place in range(1, len(ids))]

    def _one(self, request):
        ids = (*self.ids, 1)[: request["max_tokens"]]
        reason = "length" if len(ids) <= len(self.ids) else self.reason
        return Sampled(ids, (-0.1,) * len(ids), reason, ((3, len(ids)),))


def model(*engines, context=64):
    return EnginesModel(engines or [Engine()], TOKENIZER, context)


async def test_it_keeps_the_contract_and_a_completion_is_what_the_engine_tells():
    await check_model(model(), prompt=PROMPT)
    [completion] = await model().complete(PROMPT, 1, Sampling(temperature=0.7, seed=1))
    assert completion.text == TEXT
    assert completion.prompt_ids == tuple(TOKENIZER.encode(PROMPT))
    assert completion.token_ids == (*TOKENIZER.encode(TEXT), 1)
    assert completion.versions == ((3, len(completion.token_ids)),)
    assert completion.temperature == 0.7
    assert completion.trainable


async def test_given_texts_are_scored_after_their_prompt():
    scored = await model().score(PROMPT, TEXT, end=False)
    first = len(scored.prompt_ids)
    assert scored.logprobs == tuple(-0.1 * (first + place) for place in range(len(scored.token_ids)))


async def test_the_context_limits_a_completion_and_the_engine_s_own_seed_draws_it():
    engine = Engine()
    prompt = TOKENIZER.encode(PROMPT)
    completions = await model(engine, context=len(prompt) + 2).complete(prompt, 3, Sampling(seed=7))
    assert all("seed" not in request for request in engine.requests)
    assert [c.finish_reason for c in completions] == ["context"] * 3
    assert {len(c.token_ids) for c in completions} == {2}


async def test_a_prompt_that_fills_the_context_is_empty_and_says_so_or_is_refused():
    engine = Engine()
    [empty] = await model(engine, context=4).complete(PROMPT, 1, Sampling())
    assert (empty.text, empty.finish_reason, empty.token_ids) == ("", "context", ())
    assert not engine.requests
    with pytest.raises(ContextError):
        await model(context=4).complete(PROMPT, 1, Sampling(overflow="refuse"))


async def test_the_least_busy_engine_is_asked_and_none_too_often():
    engines = Engine(), Engine()
    many = model(*engines)
    await asyncio.gather(*(many.complete(PROMPT, 1, Sampling()) for _ in range(3 * CALLS)))
    assert [len(engine.requests) for engine in engines] == [1.5 * CALLS] * 2
    assert max(engine.most for engine in engines) <= CALLS


async def test_a_request_that_was_given_up_is_a_fault():
    with pytest.raises(ModelError):
        await model(Engine(reason="abort")).complete(PROMPT, 1, Sampling())


async def test_a_completion_that_new_weights_interrupt_tells_which_version_sampled_each_token():
    """The mixed case of partial rollouts, made to happen: the version goes up between two pieces."""
    now = 3

    def piece(ids, reason=None):
        entries = [{id: SimpleNamespace(logprob=-0.1 * id)} for id in ids]
        return SimpleNamespace(
            outputs=[SimpleNamespace(token_ids=ids, logprobs=entries, finish_reason=reason)]
        )

    async def stream():
        nonlocal now
        yield piece([1, 2])
        yield piece([3])
        now = 5  # new weights, twice
        yield piece([4, 5])
        yield piece([], "length")

    told = await streamed(stream(), lambda: now)
    assert told.token_ids == (1, 2, 3, 4, 5)
    assert told.versions == ((3, 3), (5, 2))
    assert told.logprobs == pytest.approx([-0.1 * id for id in told.token_ids])
    assert told.finish_reason == "length"
