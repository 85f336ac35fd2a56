"""From samples to tensors: padded batches, micro-batches in a token budget."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from itertools import chain
from typing import Any

import numpy as np

from mars_env.errors import ConfigError
from mars_env.lazy import needs
from mars_env.trainers.samples import TurnSample

with needs("hf", "training needs torch"):
    import torch
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class Batch:
    """S samples, padded on the right: L ids of prompt and completion, T completion tokens at most.

    Attributes:
        ids: [S, L] token ids, 0 beyond the end.
        prompts, lengths: [S] number of tokens of the prompt, and of the completion.
        mask: [S, T], True on sampled tokens.
        advantages: [S, 1].
        temperatures: [S].
        rollout: [S, T] log-probabilities that the rollout recorded, 0 beyond the end.
        same_prompt: [S, 1] whether the model read the prompt that is trained on.
        weighted: [S, 1] whether tokens have an importance weight; without one it is 1.
        old: [S, T] those of the policy before its update; None where the first forward pass gives them.
        reference: [S, T] those of the reference model; None where there is no KL term.
    """

    ids: Tensor
    prompts: Tensor
    lengths: Tensor
    mask: Tensor
    advantages: Tensor
    temperatures: Tensor
    rollout: Tensor
    same_prompt: Tensor
    weighted: Tensor
    old: Tensor | None = None
    reference: Tensor | None = None

    def __len__(self) -> int:
        return len(self.ids)

    def rows(self, index: Tensor) -> "Batch":
        """These rows alone, with no more padding than they need."""
        picked = self._each(lambda value: value[index])
        length, tokens = int((picked.prompts + picked.lengths).max()), int(picked.lengths.max())
        sampled = {name: getattr(picked, name) for name in ("mask", "rollout", "old", "reference")}
        shorter = {name: value[:, :tokens] for name, value in sampled.items() if value is not None}
        return replace(picked, ids=picked.ids[:, :length], **shorter)

    def to(self, device: torch.device) -> "Batch":
        """The same batch on a device."""
        return self._each(lambda value: value.to(device))

    def _each(self, change: Callable[[Tensor], Tensor]) -> "Batch":
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        changed: Any = {name: None if v is None else change(v) for name, v in values.items()}
        return Batch(**changed)


def collate(
    samples: Sequence[TurnSample], vocabulary: int | None = None, *, on_policy: bool = False
) -> Batch:
    """Pad samples, at least one, into one batch on the CPU.

    Samples of another prompt than is trained on have no importance weight, because it would be the ratio of
    two prompts; those that are `on_policy` need none. A `ConfigError` for ids outside of the vocabulary.
    """
    ids = _padded([sample.ids for sample in samples], np.int64)
    rollout = _padded([sample.logprobs for sample in samples], np.float32)
    if ids.min() < 0 or (vocabulary is not None and ids.max() >= vocabulary):
        raise ConfigError(f"token ids {ids.min()} to {ids.max()} are beyond the vocabulary of {vocabulary}")
    same_prompt = torch.tensor([[not sample.read_prompt_ids] for sample in samples])
    return Batch(
        ids=torch.from_numpy(ids),
        prompts=torch.tensor([len(sample.prompt_ids) for sample in samples]),
        lengths=torch.tensor([len(sample.completion_ids) for sample in samples]),
        mask=torch.from_numpy(_padded([sample.completion_mask for sample in samples], np.bool_)),
        advantages=torch.tensor([[sample.advantage] for sample in samples], dtype=torch.float32),
        temperatures=torch.tensor([sample.temperature for sample in samples], dtype=torch.float32),
        rollout=torch.from_numpy(rollout),
        same_prompt=same_prompt,
        weighted=torch.zeros_like(same_prompt) if on_policy else same_prompt,
    )


def _padded(rows: Sequence[Sequence[float]], dtype: Any) -> np.ndarray[Any, Any]:
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    table = np.zeros((len(rows), int(lengths.max())), dtype)
    inside = np.arange(table.shape[1]) < lengths[:, None]
    table[inside] = np.fromiter(chain.from_iterable(rows), dtype, int(lengths.sum()))
    return table


def micro_batches(lengths: Tensor, token_budget: int) -> Iterator[Tensor]:
    """Row indices of micro-batches of at most `token_budget` tokens, padding included.

    Rows of like length go together, the shortest first. A row longer than the budget goes alone.

    Example:
        >>> [rows.tolist() for rows in micro_batches(torch.tensor([9, 2, 3, 3, 20]), 10)]
        [[1, 2, 3], [0], [4]]
    """
    order = lengths.argsort(stable=True)
    start = 0
    for end, length in enumerate(lengths[order].tolist()):
        if end > start and (end - start + 1) * length > token_budget:
            yield order[start:end]
            start = end
    yield order[start:]
