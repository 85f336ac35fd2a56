"""One decoding step of a Llama-like model, and the cache that it writes.

transformers calls a dozen modules for each layer of a step, and prepares masks and outputs around them: on a
small model, much of the time. Here the same tensor operations are called in the same order, so the logits are
bitwise the same; `step_of` compares them once before it relies on that.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import torch
from torch import Tensor
from torch.nn import functional
from transformers.cache_utils import Cache, DynamicCache, DynamicLayer
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

KNOWN: Final = frozenset({"LlamaForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM"})
"""Models of transformers that are built from the layers below."""


CHUNK = 64
"""Steps for which random numbers, cache and mask are allocated together."""


class GrowingLayer(DynamicLayer):  # type: ignore[misc]
    """Keys and values of one layer with room to grow: a step writes in place instead of copying all."""

    def __init__(self) -> None:
        super().__init__()
        self.is_initialized = False
        self.length = 0

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Add keys and values of new tokens; returns all."""
        begin, self.length = self.length, self.length + key_states.shape[-2]
        if not self.is_initialized:  # the prompts: kept as they are until rows are repeated
            self.keys, self.values = key_states, value_states
            self.dtype, self.device, self.is_initialized = key_states.dtype, key_states.device, True
            return key_states, value_states
        if self.length > self.keys.shape[-2]:
            self.keys, self.values = self._grown(self.keys, None), self._grown(self.values, None)
        self.keys[:, :, begin : self.length] = key_states
        self.values[:, :, begin : self.length] = value_states
        return self.keys[:, :, : self.length], self.values[:, :, : self.length]

    def _grown(self, old: torch.Tensor, rows: torch.Tensor | None, begin: int = 0) -> torch.Tensor:
        """A copy of these rows (or all), from a column on, that has room for half as much again."""
        count = old.shape[0] if rows is None else len(rows)
        held = old[:, :, begin : self.length]
        room = self.length - begin + max(CHUNK, self.length // 2)
        new = old.new_empty(count, old.shape[1], room, old.shape[3])
        new[:, :, : held.shape[2]] = held if rows is None else held.index_select(0, rows)
        return new

    def reorder_cache(self, beam_idx: torch.Tensor, begin: int = 0) -> None:
        """Keep these rows, in this order, without the columns before `begin`."""
        self.keys = self._grown(self.keys, beam_idx, begin)
        self.values = self._grown(self.values, beam_idx, begin)
        self.length -= begin

    def join(self, other: "GrowingLayer") -> None:
        """Add the rows of another layer; all end in the same column."""
        width = max(self.length, other.length)
        self.keys = self._joined(self.keys, other.keys, other.length, width)
        self.values = self._joined(self.values, other.values, other.length, width)
        self.length = width

    def _joined(self, one: torch.Tensor, two: torch.Tensor, length: int, width: int) -> torch.Tensor:
        rows = one.shape[0]
        new = one.new_zeros(rows + two.shape[0], one.shape[1], width + CHUNK, one.shape[3])
        new[:rows, :, width - self.length : width] = one[:, :, : self.length]
        new[rows:, :, width - length : width] = two[:, :, :length]
        return new

    def get_seq_length(self) -> int:
        """Number of tokens held."""
        return self.length


class GrowingCache(Cache):  # type: ignore[misc]
    """A cache of growing layers."""

    def keep(self, rows: torch.Tensor, begin: int) -> None:
        """Keep these rows, in this order, without the columns before `begin`."""
        for layer in self.layers:
            layer.reorder_cache(rows, begin)

    def join(self, other: "GrowingCache") -> None:
        """Add the rows of another cache; all end in the same column."""
        for layer, added in zip(self.layers, other.layers, strict=True):
            layer.join(added)


def cache_for(module: Any) -> Any:
    """The growing cache if every layer attends to all tokens; else the library's."""
    theirs = DynamicCache(config=module.config)
    if theirs.layers and all(type(layer) is DynamicLayer for layer in theirs.layers):
        return GrowingCache(layers=[GrowingLayer() for _ in theirs.layers])
    return theirs


Step = Callable[[Tensor, Tensor, Tensor | None, Cache], Tensor]
"""A decoding step: from the last tokens to the next ones' logits, [S, V].

Its arguments are the last token of each row [S]; their positions [S, 1]; what is added to the attention over
K keys [S, 1, 1, K], None where all are attended to; and the keys and values of the tokens before, to which
those of the last ones are added.
"""


def step_of(module: Any, attention: str) -> Step:
    """The fastest step that gives the module's own logits, to the last bit, under this attention."""
    own = partial(_module_step, module)
    if attention != "sdpa" or type(module).__name__ not in KNOWN or _altered(module):
        return own
    if not isinstance(cache_for(module), GrowingCache):  # some layers do not attend to all tokens
        return own
    fast = partial(_bare_step, module)
    return fast if torch.equal(_probe(module, fast), _probe(module, own)) else own


def _module_step(module: Any, tokens: Tensor, positions: Tensor, mask: Tensor | None, cache: Cache) -> Tensor:
    logits: Tensor = module(
        input_ids=tokens[:, None],
        attention_mask=mask,
        position_ids=positions,
        past_key_values=cache,
        use_cache=True,
        logits_to_keep=1,
    ).logits
    return logits[:, -1]


def _bare_step(module: Any, tokens: Tensor, positions: Tensor, mask: Tensor | None, cache: Cache) -> Tensor:
    decoder, attend = module.model, ALL_ATTENTION_FUNCTIONS["sdpa"]
    hidden = functional.embedding(tokens[:, None], decoder.embed_tokens.weight)
    cos, sin = (wave[:, None] for wave in decoder.rotary_emb(hidden, positions))
    half = sin.shape[-1] // 2
    sin = torch.cat((-sin[..., :half], sin[..., half:]), -1)  # the rotation's sign, once for all layers
    for index, layer in enumerate(decoder.layers):
        inner, mlp = layer.self_attn, layer.mlp
        read = _normed(hidden, layer.input_layernorm)
        shape = (len(tokens), -1, 1, inner.head_dim)
        query, key = _linear(read, inner.q_proj).view(shape), _linear(read, inner.k_proj).view(shape)
        if hasattr(inner, "q_norm"):
            query, key = _normed(query, inner.q_norm), _normed(key, inner.k_norm)
        query, key = _rotated(query, cos, sin, half), _rotated(key, cos, sin, half)
        keys, values = cache.update(key, _linear(read, inner.v_proj).view(shape), index)
        heard, _ = attend(inner, query, keys, values, mask, scaling=inner.scaling)
        hidden = hidden + _linear(heard.reshape(len(tokens), 1, -1), inner.o_proj)
        read = _normed(hidden, layer.post_attention_layernorm)
        gate = mlp.act_fn(_linear(read, mlp.gate_proj)) * _linear(read, mlp.up_proj)
        hidden = hidden + _linear(gate, mlp.down_proj)
    return _linear(_normed(hidden, decoder.norm), module.lm_head)[:, 0]


def _linear(x: Tensor, layer: Any) -> Tensor:
    return functional.linear(x, layer.weight, layer.bias)


def _normed(x: Tensor, norm: Any) -> Tensor:
    wide = x.float()
    wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + norm.variance_epsilon)
    return norm.weight * wide.to(x.dtype)


