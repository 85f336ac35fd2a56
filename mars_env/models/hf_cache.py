"""Keys and values of a decoding model, with room to grow."""

from __future__ import annotations

from typing import Any

import torch
from transformers.cache_utils import Cache, DynamicCache, DynamicLayer

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

    def _grown(self, old: torch.Tensor, rows: torch.Tensor | None) -> torch.Tensor:
        """A copy of these rows (or all) that has room for half as much again."""
        count = old.shape[0] if rows is None else len(rows)
        held = min(self.length, old.shape[2])
        new = old.new_empty(count, old.shape[1], self.length + max(CHUNK, self.length // 2), old.shape[3])
        new[:, :, :held] = old[:, :, :held] if rows is None else old[:, :, :held].index_select(0, rows)
        return new

    def reorder_cache(self, beam_idx: torch.Tensor) -> None:
        """Keep these rows, in this order."""
        self.keys, self.values = self._grown(self.keys, beam_idx), self._grown(self.values, beam_idx)

    def get_seq_length(self) -> int:
        """Number of tokens held."""
        return self.length


class GrowingCache(Cache):  # type: ignore[misc]
    """A cache of growing layers."""


def cache_for(module: Any) -> Any:
    """The growing cache if every layer attends to all tokens; else the library's."""
    theirs = DynamicCache(config=module.config)
    if theirs.layers and all(type(layer) is DynamicLayer for layer in theirs.layers):
        return GrowingCache(layers=[GrowingLayer() for _ in theirs.layers])
    return theirs
