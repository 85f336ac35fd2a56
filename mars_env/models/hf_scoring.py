"""Log-probabilities of given tokens after a prompt, many texts in one forward pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

LOGITS = 2**27
"""Most logits of one forward pass (half a GiB in float32), unless a single text needs more."""


@dataclass(frozen=True, slots=True)
class Given:
    """A request for the log-probabilities of tokens after a prompt."""

    ids: tuple[int, ...]
    tokens: tuple[int, ...]


@torch.no_grad()
def given_logprobs(
    module: Any, rows: Sequence[Given], *, vocabulary: int, temperature: float = 1.0
) -> list[tuple[float, ...]]:
    """Natural logarithms of the probabilities of each row's tokens, in the order of the rows.

    Rows of like length go together. Padding is on the right, so no token attends to it.

    Args:
        module: The model, in evaluation mode.
        rows: Each with at least one prompt token.
        vocabulary: Number of tokens that the model knows, for the size of the batches.
        temperature: Of the distribution, above 0.
    """
    device = next(module.parameters()).device
    found: list[tuple[float, ...]] = [()] * len(rows)
    for places in _batches(rows, vocabulary):
        batch = [rows[place] for place in places]
        width = max(len(row.ids) + len(row.tokens) for row in batch)
        ids = torch.zeros(len(batch), width, dtype=torch.long)
        for i, row in enumerate(batch):
            ids[i, : len(row.ids) + len(row.tokens)] = torch.tensor([*row.ids, *row.tokens])
        first = min(len(row.ids) for row in batch)  # the earliest token that is asked for
        logits = module(
            input_ids=ids[:, :-1].to(device), use_cache=False, logits_to_keep=width - first
        ).logits.float()
        for i, (place, row) in enumerate(zip(places, batch, strict=True)):
            start = len(row.ids) - first
            own = torch.log_softmax(logits[i, start : start + len(row.tokens)] / temperature, -1)
            chosen = torch.tensor(row.tokens, device=device)
            found[place] = tuple(own.gather(1, chosen[:, None])[:, 0].tolist())
    return found


def _batches(rows: Sequence[Given], vocabulary: int) -> Iterator[list[int]]:
    """Places of the rows that go together, the shortest first; rows without tokens are left out."""
    order = sorted(
        (place for place, row in enumerate(rows) if row.tokens),
        key=lambda place: (len(rows[place].ids) + len(rows[place].tokens), place),
    )
    batch: list[int] = []
    first = 0
    for place in order:
        row = rows[place]
        first = min(first, len(row.ids)) if batch else len(row.ids)
        kept = len(row.ids) + len(row.tokens) - first
        if batch and (len(batch) + 1) * kept * vocabulary > LOGITS:
            yield batch
            batch, first = [], len(row.ids)
        batch.append(place)
    if batch:
        yield batch
