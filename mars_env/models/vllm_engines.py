"""The two ways to run vLLM in this process: batches (`LLM`), and one stream of requests (`AsyncLLM`)."""

from __future__ import annotations

import asyncio
import importlib
import threading
import uuid
import weakref
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from mars_env.errors import ConfigError, MissingExtra, ModelError
from mars_env.models.batching import Ticket, engine_lock, submit

T = TypeVar("T")


class PackedExperts:
    """What `VLLMModel` adds to vLLM's workers on CPUs.

    Kernels for CPUs read the weights of experts in a packed order. vLLM 0.32 packs them when the model is
    loaded and not when its weights are reloaded: the experts would then compute with shuffled weights.
    """

    def pack_reloaded_experts(self) -> None:
        """From now on, reloaded experts are packed, too."""
        methods = importlib.import_module("vllm.model_executor.layers.fused_moe.unquantized_fused_moe_method")
        method = methods.UnquantizedFusedMoEMethod
        method._setup_kernel = _packing(method._setup_kernel)


def _packing(setup: Any) -> Any:
    """The method of vLLM that puts the weights into the kernel's order, with the step it leaves out."""

    def setup_kernel(self: Any, layer: Any, w13: Any, w2: Any) -> None:
        if self.moe_kernel is None:  # the first load, which is complete
            setup(self, layer, w13, w2)
            return
        packed: list[None] = []
        experts = self.moe_kernel.fused_experts
        pack = experts.process_weights_after_loading
        experts.process_weights_after_loading = lambda layer: packed.append(pack(layer))
        try:
            setup(self, layer, w13, w2)
        finally:
            del experts.process_weights_after_loading
        if not packed:
            pack(layer)

    return setup_kernel


EXTENSION = f"{__name__}.{PackedExperts.__name__}"
"""For vLLM's engine argument ``worker_extension_cls``."""

PACK_RELOADED = PackedExperts.pack_reloaded_experts.__name__
"""For vLLM's `collective_rpc`, once an engine has started."""


@dataclass(eq=False, frozen=True, slots=True)
class EngineRequest:
    """One sample: the prompt's token ids, vLLM's sampling parameters and LoRA request."""

    ids: tuple[int, ...]
    params: Any
    lora: Any = None


@dataclass(frozen=True, slots=True)
class EngineOutput:
    """vLLM's `RequestOutput` of a job, and which weights sampled which of its tokens (run-length)."""

    output: Any
    versions: tuple[tuple[int, int], ...]


def generated(output: Any, version: int) -> EngineOutput:
    """An output with its versions: as vLLM notes them since 0.32, else `version` for all tokens.

    Before, requests are never interrupted (`require_notes`), so all tokens come from the engine's weights.
    """
    completion = output.outputs[0]
    spans = getattr(completion, "weight_versions", None)
    if spans is not None:
        return EngineOutput(output, tuple((int(span.version), span.end - span.start) for span in spans))
    return EngineOutput(output, ((version, len(completion.token_ids)),) if completion.token_ids else ())


def require_notes(vllm: Any) -> None:
    """Refuse to interrupt requests of a vLLM before 0.32: it does not note which weights sampled a token."""
    if "weight_versions" not in vllm.CompletionOutput.__dataclass_fields__:
        raise ConfigError(
            f"vLLM {vllm.__version__} does not note which weights sampled which tokens: refresh without "
            "interrupt=True, or install vLLM 0.32 or newer"
        )


