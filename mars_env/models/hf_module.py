"""What a transformers module must be for its passes to be exact, whether it samples or is trained."""

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from transformers import LlamaForCausalLM

from mars_env.errors import ConfigError

NO_END = 2**31


@contextmanager
def evaluation(module: Any) -> Iterator[None]:
    """Around passes: nothing is dropped out, whatever mode the parts are in. Their modes are put back."""
    training = [layer for layer in module.modules() if layer.training]
    for layer in training:
        layer.training = False
    try:
        yield
    finally:
        for layer in training:
            layer.training = True


def exact_context(config: Any) -> int:
    """How many tokens a text may have before its length changes the positions that it is read with.

    Beyond this, longrope (Phi-3) and dynamic NTK rotate every token by another angle, so that keys in a
    cache, and rows padded to another length, differ from those of one pass over the text. The config is the
    decoder's.
    """
    rope = getattr(config, "rope_parameters", None) or {}
    kinds = [rope] if "rope_type" in rope else [kind for kind in rope.values() if isinstance(kind, dict)]
    limits = [NO_END]
    for kind in kinds:
        if kind.get("rope_type") == "longrope":
            limits.append(kind["original_max_position_embeddings"])
        elif "dynamic" in kind.get("rope_type", ""):
            limits.append(config.max_position_embeddings)
    return min(limits)


def validate_context(config: Any, tokens: int) -> None:
    """Raise a `ConfigError` if a text of so many tokens is not read exactly."""
    if tokens > (exact := exact_context(config)):
        raise ConfigError(
            f"a text of {tokens} tokens: beyond {exact} its length changes this model's positions (longrope, "
            f"dynamic NTK), so that samples and training would disagree: keep to a context of {exact}"
        )


def cache_argument(module: Any) -> str:
    """The name under which a module's `forward` takes keys and values; transformers 5.24 changed it.

    A `ConfigError` if it takes none (RWKV): each token would be sampled as the second of its text.
    """
    kind = type(getattr(module, "shared_base", module))
    for candidate in (kind, LlamaForCausalLM):
        parameters = inspect.signature(candidate.forward).parameters
        for name in ("cache", "past_key_values"):
            if name in parameters:
                return name
        if candidate.__module__.startswith("transformers."):
            break  # all others are wrappers, which pass on what they are given
    raise ConfigError(f"{kind.__name__} keeps no keys and values")
