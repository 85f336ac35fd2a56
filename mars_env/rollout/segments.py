"""Partial rollouts: a long output is sampled in segments, each by the newest policy (arXiv 2511.11373)."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import groupby, islice
from operator import itemgetter
from typing import Any

from mars_env.checks import require_integer
from mars_env.errors import ConfigError, ModelError
from mars_env.models.requests import room_for
from mars_env.seeds import derive_seed
from mars_env.sync import gather_all
from mars_env.types import Completion, Model, Prompt, Sampling

Decode = Callable[[Sequence[int]], str]
"""From token ids to text, without special tokens."""


class SegmentedModel:
    """A model whose completions are sampled in segments of limited length; a trainer sees one completion.

    Every sample is a separate request. After a segment that was cut off, the next prompt is the prompt's
    token ids with those sampled so far. Weights that are refreshed meanwhile take effect with the next one.

    The segment of sample i that starts at position t gets ``derive_seed(seed, i, t)``. So with greedy
    sampling segments change nothing; else they give other samples of the same distribution.

    A model must take token ids as a prompt. `context` is its length in tokens, by default the model's own.
    `decode` makes the text of a completion of several segments; by default the model's `tokenizer` does, else
    the segments' texts are joined, which cannot be where there are stop strings.
    """

    def __init__(
        self, model: Model, segment_tokens: int, *, context: int | None = None, decode: Decode | None = None
    ) -> None:
        self.name = getattr(model, "name", "")
        self.model = model
        self._segment = require_integer(segment_tokens, "segment_tokens")
        self.context: int | None = getattr(model, "context", None) if context is None else context
        self.encode = getattr(model, "encode", None)
        self.tokenizer = getattr(model, "tokenizer", None)
        self.template_options = getattr(model, "template_options", {})
        self._decode = decode or _tokenizer_of(model)

    def __repr__(self) -> str:
        return f"SegmentedModel({self.model!r}, {self._segment})"

    def identity(self) -> dict[str, Any]:
        """What identifies it: its model, the length of its segments, and the context."""
        return {"model": self.model, "segment_tokens": self._segment, "context": self.context}

    async def complete(self, prompt: Prompt, n: int, sampling: Sampling) -> list[Completion]:
        """Sample n completions of one prompt, segment by segment.

        A `ModelError` if there are no token ids to continue, a `ConfigError` if nothing decodes stop strings.
        """
        return await gather_all(self._sample(prompt, i, sampling) for i in range(require_integer(n, "n")))

    async def _sample(self, prompt: Prompt, sample: int, sampling: Sampling) -> Completion:
        whole = segment = await self._sample_segment(prompt, sample, 0, sampling)
        if self.context is not None:
            room_for(self.name or "the model", whole.read_tokens, sampling, self.context)
        while self._continues(whole, segment, sampling):
            if not whole.prompt_ids or not whole.token_ids:
                why = f"{self.name or 'the model'} gives no token ids, so a segment cannot be continued"
                raise ModelError(f"{why}: use a model that does, or leave segments out")
            if sampling.stop and self._decode is None:
                raise ConfigError("stop strings may span two segments: give SegmentedModel a `decode`")
            read = (*whole.prompt_ids, *whole.token_ids)
            segment = await self._sample_segment(read, sample, len(whole.token_ids), sampling)
            whole = joined(whole, segment, stop=sampling.stop, decode=self._decode)
        if whole.finish_reason == "length" and whole.sampled_tokens < sampling.max_tokens:
            return replace(whole, finish_reason="context")  # a segment ended where the context does
        return whole

    def _continues(self, whole: Completion, segment: Completion, sampling: Sampling) -> bool:
        """Whether only the last segment has ended, and neither the completion nor the context.

        An empty segment, or one that is shorter than its limit, was cut off by the context.
        """
        count = whole.sampled_tokens
        room = self.context is None or whole.read_tokens + count < self.context
        full = segment.sampled_tokens % self._segment == 0 and bool(segment.sampled_tokens or segment.text)
        return whole.finish_reason == "length" and full and count < sampling.max_tokens and room

    async def _sample_segment(self, prompt: Prompt, sample: int, done: int, sampling: Sampling) -> Completion:
        seed = None if sampling.seed is None else derive_seed(sampling.seed, sample, done)
        limit = min(self._segment, sampling.max_tokens - done)
        request = replace(sampling, seed=seed, max_tokens=limit, overflow="unknown")
        [segment] = await self.model.complete(prompt, 1, request)
        return segment


def joined(
    whole: Completion, segment: Completion, *, stop: Sequence[str] = (), decode: Decode | None = None
) -> Completion:
    """A completion and the segment that was sampled after it, as one completion.

    A stop string may start in the one and end in the other. Without `decode` the two texts are joined.

    Example:
        >>> first = Completion("4 ", "length", (1,), (7, 8), (-0.5, -0.1), 1.0, ((3, 2),), 1, 2)
        >>> second = Completion("2", "stop", (1, 7, 8), (9,), (-0.2,), 1.0, ((4, 1),), 3, 1)
        >>> both = joined(first, second)
        >>> both.text, both.token_ids, both.versions, both.completion_tokens
        ('4 2', (7, 8, 9), ((3, 2), (4, 1)), 3)
    """
    ids = (*whole.token_ids, *segment.token_ids)
    has_logprobs = bool(whole.logprobs) and bool(segment.logprobs)
    text = decode(ids) if decode is not None else whole.text + segment.text
    both = replace(
        whole,
        text=text,
        finish_reason=segment.finish_reason,
        token_ids=ids,
        logprobs=(*whole.logprobs, *segment.logprobs) if has_logprobs else (),
        versions=merged_runs((*whole.versions, *segment.versions)),
        completion_tokens=whole.sampled_tokens + segment.sampled_tokens,
    )
    return _stopped(both, len(whole.token_ids), stop, decode) if stop and decode is not None else both


def merged_runs(runs: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Run lengths, with neighbours of the same version merged.

    Example:
        >>> merged_runs([(3, 4), (3, 2), (4, 1)])
        ((3, 6), (4, 1))
    """
    filled = (run for run in runs if run[1])
    return tuple(
        (version, sum(length for _, length in same)) for version, same in groupby(filled, itemgetter(0))
    )


def _stopped(both: Completion, joint: int, stop: Sequence[str], decode: Decode) -> Completion:
    """Cut at the first token after the joint that completes a stop text; unchanged if there is none."""

    def complete(count: int) -> bool:
        text = decode(both.token_ids[:count])
        return any(word in text for word in stop)

    # A stop text that is complete at `joint` would have ended the completion there.
    low, high = joint, len(both.token_ids)
    if not complete(high):
        return both
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if complete(middle) else (middle, high)
    text = decode(both.token_ids[:high])
    return replace(
        both,
        text=text[: min(text.index(word) for word in stop if word in text)],
        finish_reason="stop",
        token_ids=both.token_ids[:high],
        logprobs=both.logprobs[:high],
        versions=_first_tokens(both.versions, high),
        completion_tokens=high,
    )


def _first_tokens(runs: Iterable[tuple[int, int]], count: int) -> tuple[tuple[int, int], ...]:
    versions = (version for version, length in runs for _ in range(length))
    return merged_runs((version, 1) for version in islice(versions, count))


def _tokenizer_of(model: Model) -> Decode | None:
    tokenizer = getattr(model, "tokenizer", None)
    return None if tokenizer is None else lambda ids: tokenizer.decode(list(ids), skip_special_tokens=True)
