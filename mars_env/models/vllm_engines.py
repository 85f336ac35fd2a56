"""The two ways to run vLLM in this process: batches (`LLM`), and one stream of requests (`AsyncLLM`)."""

import asyncio
import importlib
import threading
import uuid
import weakref
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from mars_env.errors import ConfigError, ModelError, explained
from mars_env.lazy import needs
from mars_env.models.batching import Ticket, submit
from mars_env.models.vllm_weights import LOAD_SHARED, PACK_RELOADED

T = TypeVar("T")

_REJECTIONS = (ValueError, TypeError, OSError)


@dataclass(eq=False, frozen=True, slots=True)
class EngineRequest:
    """One sample, by vLLM's sampling parameters and LoRA request."""

    ids: tuple[int, ...]
    params: Any
    lora: Any = None


@dataclass(frozen=True, slots=True)
class EngineOutput:
    """vLLM's `RequestOutput` of a job, and which weights sampled which of its tokens (run-length)."""

    output: Any
    versions: tuple[tuple[int, int], ...]


_Ticket = Ticket[tuple[EngineRequest, ...], list[EngineOutput]]


def generated(output: Any, version: int) -> EngineOutput:
    """An output with its versions: vLLM's own since 0.32, else `version` (requests end before it changes)."""
    completion = output.outputs[0]
    spans = getattr(completion, "weight_versions", None)
    if spans is not None:
        return EngineOutput(output, tuple((int(span.version), span.end - span.start) for span in spans))
    return EngineOutput(output, ((version, len(completion.token_ids)),) if completion.token_ids else ())


class _Engine:
    """An engine that can give the card's memory away; it sleeps without its `asleep` parts."""

    asleep: tuple[str, ...] = ()
    _finalizer: Any

    def _call(self, method: str, argument: Any) -> None:
        raise NotImplementedError

    def ask_workers(self, method: str) -> list[Any]:
        """What a method of vLLM's workers returns, for each of them."""
        raise NotImplementedError

    def close(self) -> None:
        """Stop the engine's processes."""
        self._finalizer()

    def sleep(self, *, keep_weights: bool) -> None:
        """Free the card's memory; without `keep_weights` they must be reloaded next."""
        if not self.asleep:
            self._call("sleep", 1 if keep_weights else 2)
            self.asleep = ("weights", "kv_cache")

    def wake(self, *parts: str) -> None:
        """Take the memory back for these parts, by default for all."""
        if tags := [tag for tag in self.asleep if tag in (parts or self.asleep)]:
            self._call("wake_up", tags)
            self.asleep = tuple(tag for tag in self.asleep if tag not in tags)


class OfflineEngine(_Engine):
    """`LLM`: the requests of a wave (see `mars_env.models.batching`) run as one batch to their ends."""

    device = "vllm"

    def __init__(self, settings: Mapping[str, Any], version: int) -> None:
        self._vllm = load_vllm()
        self._llm = _made(lambda: self._vllm.LLM(**settings, disable_log_stats=True))
        self._core = self._llm.llm_engine
        self.context: int = self._core.model_config.max_model_len
        self.capacity: int = self._core.vllm_config.scheduler_config.max_num_seqs
        self._core.set_weight_version(str(version))
        self._version = version
        self.lock = threading.RLock()
        if on_cpu():
            self._llm.collective_rpc(PACK_RELOADED)
        self._finalizer = weakref.finalize(self, self._core.engine_core.shutdown)

    async def generate(self, jobs: Sequence[EngineRequest]) -> list[EngineOutput]:
        """What vLLM gives for each job, in their order."""
        return await submit(self, tuple(jobs))

    def run(self, tickets: Sequence[_Ticket]) -> dict[_Ticket, list[EngineOutput] | BaseException]:
        """Answer a wave; called by `mars_env.models.batching` in a worker thread."""
        answers: dict[EngineRequest, EngineOutput] = {}
        jobs = [job for ticket in tickets for job in ticket.request]
        jobs.sort(key=lambda job: (job.ids, job.params.seed or 0))
        for adapted in (False, True):  # see `VLLMModel.adapter`: the two may not share a batch on CPUs
            if batch := [job for job in jobs if (job.lora is not None) == adapted]:
                answers |= zip(batch, self._batch(batch, adapted), strict=True)
        return {ticket: [answers[job] for job in ticket.request] for ticket in tickets}

    def _batch(self, jobs: Sequence[EngineRequest], adapted: bool) -> list[EngineOutput]:
        try:
            outputs = self._llm.generate(
                [self._vllm.TokensPrompt(prompt_token_ids=list(job.ids)) for job in jobs],
                [job.params for job in jobs],
                lora_request=[job.lora for job in jobs] if adapted else None,
                use_tqdm=False,
            )
        except Exception as error:  # vLLM's errors have no common base
            raise _failure(error) from error
        return [generated(output, self._version) for output in outputs]

    def reload(self, where: Mapping[str, Any], version: int) -> None:
        """Replace the weights in place by those that `shared` holds, after the wave under way."""
        with self.lock:
            self.wake("weights")
            self._llm.collective_rpc(LOAD_SHARED, kwargs=where)
            self.wake()
            if not self._llm.reset_prefix_cache():
                raise ModelError("vLLM did not drop its prefix cache, which holds the old weights' values")
            self._core.set_weight_version(str(version))
            self._version = version

    def ask_workers(self, method: str) -> list[Any]:
        """What a method of vLLM's workers returns, for each of them."""
        with self.lock:
            return list(self._llm.collective_rpc(method))

    def _call(self, method: str, argument: Any) -> None:
        with self.lock:
            getattr(self._llm, method)(argument)


