"""The models that sample in a training: made, refreshed after every update, and compared with its weights."""

from collections.abc import Coroutine, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, Protocol, runtime_checkable

from mars_env.errors import ConfigError, ModelError
from mars_env.models.checksums import Checksum, checksums
from mars_env.models.hf import HFModel
from mars_env.models.vllm import VLLMAdapter, VLLMModel
from mars_env.trainers.lora import Adapter
from mars_env.trainers.policy import Policy
from mars_env.trainers.proof import WeightProof, probe_ids
from mars_env.trainers.recipes import RunSettings

_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)

_Engine = VLLMModel | VLLMAdapter


class Refreshable(Protocol):
    """A model whose weights can be replaced: `HFModel`, `VLLMModel`."""

    def refresh(self, weights: Any, version: int | None = None) -> None:
        """Take new weights, with their version."""


@runtime_checkable
class _Readable(Protocol):
    dtype: str
    version: int

    def checksums(self) -> Mapping[str, Checksum]: ...


class Sampler:
    """A model that samples: it takes new weights, and `mars_env.trainers.proof` is taken that it has them.

    Models without `checksums` have no proof.
    """

    def __init__(self, name: str, model: Refreshable) -> None:
        self.model, self.proof = model, WeightProof(f"{model!r} of {name!r}")

    def refresh(self, weights: Any, version: int) -> bool:
        """Give the model new weights, a module or a state dict; whether a `probe` must follow.

        A `ModelError` if the model has other weights afterwards, or lacks some.
        """
        model = self.model
        with model.lock if isinstance(model, HFModel) else nullcontext():  # a wave between would delay it
            model.refresh(weights, version=version)
            if not isinstance(model, _Readable):
                return False
            if model.version != version:
                raise ModelError(f"{model!r} has version {model.version}, not {version}")
            state = weights if isinstance(weights, Mapping) else weights.state_dict()
            sampled = model.checksums()
            dtypes = {name: sampled[name].dtype if name in sampled else model.dtype for name in state}
            is_read = self.proof.compare(checksums(state, dtypes), sampled)
        if not is_read and not isinstance(model, VLLMModel):
            raise ModelError(f"{model!r} lacks weights that are trained")
        return not is_read

    async def probe(self) -> None:
        """Have the model score a fixed text; a `ModelError` if that does not change with the weights."""
        if isinstance(self.model, VLLMModel):
            prompt, tokens = probe_ids(self.model.vocabulary)
            scores = await self.model.score(prompt, tokens, end=False)
            self.proof.compare_probe(scores.logprobs)


class Refresher:
    """Brings new weights to the models that sample, by policy, and proves that they have arrived.

    The metric ``policy/NAME/weights_read`` is the share of the tensors that are compared. Models that share
    the policy's own module need no proof.
    """

    def __init__(self, models: Mapping[str, Refreshable]) -> None:
        self.models = dict(models)
        self._samplers = {name: Sampler(name, model) for name, model in self.models.items()}

    def __call__(
        self, policies: Mapping[str, Policy]
    ) -> dict[str, float] | Coroutine[Any, Any, dict[str, float]]:
        """Refresh all models and compare them; the metrics, to be awaited if an engine scores the probe."""
        metrics: dict[str, float] = {}
        unread: list[Sampler] = []
        for name, sampler in self._samplers.items():
            policy = policies[name]
            if policy.model is getattr(sampler.model, "module", None):
                sampler.model.refresh(None, version=policy.version)
                continue
            if sampler.refresh(policy.model, policy.version):
                unread.append(sampler)
            if isinstance(sampler.model, _Readable):
                metrics[f"policy/{name}/weights_read"] = sampler.proof.share_read
        return self._probed(unread, metrics) if unread else metrics

    async def _probed(self, unread: Sequence[Sampler], metrics: dict[str, float]) -> dict[str, float]:
        for sampler in unread:
            await sampler.probe()
        return metrics

    def sleep(self) -> None:
        """Let the models give their memory to the trainer until the next refresh, where they can."""
        for model in self.models.values():
            if isinstance(model, VLLMModel | VLLMAdapter):
                model.sleep()


def sampling_models(models: Mapping[str, HFModel], settings: RunSettings) -> Mapping[str, HFModel | _Engine]:
    """The models that sample, by policy: those that are trained, or vLLM by `settings.engine`.

    vLLM runs in this process, from the same checkpoints, with adapters if they are trained. It samples in
    waves that repeat if rollouts and updates alternate, and sleeps during updates where it shares the card;
    else as a stream.
    """
    if settings.engine.name != "vllm":
        return models
    adapters = {name: m.module for name, m in models.items() if isinstance(m.module, Adapter)}
    # Adapters of one checkpoint share an engine.
    shared = {name: _checkpoint(model) if name in adapters else name for name, model in models.items()}
    engines: dict[str, VLLMModel] = {}
    sampled: dict[str, _Engine] = {}
    for name, model in models.items():
        if shared[name] not in engines:
            options = _engine_options(model, settings, len({*shared.values()}))
            engines[shared[name]] = VLLMModel(
                _checkpoint(model),
                engine="async" if settings.pipeline.staleness else "offline",
                eager=bool(options.pop("enforce_eager", False)),
                max_lora_rank=_room_for(adapters) if name in adapters else None,
                options=options,
                name=model.name,
                template_options=model.template_options,
            )
        engine = engines[shared[name]]
        sampled[name] = engine.adapter(adapters[name], name=name) if name in adapters else engine
    return sampled


def _engine_options(model: HFModel, settings: RunSettings, engines: int) -> dict[str, Any]:
    options: dict[str, Any] = {}
    if model.context < 2**31:
        options["max_model_len"] = model.context
    if model.device.type == "cuda":
        options["gpu_memory_utilization"] = 0.5 / engines
        options["enable_sleep_mode"] = settings.pipeline.staleness == 0
    return {**options, **settings.engine.limits(), **settings.engine.arguments}


def _room_for(adapters: Mapping[str, Adapter]) -> int:
    largest = max(adapter.rank for adapter in adapters.values())
    return min(rank for rank in _RANKS if rank >= largest)


def _checkpoint(model: HFModel) -> str:
    path: str = model.module.name_or_path
    if not path:
        raise ConfigError(f"vLLM reads a checkpoint, and {model.name} has none: use save_pretrained first")
    return path
