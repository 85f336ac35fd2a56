"""Sizes of models, from their `config.json`: parameters, and memory per token. Nothing is downloaded."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from mars_env.errors import ConfigError, explained

FAMILIES: Final = ("llama", "mistral", "qwen2", "qwen3", "qwen3_moe")
"""Values of ``model_type`` for which the sizes are right."""


@dataclass(frozen=True, slots=True)
class Architecture:
    """What determines the memory of a decoder of the Llama family.

    Attributes:
        parameters: All weights but those of norms and biases, which are less than 0.1 % of them.
        feed_forward: Width of the feed-forward part that one token passes.
        context: Most tokens of a text; None if it is not fixed (scaled rotary embedding).
        tied: Whether the output layer is the embedding.
        query_norms: Whether queries and keys are normalised.
        itemsize: Bytes of one weight in the checkpoint.
    """

    parameters: int
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    feed_forward: int
    vocabulary: int
    context: int | None = None
    tied: bool = False
    query_norms: bool = False
    itemsize: int = 4

    def kv_bytes(self, tensor_parallel: int = 1) -> int:
        """Bytes of one token's keys and values on one of `tensor_parallel` GPUs, in 16 bits."""
        return 2 * 2 * self.layers * max(1, self.kv_heads // tensor_parallel) * self.head_dim

    def layer_bytes(self, itemsize: int = 2, *, autocast: bool = False) -> int:
        """Bytes that autograd keeps of one token in one layer, for weights of `itemsize` bytes.

        As in arXiv 2205.05198, section 4: what each matrix and the attention read, and both factors of each
        product. Norms compute in float32. Keys and values are counted as often as there are query heads.
        """
        query = self.heads * self.head_dim
        values = 2 * self.hidden + 5 * query + 4 * self.feed_forward
        normalised = 2 * self.hidden + self.query_norms * (query + self.kv_heads * self.head_dim)
        return (2 if autocast else itemsize) * values + (4 + itemsize) * normalised

    def linear_layers(self) -> dict[str, tuple[int, int]]:
        """Widths of the input and the output of each matrix of a layer, by the last part of its name."""
        query, keys = self.heads * self.head_dim, self.kv_heads * self.head_dim
        return {
            "q_proj": (self.hidden, query),
            "k_proj": (self.hidden, keys),
            "v_proj": (self.hidden, keys),
            "o_proj": (query, self.hidden),
            "gate_proj": (self.hidden, self.feed_forward),
            "up_proj": (self.hidden, self.feed_forward),
            "down_proj": (self.feed_forward, self.hidden),
        }


def architecture(config: Mapping[str, Any]) -> Architecture:
    """Read the contents of a `config.json`; a `ConfigError` for others than `FAMILIES`, or without a size."""
    kind = config.get("model_type")
    if kind not in FAMILIES:
        raise ConfigError(f"the sizes of a {kind!r} model are not known, only of {', '.join(FAMILIES)}")
    with explained(ConfigError, f"this config.json of a {kind} model has no", KeyError):
        return _decoder(kind, config)


def _decoder(kind: str, config: Mapping[str, Any]) -> Architecture:
    hidden, layers, heads = config["hidden_size"], config["num_hidden_layers"], config["num_attention_heads"]
    kv_heads = config.get("num_key_value_heads") or heads
    head_dim = config.get("head_dim") or hidden // heads
    width, vocabulary = config["intermediate_size"], config["vocab_size"]
    sparse, experts = 0, 0
    if kind == "qwen3_moe":
        sparse = layers // config.get("decoder_sparse_step", 1) - len(config.get("mlp_only_layers") or ())
        experts = config.get("num_experts") or config["num_local_experts"]  # the name since transformers 5
    expert = config["moe_intermediate_size"] if sparse else 0
    parameters = layers * hidden * 2 * (heads + kv_heads) * head_dim
    parameters += (layers - sparse) * 3 * hidden * width + sparse * experts * hidden * (3 * expert + 1)
    parameters += vocabulary * hidden * (1 if config.get("tie_word_embeddings") else 2)
    rotation = config.get("rope_scaling") or config.get("rope_parameters") or {}
    fixed = rotation.get("rope_type", rotation.get("type", "default")) == "default"
    return Architecture(
        parameters,
        hidden,
        layers,
        heads,
        kv_heads,
        head_dim,
        feed_forward=config["num_experts_per_tok"] * expert if sparse else width,
        vocabulary=vocabulary,
        context=config.get("max_position_embeddings") if fixed else None,
        tied=bool(config.get("tie_word_embeddings")),
        query_norms=kind.startswith("qwen3"),
        itemsize=2 if "16" in str(config.get("dtype") or config.get("torch_dtype")) else 4,
    )


PRESETS: Final[Mapping[str, Architecture]] = {
    name: architecture(config)
    for name, config in json.loads(Path(__file__).with_name("architectures.json").read_text("utf-8")).items()
}
"""Models of examples/openrlhf, so that their memory can be estimated before they are downloaded."""


def architecture_of(model: str) -> Architecture:
    """The architecture of a directory with a `config.json`, of `PRESETS`, or of Hugging Face's cache.

    A `ConfigError` if it is none of these, not one of `FAMILIES`, or its `config.json` cannot be read.

    Example:
        >>> architecture_of("Qwen/Qwen3-30B-A3B-Thinking-2507").parameters
        30531911680
    """
    here = Path(model) / "config.json"
    if not here.exists() and model in PRESETS:
        return PRESETS[model]
    path = here if here.exists() else _cached(model)
    if path is None:
        raise ConfigError(f"the sizes of {model!r} are not known: no folder, not cached, no preset")
    with explained(ConfigError, f"{path} cannot be read", OSError, ValueError):
        config = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(config, dict):
        raise ConfigError(f"{path} is not a model's config.json: it holds no object")
    return architecture(config)


def _cached(model: str) -> Path | None:
    try:
        from huggingface_hub import try_to_load_from_cache
        from huggingface_hub.errors import HFValidationError
    except ModuleNotFoundError:
        return None
    try:
        path = try_to_load_from_cache(model, "config.json")
    except HFValidationError:  # a path
        return None
    return Path(path) if isinstance(path, str) else None
