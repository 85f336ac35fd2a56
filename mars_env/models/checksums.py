"""Checksums of weights, tensor by tensor, to compare what is trained with what samples."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from torch import Tensor

_BLOCK = 2**14
"""Words of 8 bytes that are summed at once: few enough for a processor's cache."""

_AT_ONCE = {"cpu": 1, "cuda": 2**9}


class Checksum(NamedTuple):
    """The type, shape and checksum of a tensor."""

    dtype: str
    shape: tuple[int, ...]
    value: int


def checksums(tensors: Mapping[str, Tensor], dtypes: Mapping[str, str] | None = None) -> dict[str, Checksum]:
    """The checksums of tensors by name; of those in `dtypes` as they are after rounding to that type.

    They depend on every bit and its place, and not on the device. Not against forgery.

    Example:
        >>> import torch
        >>> near = {"a": torch.tensor([1.0, 2.0]) * (1 + 1e-6)}
        >>> checksums(near, {"a": "bfloat16"}) == checksums({"a": torch.tensor([1.0, 2.0]).bfloat16()})
        True
    """
    return {name: _checksum(tensor, (dtypes or {}).get(name)) for name, tensor in tensors.items()}


def _checksum(tensor: Tensor, dtype: str | None) -> Checksum:
    tensor = tensor.detach()
    if dtype is not None:
        tensor = tensor.to(getattr(importlib.import_module("torch"), dtype))
    name = str(tensor.dtype).removeprefix("torch.")
    return Checksum(name, tuple(tensor.shape), _sum(tensor))


def _sum(tensor: Tensor) -> int:
    """The sum of all words times factors of their places, modulo 2 ** 64: of blocks, then of their sums."""
    torch = importlib.import_module("torch")
    data = tensor.contiguous().flatten().view(torch.uint8)
    missing = -data.numel() % 8
    if missing or data.storage_offset() % 8:
        data = torch.cat([data, data.new_zeros(missing)])
    words, factors = data.view(torch.int64), _factors(tensor.device)
    while len(words) > _BLOCK:
        whole = len(words) // _BLOCK * _BLOCK
        blocks = torch.split(words[:whole].view(-1, _BLOCK), _AT_ONCE.get(tensor.device.type, 1))
        rest = [_products(words[whole:], factors)] if whole < len(words) else []
        words = torch.cat([_products(block, factors) for block in blocks] + rest)
    return int(_products(words, factors))


def _products(words: Tensor, factors: Tensor) -> Tensor:
    mixed = (words >> 32).bitwise_xor_(words).mul_(factors[: words.shape[-1]])
    return mixed.sum(-1).view(-1)


@lru_cache(maxsize=8)
def _factors(device: Any) -> Tensor:
    """Odd pseudorandom numbers, the same on every device and machine."""
    torch = importlib.import_module("torch")
    numbers = (torch.arange(_BLOCK, dtype=torch.int64) + 1) * -7046029254386353131  # of SplitMix64
    numbers = (numbers ^ (numbers >> 30)) * -4658895280553007687
    factors: Tensor = (numbers | 1).to(device)
    return factors


def merged(workers: Iterable[Mapping[str, Any]]) -> dict[str, Checksum]:
    """The checksums of an engine from the plain data of its workers."""
    return {
        name: Checksum(dtype, tuple(shape), value)
        for worker in workers
        for name, (dtype, shape, value) in worker.items()
    }
