"""`VLLMModel`: vLLM in this process, exact, with weights that are refreshed in place."""

import importlib
import itertools
import secrets
import tempfile
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Self

from mars_env.checks import logprobs as checked_logprobs
from mars_env.errors import ConfigError, ModelError, explained
from mars_env.identity import digest_of
from mars_env.models import vllm_engines as engines
from mars_env.models.checkpoint import from_checkpoint
from mars_env.models.checksums import Checksum, checksums, merged
from mars_env.models.requests import Sampled, TokenModel, require_fit
from mars_env.models.vllm_weights import EXTENSION, WEIGHT_CHECKSUMS, complete_weights, shared
from mars_env.seeds import derive_seed
from mars_env.types import Completion, Sampling

_HARDWARE = {
    *("gpu_memory_utilization", "tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size"),
    *("max_num_seqs", "max_num_batched_tokens", "cpu_offload_gb", "swap_space", "download_dir", "hf_token"),
}
"""Engine arguments that change speed, memory and places, not what is sampled."""


class _Client(TokenModel):
    capacity: int
    _vllm: Any
    _engine: engines.OfflineEngine | engines.StreamingEngine
    _adapters_alone: bool
    _adapter: tuple[Any, int] | None = None
    """vLLM's request of one version of an adapter, and that version."""

    async def _sampled(self, ids: tuple[int, ...], n: int, sampling: Sampling, room: int) -> list[Completion]:
        samples = await self._generated([(ids, self._params(sampling, i, room)) for i in range(n)])
        return [self._completion(ids, sampling, sample) for sample in samples]

    async def _scored(self, completion: Completion) -> Completion:
        require_fit(completion, self.context - 1, self.name)  # vLLM samples a token after what it scores
        params = self._vllm.SamplingParams(
            max_tokens=1,
            prompt_logprobs=0,  # the prompt's own tokens alone
            detokenize=False,
            output_kind=self._vllm.sampling_params.RequestOutputKind.FINAL_ONLY,
        )
        [read] = await self._generated([((*completion.prompt_ids, *completion.token_ids), params)])
        entries = (read.output.prompt_logprobs or [])[len(completion.prompt_ids) :]
        # There may be too few, or one of a token that the model holds for impossible.
        with explained(ModelError, f"{self.name}: vLLM's log-probabilities cannot be used", ValueError):
            pairs = zip(entries, completion.token_ids, strict=True)
            values = checked_logprobs([entry[token].logprob for entry, token in pairs])
        return replace(completion, logprobs=values, versions=((read.versions[0][0], len(values)),))

    async def _generated(self, jobs: Sequence[tuple[tuple[int, ...], Any]]) -> list[engines.EngineOutput]:
        if self._adapter is None and self._adapters_alone:
            advice = "use engine='offline', or a model without max_lora_rank"
            raise ConfigError(f"{self.name}: on CPUs an async engine serves adapters alone; {advice}")
        if self._engine.asleep:
            raise ModelError(f"{self.name} sleeps: refresh it before it samples")
        lora, version = self._adapter or (None, 0)
        outputs = await self._engine.generate([engines.EngineRequest(*job, lora) for job in jobs])
        if lora is None:
            return outputs
        lengths = [len(output.output.outputs[0].token_ids) for output in outputs]
        pairs = zip(outputs, lengths, strict=True)
        return [replace(output, versions=((version, length),)) for output, length in pairs]

    def _params(self, sampling: Sampling, sample: int, room: int) -> Any:
        if not (sampling.temperature == 0 or 0.01 <= sampling.temperature <= 2):
            raise ConfigError(f"vLLM samples at temperatures of 0.01 to 2, got {sampling.temperature}")
        return self._vllm.SamplingParams(
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            top_k=sampling.top_k,
            max_tokens=room,
            stop=list(sampling.stop),
            seed=None if sampling.seed is None else derive_seed(sampling.seed, sample),
            logprobs=0,  # the sampled token's alone
            flat_logprobs=True,
            detokenize=bool(sampling.stop),  # otherwise the text is decoded once, at the end
            output_kind=self._vllm.sampling_params.RequestOutputKind.FINAL_ONLY,
        )

    def _completion(self, ids: tuple[int, ...], sampling: Sampling, sample: Any) -> Completion:
        output = sample.output.outputs[0]
        logprobs = tuple(output.logprobs.logprobs) if output.logprobs else ()
        sampled = Sampled(tuple(output.token_ids), logprobs, output.finish_reason, sample.versions)
        return self.completion(ids, sampling, sampled)


