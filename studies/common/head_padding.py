"""Attention heads padded with zeros: for kernels that support only some head sizes."""

import copy
import math
from typing import Any

from mars_env.errors import ConfigError
from mars_env.lazy import needs

with needs("hf", "pad_heads needs torch"):
    import torch
    from torch import Tensor


def pad_heads(module: Any, head_dim: int) -> Any:
    """A copy of a model whose attention heads have `head_dim` dimensions, the new ones always zero.

    vLLM's attention for CPUs knows heads of 32, 64, 80, 96, 112 and 128 dimensions and more. A smaller model
    runs there after this, and gives the same logits but for rounding. Each pair of dimensions that is rotated
    together goes to where the rotation has the same frequency in the wider head.

    Args:
        module: A transformers model of the Llama or Qwen family, with rotary embeddings of the default kind.
        head_dim: A multiple of the model's own; else a `ConfigError`.
    """
    config = copy.deepcopy(module.config)
    old: int = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    times, rest = divmod(head_dim, old)
    kind = (getattr(config, "rope_parameters", None) or {}).get("rope_type", "default")
    if rest or times < 1:
        raise ConfigError(f"head_dim must be a multiple of the model's {old}, got {head_dim}")
    if kind != "default":
        raise ConfigError(f"only default rotary embeddings can be padded, these are {kind!r}")
    config.head_dim = head_dim
    half = torch.arange(old // 2)
    places = torch.cat([half * times, head_dim // 2 + half * times])
    normed = any(name.endswith("q_norm.weight") for name in module.state_dict())
    # Scores are divided by sqrt(head_dim), now larger by sqrt(times), and zeros make the mean of squares in a
    # norm smaller by times. For queries with a norm the two cancel; keys with a norm come out too large.
    scales = {"k_norm": times**-0.5} if normed else {"q_proj": math.sqrt(times)}

    def rows(weight: Tensor) -> Tensor:
        wide = weight.new_zeros(weight.shape[0] // old, head_dim, *weight.shape[1:])
        wide[:, places] = weight.reshape(-1, old, *weight.shape[1:])
        return wide.flatten(0, 1)

    state = {}
    for name, weight in module.state_dict().items():
        *_, layer, field = name.rsplit(".", 2)
        if layer in ("q_proj", "k_proj", "v_proj", "q_norm", "k_norm"):
            weight = rows(weight) * scales.get(layer, 1.0)
        elif (layer, field) == ("o_proj", "weight"):
            weight = rows(weight.T).T.contiguous()
        state[name] = weight
    wide = type(module)(config).to(module.device, module.dtype)
    wide.load_state_dict(state)
    return wide.train(module.training)
