"""The models that sample in a training: made, refreshed after every update, and checked to have its weights."""

from __future__ import annotations

import json
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, Final, Protocol
from urllib.parse import parse_qsl

import numpy as np

from mars_env.errors import ConfigError, ModelError
from mars_env.models.batching import engine_lock
from mars_env.models.hf import HFModel
from mars_env.models.hf_decoding import ScoreRequest, given_logprobs
from mars_env.models.vllm import VLLMAdapter, VLLMModel
from mars_env.trainers.local import Policy
from mars_env.trainers.lora import Adapter
from mars_env.trainers.recipes import RunSettings

TOLERANCE: Final = {"float32": 2e-3, "float16": 0.05}
"""How far a probe's log-probabilities may differ on average, by the coarser precision of sampler and trainer."""

COARSE: Final = 0.25
"""The same for bfloat16, and for engines that do not name their precision."""

PROBE = 32
"""Tokens of the probe."""

_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
"""The ranks of adapters that vLLM has room for."""


class Refreshable(Protocol):
    """A model whose weights can be replaced: `HFModel`, `VLLMModel`."""

    def refresh(self, weights: Any, version: int | None = None) -> None:
        """Take new weights, with their version."""
        ...


class Samplers:
    """Brings new weights to models, by policy, and proves by a probe that they have arrived.

    The probe is a fixed sequence of token ids. After each refresh sampler and trainer compute its
    log-probabilities; their mean difference is the metric ``policy/NAME/probe_gap``. A stale copy, a swapped
    adapter or a missing layer exceeds the tolerance and raises. Models that share the policy's own module, and
    those without `score`, are not probed.

    Args:
        models: The models that sample, by policy.
        tolerance: Largest mean difference; None: by precision (`TOLERANCE`, `COARSE`).
    """

    def __init__(self, models: Mapping[str, Refreshable], tolerance: float | None = None) -> None:
        self.models, self.tolerance = dict(models), tolerance

    def __call__(self, policies: Mapping[str, Policy]) -> Coroutine[Any, Any, dict[str, float]]:
        """Refresh all models; what is returned probes them, and gives the metrics.

        Raises:
            ModelError: A sampler does not compute what the trainer does.
        """
        scored: dict[str, list[float]] = {}
        for name, model in self.models.items():
            policy = policies[name]
            if not isinstance(model, HFModel):
                model.refresh(policy.model, version=policy.version)
                continue
            shared = policy.model is model.module
            with engine_lock:  # a wave in between would keep the trainer waiting
                model.refresh(None if shared else policy.model, version=policy.version)
                if not shared:
                    scored[name] = model.logprobs(*probe_ids(policy.model))
        return self._probed(policies, scored)

    def sleep(self) -> None:
        """Let the models give their memory to the trainer until the next refresh, where they can."""
        for model in self.models.values():
            if isinstance(model, VLLMModel | VLLMAdapter):
                model.sleep()

    async def _probed(
        self, policies: Mapping[str, Policy], scored: Mapping[str, Sequence[float]]
    ) -> dict[str, float]:
        gaps = {}
        for name, model in self.models.items():
            policy, found, version = policies[name], scored.get(name), policies[name].version
            prompt, tokens = probe_ids(policy.model)
            if found is None and hasattr(model, "score"):
                completion = await model.score(prompt, tokens, end=False)
                found, version = completion.logprobs, completion.versions[0][0]
            if found is not None:
                [expected] = given_logprobs(
                    policy.model, [ScoreRequest(prompt, tokens)], vocabulary=_vocabulary(policy.model)
                )
                kinds = {_precision(policy.model), _precision(getattr(model, "module", model))}
                gaps[f"policy/{name}/probe_gap"] = checked_gap(
                    found,
                    expected,
                    max(TOLERANCE.get(kind, COARSE) for kind in kinds) if self.tolerance is None else self.tolerance,
                    f"{model!r} of the policy {name!r} samples with version {version}, the trainer has "
                    f"version {policy.version}, in {' and '.join(sorted(kinds))}",
                )
        return gaps