class VLLMModel(_Client):
    """A causal language model run by vLLM, on the GPUs or CPUs of this machine.

    Each sample is a request with its own seed. Log-probabilities are those of the distribution sampled from:
    after the temperature (0, or 0.01 to 2), top-p and top-k. Greedy completions carry those at temperature 1.

    The engine ``"async"`` (vLLM's `AsyncLLM`) takes requests at any time; ``"offline"`` (`LLM`) runs waves
    (see `mars_env.models.batching`): its batches, and so its rounding, are the same in each run.

    Scripts that make one need ``if __name__ == "__main__":``, since the engine's processes import the script.

    Args:
        model: A checkpoint's path or name.
        eager: Do not compile graphs: a quicker start, slower decoding. Best for small models and tests.
        max_lora_rank: Largest rank of the adapters to be served; None for none. See `adapter`.
        options: More of vLLM's engine arguments, e.g. ``{"gpu_memory_utilization": 0.5}``; the ``dtype`` of
            the weights is by default as stored.
        name: Name in messages and the default policy name of agents.
        template_options: Passed to the tokenizer's chat template, e.g. ``{"enable_thinking": False}``.

    Raises:
        ConfigError: The checkpoint cannot be loaded, or vLLM rejects a setting.
    """

    def __init__(  # public edge: friendly keywords, each with a default
        self,
        model: str | Path,
        *,
        engine: Literal["async", "offline"] = "async",
        eager: bool = False,
        max_lora_rank: int | None = None,
        options: Mapping[str, Any] | None = None,
        name: str = "",
        template_options: Mapping[str, Any] | None = None,
    ) -> None:
        if engine not in ("async", "offline"):
            raise ConfigError(f"engine is 'async' or 'offline', got {engine!r}")
        self._vllm = engines.load_vllm()
        self.name, self.version = name or Path(model).name, 0
        transformers = importlib.import_module("transformers")  # vLLM brings it
        loaders = transformers.AutoTokenizer, transformers.AutoConfig
        self.tokenizer, self._config = from_checkpoint(model, *(loader.from_pretrained for loader in loaders))
        self.template_options = dict(template_options or {})
        self.vocabulary: int = self._config.get_text_config(decoder=True).vocab_size
        settings: dict[str, Any] = {
            "model": str(model),
            "enforce_eager": eager,
            "logprobs_mode": "processed_logprobs",
            "worker_extension_cls": EXTENSION,
        }
        if max_lora_rank is not None:
            settings |= {"enable_lora": True, "max_lora_rank": max_lora_rank}
        cpu = engines.on_cpu()
        # Requests without a seed must differ between replicas: vLLM's own default would seed all alike.
        defaults: dict[str, Any] = {
            "enable_prefix_caching": True,
            "seed": secrets.randbits(31),
            "dtype": str(self._config.dtype or "auto").removeprefix("torch."),
        }
        if cpu:
            # A seeded request that got only a part of its prompt, and so no token, would end the engine.
            defaults["enable_chunked_prefill"] = False
        if clash := {*settings} & {*(options or ())}:
            raise ConfigError(f"options may not set {', '.join(sorted(clash))}: VLLMModel sets it itself")
        self._checkpoint = str(model)
        self._options = {name: value for name, value in (options or {}).items() if name not in _HARDWARE}
        settings = defaults | settings | dict(options or {})
        self.dtype: str = settings["dtype"]
        self._sleeps = bool(settings.get("enable_sleep_mode"))
        kind = engines.StreamingEngine if engine == "async" else engines.OfflineEngine
        self._engine = kind(settings, self.version)
        self.context = self._engine.context
        self.capacity = self._engine.capacity
        self._loras = itertools.count(1) if max_lora_rank is not None else None
        self._adapters_alone = cpu and engine == "async" and max_lora_rank is not None

    def __repr__(self) -> str:
        return f"VLLMModel({self.name!r}, version={self.version})"

    def identity(self) -> dict[str, Any]:
        """What identifies it; of `options`, which may hold secrets, digests, and nothing of the hardware."""
        return {
            "name": self.name,
            "version": self.version,
            "checkpoint": self._checkpoint,
            "dtype": self.dtype,
            "context": self.context,
            "template_options": self.template_options,
            "options": {name: digest_of(value) for name, value in self._options.items()},
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop the engine, which otherwise stops with the process."""
        self._engine.close()

    def refresh(self, weights: Any, version: int | None = None) -> None:
        """Replace the weights in place: running requests end first, new ones wait until then.

        Args:
            weights: A module of transformers or its state dict, with all parameters under the checkpoint's
                own names; else a `ConfigError`.
            version: The new version; by default one more than the old.
        """
        version = self.version + 1 if version is None else version
        state = weights if isinstance(weights, Mapping) else weights.state_dict()
        with shared(complete_weights(state, self._config)) as where:
            self._engine.reload(where, version)
        self.version = version

    def checksums(self) -> dict[str, Checksum]:
        """The checksums of those weights that the engine holds as they are in a checkpoint, by name there."""
        return merged(self._engine.ask_workers(WEIGHT_CHECKSUMS))

    def sleep(self) -> None:
        """Give the card's memory to the trainer until the next `refresh`, of this model or of its adapters.

        It needs the option ``enable_sleep_mode``, and does nothing without it; vLLM sleeps on GPUs only.
        """
        if self._sleeps:
            self._engine.sleep(keep_weights=self._loras is not None)

    def adapter(self, path: str | Path | Any, *, name: str = "", version: int = 0) -> "VLLMAdapter":
        """A separate model: these weights with a LoRA adapter, as PEFT saves it, on the same engine.

        On CPUs vLLM gives a request without an adapter the weights of one that shares its batch. So the
        offline engine runs them separately, and the async one serves adapters only.

        Args:
            path: Directory with ``adapter_config.json`` and ``adapter_model.safetensors``, or the adapter
                that is trained (`mars_env.trainers.lora.Adapter`).
            name: As for a model; by default that of the directory or of the adapter.
            version: Noted with each token.
        """
        name = name or (Path(path).name if isinstance(path, str | Path) else path.name)
        return VLLMAdapter(self, path, name, version)


class VLLMAdapter(_Client):
    """A LoRA adapter on a `VLLMModel`, as a separate model; made by `VLLMModel.adapter`."""

    def __init__(self, base: VLLMModel, path: str | Path | Any, name: str, version: int) -> None:
        vars(self).update(vars(base))
        self.base, self.name = base, name
        self._path = str(path) if isinstance(path, str | Path) else ""
        # The last two: a running request may still need the one before, if vLLM has dropped it.
        self._folders: deque[tempfile.TemporaryDirectory[str]] = deque(maxlen=2)
        self.refresh(path, version)

    def __repr__(self) -> str:
        return f"VLLMAdapter({self.name!r}, version={self.version})"

    def identity(self) -> dict[str, Any]:
        """What identifies it: the adapter as it was given, and its base."""
        return {"name": self.name, "version": self.version, "adapter": self._path, "base": self.base}

    @property
    def version(self) -> int:
        """Version of the adapter."""
        return 0 if self._adapter is None else self._adapter[1]

    def checksums(self) -> dict[str, Checksum]:
        """The checksums of the adapter's weights in the file that the engine is told to read."""
        [request, _] = self._adapter or (None, 0)
        path = Path(request.lora_path if request else self._path) / "adapter_model.safetensors"
        return checksums(importlib.import_module("safetensors.torch").load_file(path))

    def sleep(self) -> None:
        """As `VLLMModel.sleep`, for all adapters of the base."""
        self.base.sleep()

    def refresh(self, path: str | Path | Any, version: int | None = None) -> None:
        """Use another adapter (see `VLLMModel.adapter`); running requests end with the one they started with.

        vLLM reads adapters from directories only, so one that is trained passes through the machine's memory.
        """
        if self.base._loras is None:
            raise ConfigError(f"{self.base.name}: make the model with max_lora_rank, e.g. 16, for adapters")
        if not isinstance(path, str | Path):
            memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
            self._folders.append(tempfile.TemporaryDirectory(prefix="mars-env-adapter-", dir=memory))
            path.save_pretrained(path := self._folders[-1].name)
        if not (Path(path) / "adapter_config.json").is_file():
            raise ConfigError(f"there is no adapter at {path}: adapter_config.json is missing")
        # A new id and name each time: what vLLM has cached under the old ones is of other weights.
        self.base._engine.wake()
        number = next(self.base._loras)
        lora = importlib.import_module("vllm.lora.request")
        request = lora.LoRARequest(f"{self.name}/{number}", number, str(path))
        self._adapter = request, self.version + 1 if version is None else version