def _rotated(x: Tensor, cos: Tensor, sin: Tensor, half: int) -> Tensor:
    return x * cos + torch.cat((x[..., half:], x[..., :half]), -1) * sin


def _altered(module: Any) -> bool:
    """Whether a part does more than transformers wrote: quantised or adapted layers, hooks, patches."""
    return any(
        part._forward_hooks
        or part._forward_pre_hooks
        or "forward" in vars(part)
        or (
            hasattr(part, "weight")
            and not type(part).__module__.startswith(("torch.nn.modules.", "transformers.models."))
        )
        for part in module.modules()
    )


def _probe(module: Any, step: Step) -> Tensor:
    """The logits of two steps after a short prompt."""
    device, vocabulary = next(module.parameters()).device, module.get_input_embeddings().num_embeddings
    ids = torch.arange(8, device=device).view(2, 4) % vocabulary
    cache = cache_for(module)
    module(input_ids=ids[:, :2], past_key_values=cache, use_cache=True)
    places = torch.full((2, 1), 2, device=device)
    mask = torch.zeros(2, 1, 1, 4, dtype=module.dtype, device=device)
    mask[0, ..., 0] = torch.finfo(module.dtype).min
    return torch.stack([step(ids[:, 2], places, None, cache), step(ids[:, 3], places + 1, mask, cache)])
