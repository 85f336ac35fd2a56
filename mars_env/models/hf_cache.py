"""Keys and values while tokens are sampled, written in place: transformers' own cache is copied at a step."""

from typing import Any

import torch
from transformers.cache_utils import Cache, DynamicCache, DynamicLayer

LEAST_ROOM = 64
"""A layer that is full gets room for at least so many tokens."""


class GrowingLayer(DynamicLayer):  # type: ignore[misc]
    """Keys and values of one layer, [S, heads, room, width]; the first `length` tokens are written."""

    def __init__(self) -> None:
        super().__init__()
        self.is_initialized = False
        self.length = 0

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Add keys and values of new tokens; returns all."""
        begin, self.length = self.length, self.length + key_states.shape[-2]
        if not self.is_initialized:  # the prompts: as they are until rows are repeated
            self.keys, self.values = key_states, value_states
            self.dtype, self.device, self.is_initialized = key_states.dtype, key_states.device, True
            return key_states, value_states
        if self.length > self.keys.shape[-2]:
            self.keys, self.values = _with_room(self.keys, begin), _with_room(self.values, begin)
        self.keys[:, :, begin : self.length] = key_states
        self.values[:, :, begin : self.length] = value_states
        return self.keys[:, :, : self.length], self.values[:, :, : self.length]

    def reorder_cache(self, beam_idx: torch.Tensor) -> None:
        """Keep these rows, in this order."""
        if not self.is_initialized:  # a layer may read another one's keys and values
            return
        self.keys, self.values = (
            _with_room(tensor[:, :, : self.length].index_select(0, beam_idx), self.length)
            for tensor in (self.keys, self.values)
        )

    def get_seq_length(self) -> int:
        """See `Cache`."""
        return self.length


def _with_room(tensor: torch.Tensor, length: int) -> torch.Tensor:
    rows, heads, _, width = tensor.shape
    wide = tensor.new_empty(rows, heads, length + max(LEAST_ROOM, length // 2), width)
    wide[:, :, :length] = tensor[:, :, :length]
    return wide


def cache_for(module: Any) -> Any:
    """An empty cache: a growing one if every layer attends to all tokens; else the library's."""
    theirs = DynamicCache(config=module.config)
    if theirs.layers and all(type(layer) is DynamicLayer for layer in theirs.layers):
        return Cache(layers=[GrowingLayer() for _ in theirs.layers])
    return theirs
