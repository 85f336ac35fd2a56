"""Choosing tokens: sampling with given random numbers, top-k and nucleus, stop texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch


def draw(logprobs: torch.Tensor, uniforms: torch.Tensor) -> torch.Tensor:
    """Sample by the inverse of the cumulative distribution, in double precision.

    Args:
        logprobs: Shape (rows, vocabulary).
        uniforms: Shape (rows, 1), in [0, 1).

    Returns:
        Shape (rows, 1). A token of probability 0 is never drawn.

    Example:
        >>> table = torch.tensor([[0.5, 0.0, 0.5]]).log()
        >>> [int(draw(table, torch.tensor([[u]]))) for u in (0.0, 0.49, 0.5, 0.99)]
        [0, 0, 2, 2]
    """
    rows, vocabulary = logprobs.shape
    limit = max(1, 2**26 // vocabulary)  # the sums take 8 bytes an entry: keep them under half a gigabyte
    parts = []
    for begin in range(0, rows, limit):
        sums = logprobs[begin : begin + limit].double().exp_().cumsum(-1)
        total = sums[:, -1:]
        target = torch.minimum(
            uniforms[begin : begin + limit] * total, torch.nextafter(total, torch.zeros_like(total))
        )
        parts.append(torch.searchsorted(sums, target, right=True))
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def filtered(logits: torch.Tensor, top_p: torch.Tensor, top_k: torch.Tensor) -> torch.Tensor:
    """Set the logits outside the top k, then outside the nucleus of the rest, to minus infinity.

    Example:
        >>> kept = filtered(torch.tensor([[0.1, 0.6, 0.3]]).log(), torch.tensor([[0.6]]), torch.tensor([[3]]))
        >>> kept.isfinite().tolist()
        [[False, True, False]]
    """
    ordered, order = logits.sort(dim=-1, descending=True, stable=True)
    ranks = torch.arange(logits.shape[-1], device=logits.device)[None]
    ordered = ordered.masked_fill(ranks >= top_k, -torch.inf)
    probabilities = torch.softmax(ordered, -1)
    before = probabilities.cumsum(-1) - probabilities
    drop = (before >= top_p - 1e-6) & (top_p < 1) & (ranks > 0)
    return torch.empty_like(logits).scatter_(-1, order, ordered.masked_fill(drop, -torch.inf))


def completes_stop(tokens: npt.NDArray[np.int64], stops: Sequence[str], tokenizer: Any) -> bool:
    """Whether a stop text has just been completed; decodes only as much of the end as can hold one."""
    for part in (tokens[-(max(map(len, stops)) + 8) :], tokens):  # the end may decode differently on its own
        text = tokenizer.decode(part.tolist(), skip_special_tokens=True)
        if not any(stop in text for stop in stops):
            return False
    return True
