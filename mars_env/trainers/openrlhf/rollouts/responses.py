"""From samples to the rows that OpenRLHF takes as an agent's answer."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from mars_env.errors import ConfigError
from mars_env.trainers.checks import require_plain, require_rows
from mars_env.trainers.samples import TurnSample

Row = dict[str, Any]
"""The fields of an agent's answer that OpenRLHF reads."""

ADVANTAGE = "advantage"


@dataclass(frozen=True, slots=True)
class BatchShape:
    """How the rows of an update must be divisible.

    Attributes:
        ranks: Data-parallel ranks of the trainer.
        rollout_micro, train_micro: Rows of one pass of a rank, without and with gradients.
        batch: Most rows of an optimizer step: the micro-batches of all ranks divide it.
    """

    ranks: int
    rollout_micro: int
    train_micro: int
    batch: int

    def padded(self, rows: int) -> int:
        """The number of rows with padding: the same for all ranks, and for all optimizer steps.

        Example:
            >>> BatchShape(ranks=2, rollout_micro=2, train_micro=4, batch=64).padded(70)
            80
        """
        steps = math.ceil(rows / self.batch)
        unit = math.lcm(self.rollout_micro * self.ranks, self.train_micro * self.ranks * steps)
        return math.ceil(rows / unit) * unit


def batch_shape(args: Any) -> BatchShape:
    """The shape that OpenRLHF's arguments require; a `ConfigError` if the GPUs are not divisible."""
    gpus = args.actor.num_nodes * args.actor.num_gpus_per_node
    if gpus % (args.ds.ring_attn_size * args.ds.tensor_parallel_size):
        raise ConfigError(f"{gpus} GPUs are no multiple of --ds.ring_attn_size x --ds.tensor_parallel_size")
    dynamic = args.train.dynamic_batch_enable  # micro-batches by tokens, of any number of rows
    return BatchShape(
        ranks=gpus // args.ds.ring_attn_size // args.ds.tensor_parallel_size,
        rollout_micro=1 if dynamic else args.rollout.micro_batch_size,
        train_micro=1 if dynamic else args.train.micro_batch_size,
        batch=args.train.batch_size,
    )


def response_row(
    prompt: Sequence[int],
    sampled: Sequence[int],
    logprobs: Sequence[float],
    reward: float,
    score: float,
    logs: Mapping[str, float],
    *,
    mask: Sequence[int] = (),
) -> Row:
    """A row of which only tokens are trained where the mask is 1.

    `logs` are numbers that OpenRLHF keeps with the row: the same names in all rows of a batch.
    """
    trained = [0, *(mask or [1] * len(sampled)), 0]
    edges = [len(prompt) + i for i, (one, next) in enumerate(pairwise(trained)) if one != next]
    return {
        "prompt": "",
        "label": "",
        "observation_tokens": [*prompt, *sampled],
        "action_ranges": list(zip(edges[::2], edges[1::2], strict=True)),
        "rollout_log_probs": [0.0] * len(prompt) + list(logprobs),
        "reward": reward,
        "scores": score,
        "truncated": False,
        "extra_logs": dict(logs),
    }


def response(sample: TurnSample) -> Row:
    """One sample as a row."""
    row = response_row(
        sample.prompt_ids,
        sample.completion_ids,
        sample.logprobs,
        float(sample.reward),
        float(sample.reward if sample.score is None else sample.score),
        {ADVANTAGE: float(sample.advantage)},
        mask=sample.completion_mask,
    )
    return row | {"prompt": sample.group_id, "truncated": sample.truncated}


def responses(
    samples: Sequence[TurnSample], shape: BatchShape, *, temperature: float, padding_token: int
) -> list[Row]:
    """The rows of an update, filled up with rows that train no token and count in no mean of the loss."""
    require_plain(samples, "OpenRLHF", temperature)
    rows = list(map(response, samples))
    padding = response_row((padding_token,) * 2, (), (), 0.0, 0.0, {ADVANTAGE: 0.0})
    return rows + [dict(padding) for _ in range(shape.padded(len(rows)) - len(rows))]


def training_rows(samples: Sequence[TurnSample], n: int, *, temperature: float, filler: int) -> list[Row]:
    """The rows of a tree's samples for OpenRLHF's own command line, whose rewards are the advantages.

    They are filled up to n with rows of the token `filler` and no advantage. A `ConfigError` if there are
    more, or if their advantages do not add up to 0.
    """
    require_rows(samples, "OpenRLHF", temperature, n)
    padding = response_row((filler,), (filler,), (0.0,), 0.0, 0.0, {"filler": 1.0})
    rows = [
        response(sample)
        | {"reward": float(sample.advantage), "scores": float(sample.reward), "extra_logs": {"filler": 0.0}}
        for sample in samples
    ]
    return rows + [padding] * (n - len(samples))
