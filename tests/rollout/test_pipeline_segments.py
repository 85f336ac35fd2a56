import asyncio
from dataclasses import replace

import pytest

from mars_env.errors import ContextError
from mars_env.models import ScriptedModel
from mars_env.rollout.segments import SegmentedModel, joined, merged_runs
from mars_env.seeds import derive_seed
from mars_env.testing.model_suite import check_model
from mars_env.types import Completion, Sampling


class Automaton:
    """Each token follows from the tokens before it alone, as under greedy sampling; 0 ends a completion."""

    name = "automaton"

    def __init__(self, end_after=40, version=0, context=10**6):
        self.end_after, self.version, self.context = end_after, version, context
        self.asked = []

    def decode(self, ids):
        return "".join(chr(96 + token) for token in ids if token)

    async def complete(self, prompt, n, sampling):
        self.asked.append((tuple(prompt), n, sampling.max_tokens))
        await asyncio.sleep(0)
        if len(prompt) >= self.context:
            return [Completion("", "context", tuple(prompt), prompt_tokens=len(prompt))] * n
        ids = list(prompt)
        for _ in range(min(sampling.max_tokens, self.context - len(prompt))):
            token = 1 + derive_seed(*ids) % 26
            ids.append(0 if len(ids) - 1 >= self.end_after else token)
            text = self.decode(ids[len(prompt) :])
            if ids[-1] == 0 or any(stop in text for stop in sampling.stop):
                finish = "stop"
                break
        else:
            finish = "length" if len(ids) - len(prompt) == sampling.max_tokens else "context"
        new = tuple(ids[len(prompt) :])
        for stop in sampling.stop:
            text = text.partition(stop)[0]
        one = Completion(
            text, finish, tuple(prompt), new, tuple(-0.01 * t for t in new), sampling.temperature,
            ((self.version, len(new)),), len(prompt), len(new),
        )  # fmt: skip
        return [one] * n


@pytest.mark.parametrize("segment", [1, 2, 7, 39, 40, 41, 100])
@pytest.mark.parametrize("limit", [1, 14, 40, 41, 60])
async def test_with_frozen_weights_segments_change_nothing(segment, limit):
    whole, parts = Automaton(), Automaton()
    sampling = Sampling(max_tokens=limit, seed=3)
    model = SegmentedModel(parts, segment, decode=parts.decode)
    assert await model.complete([5], 2, sampling) == await whole.complete([5], 2, sampling)
    assert all(n == 1 and tokens <= segment for _, n, tokens in parts.asked)


@pytest.mark.parametrize("segment", [1, 3, 4, 16])
async def test_a_stop_text_may_span_two_segments(segment):
    whole = Automaton()
    [free] = await whole.complete([5], 1, Sampling(max_tokens=40))
    for begin in range(0, 30, 5):
        sampling = Sampling(max_tokens=40, stop=(free.text[begin : begin + 6], "nowhere"))
        [expected] = await whole.complete([5], 1, sampling)
        model = SegmentedModel(Automaton(), segment, decode=whole.decode)
        assert await model.complete([5], 1, sampling) == [expected]
        assert expected.finish_reason == "stop"


async def test_a_context_that_is_full_ends_a_completion():
    whole = Automaton(context=21)
    [expected] = await whole.complete([5], 1, Sampling(max_tokens=100))
    assert (expected.completion_tokens, expected.finish_reason) == (20, "context")
    for segment in (3, 4, 5, 20):
        for told in (21, None):  # said, or asked of the model
            model = SegmentedModel(Automaton(context=21), segment, context=told, decode=whole.decode)
            assert await model.complete([5], 1, Sampling(max_tokens=100)) == [expected]
    [own] = await model.complete([5], 1, Sampling(max_tokens=20))
    assert own.finish_reason == "length"
    with pytest.raises(ContextError):
        await model.complete([5], 1, Sampling(max_tokens=100, overflow="refuse"))


async def test_versions_are_kept_for_each_token():
    inner = Automaton()
    model = SegmentedModel(inner, 16)
    asked = asyncio.create_task(model.complete([5], 1, Sampling(max_tokens=60)))
    while len(inner.asked) < 3:
        await asyncio.sleep(0)
    inner.version = 9  # new weights while the third segment is under way
    [completion] = await asked
    assert completion.versions == ((0, 32), (9, 9))
    assert completion.trainable


async def test_every_segment_has_a_seed_of_its_own_whatever_n_is():
    seeds = []

    class Seeds(Automaton):
        async def complete(self, prompt, n, sampling):
            seeds.append(sampling.seed)
            return await super().complete(prompt, n, sampling)

    model = SegmentedModel(Seeds(), 16)
    await model.complete([5], 3, Sampling(max_tokens=60, seed=1))
    assert len(set(seeds)) == 9
    of_three, seeds = set(seeds), []
    await model.complete([5], 1, Sampling(max_tokens=60, seed=1))
    assert set(seeds) < of_three


async def test_it_keeps_the_contract_of_models():
    def count(prompt, sample, seed):
        read = len(prompt) if not isinstance(prompt, str) else 3
        return "".join(f" {read + i}" for i in range(12 - min(read, 11)))

    model = SegmentedModel(ScriptedModel(count, ids=True), 3)
    await check_model(model, "1 + 1 =", sampling=Sampling(max_tokens=8, seed=1), exact=True)


@pytest.mark.parametrize(("room", "ids"), [(0, False), (0, True), (4, True), (6, True)])
async def test_an_answer_that_an_unknown_context_cuts_off(room, ids):
    """The server says "length" after as many tokens as there is room for, or after none."""

    class Full(Automaton):
        async def complete(self, prompt, n, sampling):
            left = min(sampling.max_tokens, 1 + room - len(prompt))
            self.asked.append(left)
            read, new = (tuple(prompt), (7,) * left) if ids else ((), ())
            return [Completion("x" * left, "length", read, new, (-0.1,) * len(new), prompt_tokens=1)]

    model = Full()
    del model.context
    [found] = await SegmentedModel(model, 4).complete([5], 1, Sampling(max_tokens=12))
    assert (found.finish_reason, found.text) == ("context", "x" * room)
    assert model.asked == {0: [0], 4: [4, 0], 6: [4, 2]}[room]  # nothing after a segment that was cut off


def test_joined_keeps_what_is_told():
    first = Completion("a", "length", (1,), (2,), (-0.1,), 0.7, ((0, 1),), 1, 1)
    second = replace(first, token_ids=(3, 4), logprobs=(), versions=((0, 2),), completion_tokens=2)
    both = joined(first, second)
    assert both.logprobs == ()
    assert both.versions == ((0, 3),)
    assert merged_runs([(0, 0), (1, 2)]) == ((1, 2),)
