"""From samples to the rows that OpenRLHF takes as an agent's answer: one row per completion."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mars_env.errors import ConfigError
from mars_env.trainers.checks import refuse_other_prompts
from mars_env.trainers.samples import TurnSample

ADVANTAGE = "advantage"
"""Name of the row's advantage in OpenRLHF's ``info`` of a row."""


@dataclass(frozen=True, slots=True)
class BatchShape:
    """How the rows of an update must be divisible.

    Attributes:
        ranks: Data-parallel ranks of the trainer.
        rollout_micro: Rows for which a rank computes log-probabilities in one pass.
        train_micro: Rows on which a rank trains in one pass.
        batch: Most rows of an optimizer step.
    """

    ranks: int
    rollout_micro: int
    train_micro: int
    batch: int

    def __post_init__(self) -> None:
        for name, micro in (("rollout", self.rollout_micro), ("train", self.train_micro)):
            if self.batch % (micro * self.ranks):
                unit = math.lcm(self.rollout_micro, self.train_micro) * self.ranks
                raise ConfigError(
                    f"--train.batch_size {self.batch} must be a multiple of --{name}.micro_batch_size "
                    f"{micro} times the {self.ranks} data-parallel ranks: set --train.batch_size "
                    f"{max(1, self.batch // unit) * unit}"
                )

    def padded(self, rows: int) -> int:
        """The number of rows, padding included, for this many real rows.

        All ranks get the same number of micro-batches, and all optimizer steps the same number of rows.

        Example:
            >>> BatchShape(ranks=2, rollout_micro=2, train_micro=4, batch=64).padded(70)
            80
        """
        steps = math.ceil(rows / self.batch)
        unit = math.lcm(self.rollout_micro * self.ranks, self.train_micro * self.ranks * steps)
        return math.ceil(rows / unit) * unit


def shape_of(args: Any) -> BatchShape:
    """The shape that OpenRLHF's arguments require.

    Raises:
        ConfigError: The batch size is not divisible into micro-batches, or the GPUs not into groups.

    Example:
        >>> from types import SimpleNamespace as S
        >>> args = S(actor=S(num_nodes=2, num_gpus_per_node=8), rollout=S(micro_batch_size=2),
        ...          train=S(micro_batch_size=1, batch_size=64, dynamic_batch_enable=False),
        ...          ds=S(ring_attn_size=8, tensor_parallel_size=1))
        >>> shape_of(args).ranks
        2
    """
    gpus = args.actor.num_nodes * args.actor.num_gpus_per_node
    if gpus % (args.ds.ring_attn_size * args.ds.tensor_parallel_size):
        raise ConfigError(
            f"the actor's {gpus} GPUs must be a multiple of --ds.ring_attn_size {args.ds.ring_attn_size} "
            f"times --ds.tensor_parallel_size {args.ds.tensor_parallel_size}"
        )
    dynamic = args.train.dynamic_batch_enable  # micro-batches by tokens, of any number of rows
    return BatchShape(
        ranks=gpus // args.ds.ring_attn_size // args.ds.tensor_parallel_size,
        rollout_micro=1 if dynamic else args.rollout.micro_batch_size,
        train_micro=1 if dynamic else args.train.micro_batch_size,
        batch=args.train.batch_size,
    )


def response(sample: TurnSample, *, temperature: float, age: int = 0) -> dict[str, Any]:
    """One sample in the form in which OpenRLHF takes an agent's response.

    Args:
        sample: The sample.
        temperature: The trainer divides its logits by it (``--rollout.temperature``).
        age: Versions between its group's oldest token and the policy.

    Raises:
        ConfigError: It was sampled at another temperature.

    Example:
        >>> sample = TurnSample("p#0", "0", "p#0/0", "solver_0", "solver", "actor", (1, 2), (3,), (-0.5,),
        ...                     1.0, ((0, 1),), False, 1.0, 1.0, 0.5)
        >>> row = response(sample, temperature=1.0)
        >>> row["observation_tokens"], row["action_ranges"], row["rollout_log_probs"]
        ([1, 2, 3], [(2, 3)], [0.0, 0.0, -0.5])
    """
    if sample.temperature != temperature:
        raise ConfigError(
            f"{sample.agent} samples at temperature {sample.temperature}, but OpenRLHF trains all samples at "
            f"--rollout.temperature {temperature}: make them equal"
        )
    read, sampled = len(sample.prompt_ids), len(sample.completion_ids)
    return {
        "prompt": sample.group_id,
        "label": "",
        "observation_tokens": [*sample.prompt_ids, *sample.completion_ids],
        "action_ranges": [(read, read + sampled)],
        "rollout_log_probs": [0.0] * read + list(sample.logprobs),
        "reward": float(sample.reward),
        "scores": float(sample.reward if sample.score is None else sample.score),
        "truncated": sample.truncated,
        "extra_logs": {ADVANTAGE: float(sample.advantage), "age": float(age)},
    }


def padding(token: int) -> dict[str, Any]:
    """A row without actions: it fills up an update, and counts in no mean of the loss.

    Example:
        >>> padding(0)["action_ranges"]
        []
    """
    return {
        "prompt": "",
        "label": "",
        "observation_tokens": [token, token],
        "action_ranges": [],
        "rollout_log_probs": [0.0, 0.0],
        "reward": 0.0,
        "scores": 0.0,
        "truncated": False,
        "extra_logs": {ADVANTAGE: 0.0, "age": 0.0},
    }


def responses(
    samples: Sequence[TurnSample],
    shape: BatchShape,
    *,
    temperature: float,
    padding_token: int,
    ages: Mapping[str, int],
) -> list[dict[str, Any]]:
    """The rows of an update, filled up with padding.

    Args:
        samples: The samples; at least one.
        shape: How the rows must be divisible.
        temperature: See `response`.
        padding_token: Any token of the vocabulary.
        ages: The groups' ages, by id.
    """
    refuse_other_prompts(samples, "OpenRLHF")
    rows = [response(sample, temperature=temperature, age=ages.get(sample.group_id, 0)) for sample in samples]
    return rows + [padding(padding_token) for _ in range(shape.padded(len(rows)) - len(rows))]
