"""OpenRLHF's vLLM engines as a model of mars_env: token ids in and out, so no text is tokenised twice."""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from mars_env.errors import ConfigError, MarsError, ModelError
from mars_env.models.requests import Sampled, TokenModel, require_fit
from mars_env.rollout.segments import merged_runs
from mars_env.types import Completion, Sampling

CALLS = 512
"""Most calls of one engine at a time: a Ray actor runs a thousand, and new weights must not queue."""


async def streamed(outputs: AsyncIterable[Any], version: Callable[[], int]) -> Sampled:
    """One completion from vLLM's stream of new tokens (``RequestOutputKind.DELTA``).

    `version` returns the present version of the weights, once all tokens of the one before have arrived.
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


class RayEngine:
    """An engine that lives in a Ray actor; `dead` says why it can no longer sample, empty while it can."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle
        self.dead = ""

    async def sample(self, ids: Sequence[int], requests: Sequence[Mapping[str, Any]]) -> list[Sampled]:
        """One completion of a prompt for each request (arguments of vLLM's ``SamplingParams``)."""
        return await self._answer(self._handle.sample.remote, list(ids), list(requests))

    async def score(self, ids: Sequence[int]) -> list[float]:
        """The log-probabilities of all tokens but the first, at temperature 1."""
        return await self._answer(self._handle.score.remote, list(ids))

    async def _answer(self, call: Callable[..., Any], *arguments: Any) -> list[Any]:
        from ray.exceptions import RayActorError, RayError

        try:
            return list(await asyncio.wrap_future(call(*arguments).future()))
        except RayError as error:
            cause = getattr(error, "cause", None) or error
            what = f"{type(cause).__name__}: {cause}"[:300]
            if isinstance(error, RayActorError) or type(cause).__name__ == "EngineDeadError":
                self.dead = what
            raise ModelError(f"an engine failed: {what}") from error


def require_alive(engines: Sequence[RayEngine]) -> None:
    """A MarsError if an engine is dead: a failed turn costs its tree, a dead engine would cost all."""
    for engine in engines:
        if engine.dead:
            raise MarsError(f"an engine is dead (its log says why); resume the run: {engine.dead}")


class AgentFileEngine:
    """The engine that OpenRLHF gives to an agent file; it does not report versions of the weights."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine

    async def sample(self, ids: Sequence[int], requests: Sequence[Mapping[str, Any]]) -> list[Sampled]:
        """One completion of a prompt for each request."""
        return list(await asyncio.gather(*(self._one(ids, request) for request in requests)))

    async def score(self, ids: Sequence[int]) -> list[float]:
        """A ConfigError: OpenRLHF's own command line gives no log-probabilities of given texts."""
        raise ConfigError("OpenRLHF's own command line scores no texts: use mars-env train")

    async def _one(self, ids: Sequence[int], request: Mapping[str, Any]) -> Sampled:
        from vllm import SamplingParams

        try:
            answer = await self._engine.generate(list(ids), SamplingParams(**request))
        except (RuntimeError, ValueError) as error:  # vLLM raises these for all failures
            raise ModelError(f"the engine failed: {type(error).__name__}: {error}"[:300]) from error
        output = answer.outputs[0]
        tokens = tuple(output.token_ids)
        logprobs = tuple(entry[token].logprob for token, entry in zip(tokens, output.logprobs, strict=True))
        return Sampled(tokens, logprobs, output.finish_reason, ())


Engine = RayEngine | AgentFileEngine


class EnginesModel(TokenModel):
    """Several engines with the same weights, as one model. Each request goes to the least busy engine."""

    def __init__(
        self,
        engines: Sequence[Engine],
        tokenizer: Any,
        context: int,
        *,
        name: str = "actor",
    ) -> None:
        self.name, self.tokenizer, self.context = name, tokenizer, context
        self.vocabulary = len(tokenizer)
        self._engines = list(engines)
        self._busy = [0] * len(self._engines)
        self._calls = [asyncio.Semaphore(CALLS) for _ in self._engines]

    def __repr__(self) -> str:
        return f"EnginesModel({self.name!r}, {len(self._engines)} engines)"

    async def _sampled(self, ids: tuple[int, ...], n: int, sampling: Sampling, room: int) -> list[Completion]:
        requests = [_request(sampling, room)] * n
        async with self._least_busy(n) as engine:  # one, whose prefix cache the samples share
            sampled = await engine.sample(ids, requests)
        return [self.completion(ids, sampling, sample) for sample in sampled]

    async def _scored(self, given: Completion) -> Completion:
        require_fit(given, self.context - 1, self.name)  # vLLM samples a token after what it scores
        async with self._least_busy(1) as engine:
            logprobs = await engine.score([*given.prompt_ids, *given.token_ids])
        return replace(given, logprobs=tuple(logprobs[len(given.prompt_ids) - 1 :]))

    @asynccontextmanager
    async def _least_busy(self, n: int) -> AsyncIterator[Engine]:
        least = min(range(len(self._engines)), key=self._busy.__getitem__)
        self._busy[least] += n
        try:
            async with self._calls[least]:
                yield self._engines[least]
        finally:
            self._busy[least] -= n


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
