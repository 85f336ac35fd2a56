"""OpenRLHF's vLLM engines as a model of mars_env: token ids in and out, so no text is tokenised twice."""

import asyncio
from collections.abc import AsyncIterable, Callable, Mapping, Sequence
from typing import Any, Protocol

from mars_env.errors import MarsError, ModelError
from mars_env.models.requests import Sampled, TokenModel
from mars_env.rollout.segments import merged_runs
from mars_env.types import Completion, Sampling

CALLS = 512
"""Most calls of one engine at a time: a Ray actor runs a thousand, and new weights must not queue."""


async def streamed(outputs: AsyncIterable[Any], version: Callable[[], int]) -> Sampled:
    """One completion from vLLM's stream of new tokens (``RequestOutputKind.DELTA``).

    `version` returns the present version of the weights; all tokens that were sampled before new weights
    came must have arrived before it returns the new one.
    """
    tokens: list[int] = []
    logprobs: list[float] = []
    runs: list[tuple[int, int]] = []
    reason = ""
    async for output in outputs:
        piece = output.outputs[0]
        tokens += piece.token_ids
        logprobs += [entry[id].logprob for id, entry in zip(piece.token_ids, piece.logprobs, strict=True)]
        runs.append((version(), len(piece.token_ids)))
        reason = piece.finish_reason or reason
    return Sampled(tuple(tokens), tuple(logprobs), reason, merged_runs(runs))


class SamplingEngine(Protocol):
    """A sampling engine."""

    async def sample(self, ids: Sequence[int], requests: Sequence[Mapping[str, Any]]) -> list[Sampled]:
        """One completion of a prompt for each request (arguments of vLLM's ``SamplingParams``)."""


class RayEngine:
    """An engine that lives in a Ray actor; `dead` says why it can no longer sample, empty while it can."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle
        self.dead = ""

    async def sample(self, ids: Sequence[int], requests: Sequence[Mapping[str, Any]]) -> list[Sampled]:
        """See `SamplingEngine`; raises ModelError where the engine failed."""
        from ray.exceptions import RayActorError, RayError

        try:
            future = self._handle.sample.remote(list(ids), list(requests)).future()
            completions = await asyncio.wrap_future(future)
        except RayError as error:
            cause = getattr(error, "cause", None) or error
            what = f"{type(cause).__name__}: {cause}"[:300]
            if isinstance(error, RayActorError) or type(cause).__name__ == "EngineDeadError":
                self.dead = what
            raise ModelError(f"an engine failed: {what}") from error
        return list(completions)


def require_alive(engines: Sequence[RayEngine]) -> None:
    """Raise MarsError if an engine is dead: a failed turn costs its tree, a dead engine would cost all."""
    for engine in engines:
        if engine.dead:
            raise MarsError(f"an engine is dead (its log says why); resume the run: {engine.dead}")


class EnginesModel(TokenModel):
    """Several engines with the same weights, as one model. Each request goes to the least busy engine.

    `context` is the most tokens of prompt and completion together (``--data.max_len``).
    """

    def __init__(
        self, engines: Sequence[SamplingEngine], tokenizer: Any, context: int, *, name: str = "actor"
    ) -> None:
        self.name, self.tokenizer, self.context = name, tokenizer, context
        self.vocabulary = len(tokenizer)
        self._engines = list(engines)
        self._busy = [0] * len(self._engines)
        self._calls = [asyncio.Semaphore(CALLS) for _ in self._engines]

    def __repr__(self) -> str:
        return f"EnginesModel({self.name!r}, {len(self._engines)} engines)"

    async def _sampled(self, ids: tuple[int, ...], n: int, sampling: Sampling, room: int) -> list[Completion]:
        """The samples of one prompt, on one engine, so that they share its prefix cache."""
        requests = [_request(sampling, room)] * n
        least = min(range(len(self._engines)), key=self._busy.__getitem__)
        self._busy[least] += n
        try:
            async with self._calls[least]:
                sampled = await self._engines[least].sample(ids, requests)
        finally:
            self._busy[least] -= n
        return [self.completion(ids, sampling, each) for each in sampled]


def _request(sampling: Sampling, room: int) -> dict[str, Any]:
    """Arguments of vLLM's ``SamplingParams``; without a seed, since such requests are sampled one by one."""
    return {
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k,
        "max_tokens": room,
        "stop": list(sampling.stop),
        "logprobs": 0,  # only the sampled token's
        "detokenize": bool(sampling.stop),  # without stop strings all is decoded once, at the end
    }