def probe_ids(module: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The prompt and the tokens of the probe: the same for every model of a vocabulary, and all over it."""
    ids = np.random.default_rng(0).integers(_vocabulary(module), size=PROBE + 1).tolist()
    return tuple(ids[:1]), tuple(ids[1:])


def checked_gap(
    sampled: Sequence[float], trained: Sequence[float], tolerance: float, who: str
) -> float:
    """The mean difference of two scores of the probe; a `ModelError` beyond the tolerance.

    Example:
        >>> checked_gap([-1.0, -2.0], [-1.0, -1.5], 0.3, "")
        0.25
    """
    gap = float(np.abs(np.subtract(sampled, trained)).mean())
    if not gap <= tolerance:  # NaN, too
        raise ModelError(
            f"{who}: their log-probabilities of a probe differ by {gap:.3g} on average, more than the "
            f"{tolerance:g} of rounding, so the sampler lacks the trainer's weights (probe_tolerance allows more)"
        )
    return gap


def _vocabulary(module: Any) -> int:
    size: int = module.get_input_embeddings().num_embeddings
    return size


def _precision(holder: Any) -> str:
    return str(getattr(holder, "dtype", "unknown")).removeprefix("torch.")


def sampling_models(
    engine: str, models: Mapping[str, HFModel], settings: RunSettings
) -> Mapping[str, HFModel | VLLMModel | VLLMAdapter]:
    """The models that sample, by policy, for those that are trained.

    Args:
        engine: ``"hf"``: the same ones. ``"vllm"``: vLLM in this process, from the same checkpoints, with
            adapters if they are trained; its engine arguments may follow, as in
            ``"vllm?eager=true&gpu_memory_utilization=0.4"``. It samples in waves that repeat if rollouts and
            updates alternate, and sleeps during updates where it shares the card; else as a stream.
        models: The models that are trained, by policy.
        settings: The run's.

    Raises:
        ConfigError: There is no such engine, or a model has no checkpoint that it could read.
    """
    kind, _, text = engine.partition("?")
    if kind == "hf" and not text:
        return models
    if kind != "vllm":
        raise ConfigError(f"engine is 'hf', or 'vllm' with options as in 'vllm?eager=true', got {engine!r}")
    given = {name: _value(value) for name, value in parse_qsl(text)}
    ahead = settings.pipeline.staleness > 0
    paths = {name: _checkpoint(model) for name, model in models.items()}
    adapters = {name: m.module for name, m in models.items() if isinstance(m.module, Adapter)}
    engines = {path if name in adapters else name for name, path in paths.items()}

    def made(name: str, model: HFModel, rank: int | None = None) -> VLLMModel:
        options = dict(given)
        eager = bool(options.pop("eager", False))
        if model.context < 2**31:
            options.setdefault("max_model_len", model.context)
        if model.device.type == "cuda":
            options.setdefault("gpu_memory_utilization", 0.5 / len(engines))
            options.setdefault("enable_sleep_mode", not ahead)
        return VLLMModel(
            paths[name],
            engine="async" if ahead else "offline",
            eager=eager,
            max_lora_rank=rank,
            options=options,
            name=model.name,
            template_options=model.template_options,
        )

    bases: dict[str, VLLMModel] = {}
    found: dict[str, VLLMModel | VLLMAdapter] = {}
    for name, model in models.items():
        if name not in adapters:
            found[name] = made(name, model)
            continue
        if paths[name] not in bases:
            largest = max(adapter.rank for adapter in adapters.values())
            bases[paths[name]] = made(name, model, min(rank for rank in _RANKS if rank >= largest))
        found[name] = bases[paths[name]].adapter(adapters[name], name=name)
    return found


def _checkpoint(model: HFModel) -> str:
    """Where the weights that a model began with can be read again."""
    path: str = model.module.name_or_path
    if not path:
        raise ConfigError(
            f"{model.name}: vLLM reads a checkpoint, and this model was made in Python: write it with "
            "save_pretrained, and give HFModel the folder"
        )
    return path


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
