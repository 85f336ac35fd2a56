"""Checksums of weights depend on every bit and its place, and on nothing else."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mars_env.models import checksums as module
from mars_env.models.checksums import checksums

DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.int64)


def checksum(tensor):
    return checksums({"one": tensor})["one"]


@given(st.integers(1, 300), st.integers(0, 1000), st.integers(0, 2**32 - 1), st.sampled_from(DTYPES))
def test_a_flipped_bit_or_two_swapped_elements_change_it(size, place, seed, dtype):
    generator = torch.Generator().manual_seed(seed)
    tensor = torch.randn(size, generator=generator).mul(9).to(dtype)
    bits = tensor.view(torch.uint8).clone()
    bits[place % len(bits)] ^= 1 << (place % 8)
    assert checksum(bits.view(dtype)) != checksum(tensor)
    order = torch.randperm(size, generator=generator)
    same = torch.equal(tensor[order].view(torch.uint8), tensor.view(torch.uint8))
    assert (checksum(tensor[order]) == checksum(tensor)) == same


@given(st.integers(1, 9), st.integers(1, 9), st.sampled_from(DTYPES))
def test_a_view_has_that_of_its_copy(rows, columns, dtype):
    table = torch.randn(rows + 2, columns + 2).to(dtype)
    for view in (table[1:-1], table[:, 1:-1], table.T, table[0, 0]):
        assert checksum(view) == checksum(view.clone())


def test_shape_and_type_count_and_long_tensors_are_whole(monkeypatch):
    zeros = torch.zeros(6)
    kinds = [zeros, zeros.view(2, 3), torch.zeros(7), zeros.bfloat16(), zeros.view(torch.int32)]
    assert len({checksum(tensor) for tensor in kinds}) == len(kinds)
    long = torch.arange(2.0 * 3 * module._BLOCK + 5)  # two numbers are a word
    block = 2 * module._BLOCK
    swapped = torch.cat([long[block : 2 * block], long[:block], long[2 * block :]])
    assert checksum(long) != checksum(swapped)
    monkeypatch.setattr(module, "_AT_ONCE", {"cpu": 2})
    assert checksum(long) == checksum(long.clone()) != checksum(long[:-1])


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_of_the_rounded_weights(dtype):
    weights = {"a": torch.randn(99), "b": torch.randn(3, 3)}
    rounded = {name: tensor.to(getattr(torch, dtype)) for name, tensor in weights.items()}
    assert checksums(weights, dict.fromkeys(weights, dtype)) == checksums(rounded)
