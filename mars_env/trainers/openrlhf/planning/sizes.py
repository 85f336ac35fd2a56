"""Sizes of models, from their `config.json`: parameters, and memory per token."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

from mars_env.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Architecture:
    """What determines the size of a decoder of the Llama family (Llama, Mistral, Qwen2, Qwen3, Qwen3-MoE).

    Attributes:
        hidden: Width of the residual stream.
        layers: Number of decoder layers.
        heads: Query heads of a layer.
        kv_heads: Key and value heads of a layer.
        head_dim: Width of one head.
        intermediate: Width of a dense layer's feed-forward part.
        vocabulary: Rows of the embedding.
        tied: Whether the output layer is the embedding.
        qkv_bias: Whether queries, keys and values have biases.
        output_bias: Whether attention's output has one.
        qk_norm: Whether queries and keys are normalised.
        experts: Experts of a sparse layer; 0 for a dense model.
        expert_intermediate: Width of one expert.
        experts_per_token: Experts that one token passes.
        dense_layers: Layers of a sparse model that are dense all the same.
        context: Most tokens of prompt and completion together; None if it is not fixed (scaled rotary
            embedding).
    """

    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocabulary: int
    tied: bool = False
    qkv_bias: bool = False
    output_bias: bool = False
    qk_norm: bool = False
    experts: int = 0
    expert_intermediate: int = 0
    experts_per_token: int = 0
    dense_layers: int = 0
    context: int | None = None

    @property
    def parameters(self) -> int:
        """All weights.

        Example:
            >>> PRESETS["Qwen/Qwen3-8B"].parameters
            8190735360
        """
        q, kv = self.heads * self.head_dim, self.kv_heads * self.head_dim
        attention = self.hidden * (2 * q + 2 * kv)
        attention += (q + 2 * kv) * self.qkv_bias + self.hidden * self.output_bias
        attention += 2 * self.head_dim * self.qk_norm
        dense = 3 * self.hidden * self.intermediate
        sparse = self.experts * (3 * self.hidden * self.expert_intermediate + self.hidden)
        norms = 2 * self.hidden
        dense_layers = self.dense_layers if self.experts else self.layers
        layers = self.layers * (attention + norms)
        layers += dense_layers * dense + (self.layers - dense_layers) * sparse
        embeddings = self.vocabulary * self.hidden * (1 if self.tied else 2)
        return layers + embeddings + self.hidden

    def kv_bytes(self, tensor_parallel: int = 1) -> int:
        """Bytes of one token's keys and values on one of `tensor_parallel` GPUs, in 16 bits.

        Example:
            >>> PRESETS["Qwen/Qwen3-8B"].kv_bytes()
            147456
        """
        return 2 * 2 * self.layers * max(1, self.kv_heads // tensor_parallel) * self.head_dim

    def layer_bytes(self) -> int:
        """Bytes of the activations that one layer keeps of one token for its backward pass, in 16 bits.

        Our own count of what autograd keeps with flash attention, in the manner of arXiv 2205.05198, section
        4: the inputs of both norms and of both projections behind them, queries, keys and values before and
        after the rotation, attention's output, and four times the feed-forward part's width (gate, up,
        activation, product).
        """
        width = self.experts_per_token * self.expert_intermediate if self.experts else self.intermediate
        attention = 2 * (self.heads + 2 * self.kv_heads) * self.head_dim + self.heads * self.head_dim
        return 2 * (4 * self.hidden + attention + 4 * width)


def architecture(config: Mapping[str, Any]) -> Architecture:
    """Read the contents of a `config.json`.

    Raises:
        ConfigError: The model is of a family that this count does not know, or a size is missing.

    Example:
        >>> config = dict(model_type="llama", hidden_size=8, num_hidden_layers=1, num_attention_heads=2,
        ...               intermediate_size=16, vocab_size=10)
        >>> architecture(config).parameters
        824
    """
    kind = config.get("model_type")
    if kind not in FAMILIES:
        raise ConfigError(
            f"the sizes of a model of type {kind!r} are not known here, only those of {', '.join(FAMILIES)}: "
            "no estimate of its memory can be made"
        )
    try:
        return _decoder(kind, config)
    except KeyError as missing:
        raise ConfigError(f"this config.json of a {kind} model names no {missing}") from missing


def _decoder(kind: str, config: Mapping[str, Any]) -> Architecture:
    heads, hidden = config["num_attention_heads"], config["hidden_size"]
    biased = bool(config.get("attention_bias", False))
    base = Architecture(
        hidden=hidden,
        layers=config["num_hidden_layers"],
        heads=heads,
        kv_heads=config.get("num_key_value_heads") or heads,
        head_dim=config.get("head_dim") or hidden // heads,
        intermediate=config["intermediate_size"],
        vocabulary=config["vocab_size"],
        tied=bool(config.get("tie_word_embeddings", False)),
        qkv_bias=kind == "qwen2" or biased,
        output_bias=kind != "qwen2" and biased,
        qk_norm=kind in ("qwen3", "qwen3_moe"),
        context=_context(config),
    )
    if kind != "qwen3_moe":
        return base
    step, dense = config.get("decoder_sparse_step", 1), set(config.get("mlp_only_layers") or ())
    sparse = [layer for layer in range(base.layers) if layer not in dense and (layer + 1) % step == 0]
    return replace(
        base,
        experts=config.get("num_experts") or config["num_local_experts"],  # the newer name of transformers 5
        expert_intermediate=config["moe_intermediate_size"],
        experts_per_token=config["num_experts_per_tok"],
        dense_layers=base.layers - len(sparse),
    )


def _context(config: Mapping[str, Any]) -> int | None:
    rotation = config.get("rope_scaling") or config.get("rope_parameters") or {}
    plain = rotation.get("rope_type", rotation.get("type", "default")) == "default"
    context: int | None = config.get("max_position_embeddings")
    return context if plain else None


def require_context(checkpoint: str, max_len: int) -> None:
    """Refuse a length that the engines would refuse only after minutes, while the trainer waits for them.

    Args:
        checkpoint: As for `architecture_of`; one whose sizes are not known is left to the engines.
        max_len: ``--data.max_len``.

    Raises:
        ConfigError: The model's context is shorter.

    Example:
        >>> require_context("Qwen/Qwen3-8B", 32_768)
        >>> require_context("Qwen/Qwen3-8B", 65_536)
        Traceback (most recent call last):
        mars_env.errors.ConfigError: --data.max_len 65536 is beyond the context of Qwen/Qwen3-8B, 40960 tokens
    """
    try:
        context = architecture_of(checkpoint).context
    except ConfigError:
        return
    if context is not None and max_len > context:
        raise ConfigError(f"--data.max_len {max_len} is beyond the context of {checkpoint}, {context} tokens")


def require_model(checkpoint: str, flag: str) -> None:
    """Check that a checkpoint is there, as far as this machine can tell; a name on a hub passes.

    Args:
        checkpoint: Path or name of a model.
        flag: Where it is given.

    Raises:
        ConfigError: It is a path to nothing, a folder without a model, or no name that a hub could have.

    Example:
        >>> require_model("Qwen/Qwen3-8B", "--actor.model_name_or_path")
        >>> require_model("./base", "--actor.model_name_or_path")
        Traceback (most recent call last):
        mars_env.errors.ConfigError: --actor.model_name_or_path './base' is no folder here: correct its path
    """
    path = Path(checkpoint)
    if path.is_dir():
        if not (path / "config.json").exists():
            raise ConfigError(f"{flag} {checkpoint!r} is a folder without a config.json: correct its path")
    elif not _HUB_NAME.fullmatch(checkpoint) or (path.parent != Path() and path.parent.is_dir()):
        raise ConfigError(f"{flag} {checkpoint!r} is no folder here: correct its path")


def unchecked(checkpoint: str) -> str | None:
    """What to warn of where only a hub knows whether a model exists; None where this machine knows it.

    Example:
        >>> unchecked("Qwen/Qwen3-8B")
        >>> unchecked("Qwen/Qwen3-8b")
        "without a network nothing says whether the model 'Qwen/Qwen3-8b' exists (known here: Qwen/Qwen3-8B)"
    """
    if Path(checkpoint).is_dir() or checkpoint in PRESETS or _cached(checkpoint) is not None:
        return None
    known = get_close_matches(checkpoint, PRESETS, n=1)
    near = f" (known here: {known[0]})" if known else ""
    return f"without a network nothing says whether the model {checkpoint!r} exists{near}"


def architecture_of(model: str) -> Architecture:
    """The architecture of a model by its path or name; nothing is downloaded.

    Args:
        model: A directory with a `config.json`, one of `PRESETS`, or a model in Hugging Face's cache.

    Raises:
        ConfigError: It is none of these, of a family that is not known, or its `config.json` cannot be read.

    Example:
        >>> architecture_of("Qwen/Qwen3-30B-A3B-Thinking-2507").parameters
        30532122624
    """
    path = Path(model) / "config.json"
    if path.exists():
        return architecture(_config(path))
    if model in PRESETS:
        return PRESETS[model]
    cached = _cached(model)
    if cached is not None:
        return architecture(_config(cached))
    raise ConfigError(
        f"the sizes of {model!r} are not known: it is no directory with a config.json, not in Hugging Face's "
        "cache, and none of the presets of mars_env.trainers.openrlhf.planning.sizes"
    )


def _config(path: Path) -> Mapping[str, Any]:
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error
    if not isinstance(config, dict):
        raise ConfigError(f"{path} is no config.json of a model: it holds no object")
    return config


def _cached(model: str) -> Path | None:
    """A `config.json` that was downloaded before."""
    try:
        from huggingface_hub import try_to_load_from_cache
        from huggingface_hub.errors import HFValidationError
    except ModuleNotFoundError:
        return None
    try:
        found = try_to_load_from_cache(model, "config.json")
    except HFValidationError:  # not a name that the hub could know, but a path
        return None
    return Path(found) if isinstance(found, str) else None


_HUB_NAME: Final = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")

FAMILIES: Final = ("llama", "mistral", "qwen2", "qwen3", "qwen3_moe")

_QWEN3 = Architecture(
    hidden=1024, layers=28, heads=16, kv_heads=8, head_dim=128, intermediate=3072, vocabulary=151936,
    tied=True, qk_norm=True, context=40960,
)  # fmt: skip
_QWEN3_4B = replace(_QWEN3, hidden=2560, layers=36, heads=32, intermediate=9728)
_QWEN3_8B = replace(_QWEN3, hidden=4096, layers=36, heads=32, intermediate=12288, tied=False)
_QWEN3_14B = replace(_QWEN3, hidden=5120, layers=40, heads=40, intermediate=17408, tied=False)
_QWEN3_30B_A3B = replace(
    _QWEN3, hidden=2048, layers=48, heads=32, kv_heads=4, intermediate=6144, tied=False, experts=128,
    expert_intermediate=768, experts_per_token=8,
)  # fmt: skip
_QWEN25_7B = Architecture(
    hidden=3584, layers=28, heads=28, kv_heads=4, head_dim=128, intermediate=18944, vocabulary=152064,
    qkv_bias=True, context=32768,
)  # fmt: skip

PRESETS: Final[Mapping[str, Architecture]] = {
    "Qwen/Qwen3-0.6B": _QWEN3,
    "Qwen/Qwen3-1.7B": replace(_QWEN3, hidden=2048, intermediate=6144),
    "Qwen/Qwen3-4B": _QWEN3_4B,
    "Qwen/Qwen3-4B-Thinking-2507": replace(_QWEN3_4B, context=262144),
    "Qwen/Qwen3-8B": _QWEN3_8B,
    "Qwen/Qwen3-14B": _QWEN3_14B,
    "Qwen/Qwen3-30B-A3B": _QWEN3_30B_A3B,
    "Qwen/Qwen3-30B-A3B-Thinking-2507": replace(_QWEN3_30B_A3B, context=262144),
    "Qwen/Qwen2.5-Coder-7B-Instruct": _QWEN25_7B,
    "inclusionAI/AReaL-boba-2-8B": _QWEN3_8B,
    "inclusionAI/AReaL-boba-2-14B": _QWEN3_14B,
}
"""Models of examples/openrlhf, so that their memory can be estimated before they are downloaded."""
