"""Packing of padded batches; see `flash_attn`."""

import torch
from einops import rearrange

__all__ = ["index_first_axis", "pad_input", "rearrange", "unpad_input"]


def index_first_axis(tensor, indices):
    """The rows of these indices."""
    return tensor[indices]


def unpad_input(hidden, mask):
    """The rows of real tokens, their places, the ends of the sequences, the longest, and the lengths."""
    lengths = mask.sum(-1, dtype=torch.int32)
    indices = mask.flatten().nonzero().flatten()
    ends = torch.nn.functional.pad(lengths.cumsum(0, dtype=torch.int32), (1, 0))
    return hidden.flatten(0, 1)[indices], indices, ends, int(lengths.max()), lengths


def pad_input(hidden, indices, batch, length):
    """The inverse of `unpad_input`."""
    padded = hidden.new_zeros(batch * length, *hidden.shape[1:])
    padded[indices] = hidden
    return padded.unflatten(0, (batch, length))
