"""What a run costs beside a GPU's memory: hosts while weights load, gathers of an update, the disk."""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Final

from mars_env.trainers.openrlhf.planning.resources import GIB
from mars_env.trainers.openrlhf.planning.sizes import Architecture
from mars_env.trainers.openrlhf.rollouts.responses import shape_of

LINK: Final = 50e9
"""Bytes a second at which a GPU is assumed to gather weights across nodes: a network port of 400 Gbit/s."""


def describe_costs(args: SimpleNamespace, model: Architecture, rows: int) -> Sequence[str]:
    """The costs, a line each, for people to read.

    Args:
        args: OpenRLHF's arguments, parsed.
        model: The sizes of the model that is trained.
        rows: The most rows of an update.
    """
    lines = [
        f"    load     {loading(args, model) / GIB:6.1f} GiB of a node's memory while the weights load",
        f"    disk     {checkpoint(args, model) / GIB:6.1f} GiB a checkpoint, {args.ckpt.max_num} are kept",
    ]
    if args.ds.zero_stage == 3:
        gathered = gathers(args, model, rows)
        lines.append(
            f"    gathers  {gathered / GIB:6,.0f} GiB at most into a GPU for an update of {rows:,} rows: "
            f"{gathered / LINK / 60:.1f} minutes at {LINK / 1e9:.0f} GB/s"
        )
    return lines


def loading(args: SimpleNamespace, model: Architecture) -> float:
    """Bytes of a node's memory while the trainer loads.

    Each rank reads the whole checkpoint before it is divided (transformers 5); in a sparse model the experts
    are stacked into one tensor, which is there beside the parts.

    Example:
        >>> from types import SimpleNamespace as S
        >>> from mars_env.trainers.openrlhf.planning.sizes import architecture_of
        >>> args = S(actor=S(num_gpus_per_node=8))
        >>> round(loading(args, architecture_of("Qwen/Qwen3-30B-A3B")) / 1e9)
        977
    """
    copies = 2 if model.experts else 1
    return 2.0 * model.parameters * copies * int(args.actor.num_gpus_per_node)


def checkpoint(args: SimpleNamespace, model: Architecture) -> float:
    """Bytes of one checkpoint: weights in 16 bits, AdamW's states in 32, and the model for others beside it.

    Example:
        >>> from types import SimpleNamespace as S
        >>> from mars_env.trainers.openrlhf.planning.sizes import architecture_of
        >>> args = S(ckpt=S(save_hf=True))
        >>> round(checkpoint(args, architecture_of("Qwen/Qwen3-8B")) / 1e9)
        131
    """
    return (2.0 + 12.0 + (2.0 if args.ckpt.save_hf else 0.0)) * model.parameters


def gathers(args: SimpleNamespace, model: Architecture, rows: int) -> float:
    """Bytes of weights that ZeRO-3 gathers into each GPU for one update.

    A micro-batch gathers all weights for its forward pass, and again for its backward pass. Gradient
    checkpointing adds none: the backward pass of a layer follows its repeated forward pass at once, and the
    weights are still there (counted in tests/engines/test_zero3_gathers.py; the last layers, which the
    backward pass begins with, are not gathered twice either). Before that, one pass tells the trainer's
    log-probabilities, and one the reference's. Dynamic micro-batches are counted as if every row were as long
    as ``--data.max_len``.

    Args:
        args: OpenRLHF's arguments, parsed.
        model: The sizes of the model.
        rows: Of the update, on all ranks.
    """
    shape = shape_of(args)
    own = math.ceil(rows / shape.ranks)
    trained, read = (micro_batches(args, own, training) for training in (True, False))
    read_for = 2 if args.algo.kl.init_coef > 0 else 1
    return 2.0 * model.parameters * (2 * trained + read_for * read)


def micro_batches(args: SimpleNamespace, rows: int, training: bool) -> int:
    """The most micro-batches into which a rank divides its rows, for training or to read log-probabilities.

    Example:
        >>> from types import SimpleNamespace as S
        >>> train = S(micro_batch_size=1, dynamic_batch_enable=False, max_tokens_per_gpu=8192)
        >>> args = S(data=S(max_len=4096), ds=S(ring_attn_size=8, tensor_parallel_size=1),
        ...          rollout=S(micro_batch_size=2), train=train)
        >>> micro_batches(args, 64, True), micro_batches(args, 64, False)
        (64, 32)
        >>> args.train.dynamic_batch_enable = True
        >>> micro_batches(args, 64, True)  # 65,536 tokens are 16 rows
        4
    """
    stage = args.train if training else args.rollout
    if not args.train.dynamic_batch_enable:
        return math.ceil(rows / int(stage.micro_batch_size))
    tokens: int = stage.max_tokens_per_gpu * args.ds.ring_attn_size * args.ds.tensor_parallel_size
    return math.ceil(rows / max(1, tokens // int(args.data.max_len)))
