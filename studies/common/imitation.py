"""Warm starts learn from demonstrations: the cross-entropy of what is written after a prompt."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from transformers import Qwen3ForCausalLM

Row = tuple[Sequence[int], Sequence[int]]
"""The token ids of a prompt, and of what is written after it."""


def written_losses(model: Qwen3ForCausalLM, rows: Sequence[Row]) -> torch.Tensor:
    """The loss of each written token, row after row; rows are padded on the right, so no mask is needed."""
    ids = [torch.tensor([*prompt, *written]) for prompt, written in rows]
    tokens = torch.nn.utils.rnn.pad_sequence(ids, batch_first=True)
    places = torch.arange(tokens.shape[1])
    starts = torch.tensor([len(prompt) for prompt, _ in rows])[:, None]
    ends = torch.tensor([len(row) for row in ids])[:, None]
    written = ((places >= starts) & (places < ends))[:, 1:]
    logits = model(input_ids=tokens[:, :-1], use_cache=False).logits
    return F.cross_entropy(logits[written], tokens[:, 1:][written], reduction="none")