class StreamingEngine(_Engine):
    """`AsyncLLM`: requests join and leave the running batch at any time.

    It has its own event loop and thread, so that it can be used from any loop, and `reload` may wait there.
    """

    def __init__(self, settings: Mapping[str, Any], version: int) -> None:
        self._vllm = load_vllm()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="mars-env-vllm", daemon=True)
        self._thread.start()
        self._version = version
        self._held: list[Any] = []  # the engine; emptied when it is closed, which may be at the process's end
        try:
            _made(lambda: self._wait(self._start(settings, version)))
        except BaseException:
            _stop(self._loop, self._thread, self._held)
            raise
        self.context: int = self._engine().model_config.max_model_len
        self.capacity: int = self._engine().vllm_config.scheduler_config.max_num_seqs
        self._reloading = threading.Lock()
        self._finalizer = weakref.finalize(self, _stop, self._loop, self._thread, self._held)

    def _engine(self) -> Any:
        if not self._held:
            raise ModelError("this model's engine is closed")
        return self._held[0]

    async def _start(self, settings: Mapping[str, Any], version: int) -> None:
        arguments = self._vllm.AsyncEngineArgs(**settings, disable_log_stats=True)
        self._held.append(self._vllm.AsyncLLMEngine.from_engine_args(arguments))
        await self._engine().update_weight_version(str(version))
        if on_cpu():
            await self._engine().collective_rpc(PACK_RELOADED)

    def _wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    async def generate(self, jobs: Sequence[EngineRequest]) -> list[EngineOutput]:
        """As `OfflineEngine.generate`. Cancelling it aborts its requests."""
        self._engine()  # the loop of a closed engine would never answer
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._all(jobs), self._loop))

    async def _all(self, jobs: Sequence[EngineRequest]) -> list[EngineOutput]:
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._one(job)) for job in jobs]
        except BaseExceptionGroup as errors:
            raise _failure(errors.exceptions[0]) from errors.exceptions[0]
        return [task.result() for task in tasks]

    async def _one(self, job: EngineRequest) -> EngineOutput:
        prompt = self._vllm.TokensPrompt(prompt_token_ids=list(job.ids))
        final = None
        async for output in self._engine().generate(
            prompt, job.params, request_id=uuid.uuid4().hex, lora_request=job.lora
        ):
            final = output
        if final is None:
            raise ModelError("vLLM gave no output")
        return generated(final, self._version)

    def reload(self, where: Mapping[str, Any], version: int) -> None:
        """Replace the weights in place by those that `shared` holds, after the requests under way."""
        self._engine()
        with self._reloading:
            self.wake("weights")
            self._wait(self._reload(where, version))
            self.wake()

    def ask_workers(self, method: str) -> list[Any]:
        """What a method of vLLM's workers returns, for each of them."""
        return list(self._wait(self._engine().collective_rpc(method)))

    def _call(self, method: str, argument: Any) -> None:
        self._wait(getattr(self._engine(), method)(argument))

    async def _reload(self, where: Mapping[str, Any], version: int) -> None:
        llm = self._engine()
        await llm.pause_generation(mode="wait", clear_cache=True)  # it holds values of the old weights
        try:
            await llm.collective_rpc(LOAD_SHARED, kwargs=where)
            await llm.update_weight_version(str(version))
            self._version = version
        finally:
            await llm.resume_generation()


def load_vllm() -> Any:
    """The module vllm; not imported before it is needed, since that takes seconds."""
    with needs("vllm", "VLLMModel needs vLLM (docs/agents.md)"):
        return importlib.import_module("vllm")


def on_cpu() -> bool:
    """Whether vLLM runs on the CPU here."""
    return bool(importlib.import_module("vllm.platforms").current_platform.is_cpu())


def _made(make: Any) -> Any:
    failed = explained(ConfigError, "vLLM could not start", RuntimeError)  # the log has its processes' words
    with failed, explained(ConfigError, "vLLM rejects the model or its settings", *_REJECTIONS):
        return make()


def _failure(error: BaseException) -> BaseException:
    if isinstance(error, ModelError | asyncio.CancelledError) or not isinstance(error, Exception):
        return error
    return ModelError(f"vLLM failed: {type(error).__name__}: {error}"[:300])


def _stop(loop: asyncio.AbstractEventLoop, thread: threading.Thread, held: list[Any]) -> None:

    async def last() -> None:
        while held:
            held.pop().shutdown()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    asyncio.run_coroutine_threadsafe(last(), loop).result()
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()
