"""The models that sample in a training: made, refreshed after every update, and probed for its weights."""

import json
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, Final, Protocol, runtime_checkable
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
from mars_env.types import Completion, Prompt

TOLERANCE: Final = {"float32": 2e-3, "float16": 0.05}
"""How far log-probabilities of the probe may differ on average, by the coarser precision of the two."""

COARSE: Final = 1.0
"""The same for bfloat16, which rounds unlikely tokens most, and for engines of unknown precision."""

PROBE = 32
"""Tokens of the probe."""

_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
"""The ranks of adapters that vLLM has room for."""


class Refreshable(Protocol):
    """A model whose weights can be replaced: `HFModel`, `VLLMModel`."""

    def refresh(self, weights: Any, version: int | None = None) -> None:
        """Take new weights, with their version."""


@runtime_checkable
class _Scoring(Protocol):
    """A model that is asked for the log-probabilities of given tokens: `VLLMModel`."""

    async def score(self, prompt: Prompt, *texts: str | Sequence[int], end: bool = True) -> Completion: ...


class Samplers:
    """Brings new weights to models, by policy, and proves by a probe that they have arrived.

    The probe is a fixed sequence of token ids. After each refresh sampler and trainer compute its
    log-probabilities; their mean difference is the metric ``policy/NAME/probe_gap``. A stale copy, a swapped
    adapter or a missing layer exceeds the tolerance and raises. Models that share the policy's own module,
    and those without `score`, are not probed.

    Args:
        models: The models that sample, by policy.
        tolerance: Largest mean difference; None: by precision (`TOLERANCE`, `COARSE`).
    """

    def __init__(self, models: Mapping[str, Refreshable], tolerance: float | None = None) -> None:
        self.models, self.tolerance = dict(models), tolerance

    def __call__(
        self, policies: Mapping[str, Policy]
    ) -> dict[str, float] | Coroutine[Any, Any, dict[str, float]]:
        """Refresh and probe all models; the metrics, to be awaited if an engine scores by requests."""
        gaps: dict[str, float] = {}
        asked: dict[str, _Scoring] = {}
        for name, model in self.models.items():
            policy = policies[name]
            shared = policy.model is getattr(model, "module", None)
            with (
                engine_lock if isinstance(model, HFModel) else nullcontext()
            ):  # a wave between would delay it
                model.refresh(None if shared else policy.model, version=policy.version)
                if isinstance(model, HFModel) and not shared:
                    found = model.logprobs(*probe_ids(_vocabulary(policy.model)))
                    gaps |= self._gap(name, policy, found, model.version)
            if isinstance(model, _Scoring) and not isinstance(model, HFModel):
                asked[name] = model
        return self._asked(policies, asked, gaps) if asked else gaps

    async def _asked(
        self, policies: Mapping[str, Policy], models: Mapping[str, _Scoring], gaps: dict[str, float]
    ) -> dict[str, float]:
        for name, model in models.items():
            prompt, tokens = probe_ids(_vocabulary(policies[name].model))
            found = await model.score(prompt, tokens, end=False)
            gaps |= self._gap(name, policies[name], found.logprobs, found.versions[0][0])
        return gaps

    def _gap(self, name: str, policy: Policy, sampled: Sequence[float], version: int) -> dict[str, float]:
        """The metric of a policy, from what its sampler scored with the version that it names."""
        model, vocabulary = self.models[name], _vocabulary(policy.model)
        row = ScoreRequest(*probe_ids(vocabulary))
        [trained] = given_logprobs(policy.model, [row], vocabulary=vocabulary)
        kinds = {_precision(policy.model), _precision(getattr(model, "module", model))}
        tolerance = self.tolerance or max(TOLERANCE.get(kind, COARSE) for kind in kinds)
        who = f"{model!r} of the policy {name!r} (version {policy.version} in {' and '.join(sorted(kinds))})"
        if version != policy.version:
            raise ModelError(f"{who} samples with version {version}")
        return {f"policy/{name}/probe_gap": checked_gap(sampled, trained, tolerance, who)}

    def sleep(self) -> None:
        """Let the models give their memory to the trainer until the next refresh, where they can."""
        for model in self.models.values():
            if isinstance(model, VLLMModel | VLLMAdapter):
                model.sleep()


def probe_ids(vocabulary: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The prompt and the tokens of the probe, always the same and from all over the vocabulary."""
    ids = np.random.default_rng(0).integers(vocabulary, size=PROBE + 1).tolist()
    return tuple(ids[:1]), tuple(ids[1:])


def checked_gap(sampled: Sequence[float], trained: Sequence[float], tolerance: float, who: str) -> float:
    """The mean difference of a probe's log-probabilities; a `ModelError` beyond the tolerance.

    Example:
        >>> checked_gap([-1.0, -2.0], [-1.0, -1.5], 0.3, "the engine")
        0.25
    """
    gap = float(np.abs(np.subtract(sampled, trained)).mean())
    if not gap <= tolerance:  # NaN, too
        raise ModelError(
            f"{who} does not sample with the weights that are trained: its log-probabilities of a probe "
            f"differ from the trainer's by {gap:.3g} on average, more than probe_tolerance, {tolerance:g}"
        )
    return gap


def _vocabulary(module: Any) -> int:
    return module.get_input_embeddings().num_embeddings


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
    eager, ahead = bool(given.pop("eager", False)), settings.pipeline.staleness > 0
    paths = {name: _checkpoint(model) for name, model in models.items()}
    adapters = {name: m.module for name, m in models.items() if isinstance(m.module, Adapter)}
    largest = max((adapter.rank for adapter in adapters.values()), default=0)
    shared = {name: path if name in adapters else name for name, path in paths.items()}
    engines: dict[str, VLLMModel] = {}
    found: dict[str, VLLMModel | VLLMAdapter] = {}
    for name, model in models.items():
        if shared[name] not in engines:
            options = dict(given)
            if model.context < 2**31:
                options.setdefault("max_model_len", model.context)
            if model.device.type == "cuda":
                options.setdefault("gpu_memory_utilization", 0.5 / len({*shared.values()}))
                options.setdefault("enable_sleep_mode", not ahead)
            engines[shared[name]] = VLLMModel(
                paths[name],
                engine="async" if ahead else "offline",
                eager=eager,
                max_lora_rank=min(rank for rank in _RANKS if rank >= largest) if name in adapters else None,
                options=options,
                name=model.name,
                template_options=model.template_options,
            )
        base = engines[shared[name]]
        found[name] = base.adapter(adapters[name], name=name) if name in adapters else base
    return found


def _checkpoint(model: HFModel) -> str:
    """Where the weights that a model began with can be read again."""
    path: str = model.module.name_or_path
    if not path:
        raise ConfigError(f"vLLM reads a checkpoint, and {model.name} has none: use save_pretrained first")
    return path


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