class OfflineEngine:
    """`LLM`: the requests of a wave (see `mars_env.models.batching`) run as one batch to their ends.

    Attributes:
        context: Most tokens of a prompt and its completion together.
        capacity: Samples decoded at once.
    """

    def __init__(self, settings: Mapping[str, Any], version: int) -> None:
        self._vllm = load_vllm()
        self._llm = _made(lambda: self._vllm.LLM(**settings, disable_log_stats=True))
        self._core = self._llm.llm_engine
        self.context: int = self._core.model_config.max_model_len
        self.capacity: int = self._core.vllm_config.scheduler_config.max_num_seqs
        self._core.set_weight_version(str(version))
        self._version = version
        if settings.get("worker_extension_cls") == EXTENSION:
            self._llm.collective_rpc(PACK_RELOADED)
        self._finalizer = weakref.finalize(self, self._core.engine_core.shutdown)

    async def generate(self, jobs: Sequence[EngineRequest]) -> list[EngineOutput]:
        """What vLLM gives for each job, in their order."""
        return await submit(self, tuple(jobs))

    def run(
        self, tickets: Sequence[Ticket[tuple[EngineRequest, ...], list[EngineOutput]]]
    ) -> list[list[EngineOutput] | BaseException]:
        """Answer a wave; called by `mars_env.models.batching` in a worker thread."""
        answers: dict[EngineRequest, EngineOutput] = {}
        jobs = [job for ticket in tickets for job in ticket.request]
        for adapted in (False, True):  # see `VLLMModel.adapter`: the two may not share a batch on CPUs
            if part := [job for job in jobs if (job.lora is not None) == adapted]:
                answers |= zip(part, self._batch(part, adapted), strict=True)
        return [[answers[job] for job in ticket.request] for ticket in tickets]

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

    def reload(self, path: str, version: int, *, interrupt: bool) -> None:
        """Read the weights of a checkpoint's directory in place; no wave is ever interrupted."""
        if interrupt:
            raise ConfigError("the offline engine finishes its batch first: interrupt needs engine='async'")
        with engine_lock:
            self._llm.collective_rpc("reload_weights", kwargs={"weights_path": path})
            if not self._llm.reset_prefix_cache():
                raise ModelError("vLLM did not drop its prefix cache, which holds the old weights' values")
            self._core.set_weight_version(str(version))
            self._version = version

    def close(self) -> None:
        """Stop the engine's processes."""
        self._finalizer()


class StreamingEngine:
    """`AsyncLLM`: requests join and leave the running batch at any time.

    It runs in its own event loop and thread, so that it can be used from any event loop, and so that
    `reload` may wait in the loop that the requests come from.
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
        if settings.get("worker_extension_cls") == EXTENSION:
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

    def reload(self, path: str, version: int, *, interrupt: bool) -> None:
        """Read the weights of a checkpoint's directory in place."""
        self._engine()
        if interrupt:
            require_notes(self._vllm)
        with self._reloading:
            self._wait(self._reload(path, version, "keep" if interrupt else "wait"))

    async def _reload(self, path: str, version: int, mode: str) -> None:
        # Clearing the cache makes running requests read their own tokens again with the new weights.
        llm = self._engine()
        await llm.pause_generation(mode=mode, clear_cache=True)
        try:
            await llm.collective_rpc("reload_weights", kwargs={"weights_path": path})
            await llm.update_weight_version(str(version))
            self._version = version
        finally:
            await llm.resume_generation()

    def close(self) -> None:
        """Stop the engine's processes."""
        self._finalizer()


def load_vllm() -> Any:
    """The module vllm; not imported before it is needed, since that takes seconds."""
    try:
        return importlib.import_module("vllm")
    except ImportError as error:
        raise MissingExtra("VLLMModel needs vLLM: pip install 'mars-env[vllm]' (docs/engines.md)") from error


def _made(make: Any) -> Any:
    """What `make` makes; vLLM's refusals of settings become a `ConfigError`."""
    try:
        return make()
    except (ValueError, TypeError, OSError) as error:
        raise ConfigError(f"vLLM refuses the model or its settings: {error}") from error
    except RuntimeError as error:  # its processes failed; what they said is in the log
        raise ConfigError(f"vLLM could not start: {error}") from error


def _failure(error: BaseException) -> BaseException:
    if isinstance(error, ModelError | asyncio.CancelledError) or not isinstance(error, Exception):
        return error
    return ModelError(f"vLLM failed: {type(error).__name__}: {error}"[:300])


def _stop(loop: asyncio.AbstractEventLoop, thread: threading.Thread, held: list[Any]) -> None:
    """Shut an engine down in its own loop, then end the loop and its thread."""

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
