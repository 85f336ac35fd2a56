"""Which settings to change so that a run fits into its GPUs."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial, reduce
from types import SimpleNamespace
from typing import Any

from mars_env.trainers.openrlhf.planning.resources import excess
from mars_env.trainers.openrlhf.planning.sizes import Architecture

Changes = Mapping[str, Any]
"""New values by flag, without the leading dashes."""


def advise(
    args: SimpleNamespace,
    models: Sequence[Architecture],
    gpu: float,
    valid: Callable[[SimpleNamespace], bool] = lambda _: True,
) -> Changes | None:
    """The settings to change so that every model fits: with more GPUs only where all others are not enough.

    Args:
        args: OpenRLHF's arguments, parsed.
        models: The sizes of the models that are trained.
        gpu: Bytes of one GPU.
        valid: Whether changed arguments can be used.

    Returns:
        The changes; None where no number of GPUs up to 16 times as many is enough.
    """

    def missing(more: Changes, changes: Changes) -> float:
        changed = applied(args, {**more, **changes})
        return sum(excess(changed, model, gpu) for model in models) if valid(changed) else math.inf

    for times in (1, 2, 4, 8, 16):
        more = _more_gpus(args, times)
        steps = _needed(_steps(applied(args, more)), partial(missing, more))
        if steps is not None:
            return {**more, **_together(steps)}
    return None


def _needed(
    steps: Iterable[Sequence[Changes]], missing: Callable[[Changes], float]
) -> Sequence[Changes] | None:
    """The best alternative of each step that is needed; None where something is missing all the same."""
    chosen: list[Changes] = []
    for step in steps:
        best = min(([*chosen, changes] for changes in step), key=lambda found: missing(_together(found)))
        if missing(_together(best)) < missing(_together(chosen)):
            chosen = best
    if missing(_together(chosen)):
        return None
    for changes in list(chosen):
        without = [kept for kept in chosen if kept is not changes]
        if not missing(_together(without)):
            chosen = without
    return chosen


def _together(steps: Sequence[Changes]) -> dict[str, Any]:
    return {flag: value for changes in steps for flag, value in changes.items()}


def applied(args: SimpleNamespace, changes: Changes) -> SimpleNamespace:
    """The arguments with other values.

    Example:
        >>> from types import SimpleNamespace as S
        >>> applied(S(ds=S(zero_stage=2)), {"ds.zero_stage": 3})
        namespace(ds=namespace(zero_stage=3))
    """
    changed = copy.deepcopy(args)
    for flag, value in changes.items():
        *groups, name = flag.split(".")
        setattr(reduce(getattr, groups, changed), name, value)
    return changed


def as_words(changes: Changes) -> list[str]:
    """The changes as flags of a command line.

    Example:
        >>> as_words({"ds.adam_offload": True, "ds.zero_stage": 3})
        ['--ds.adam_offload', '--ds.zero_stage 3']
    """
    return [f"--{flag}" if value is True else f"--{flag} {value}" for flag, value in changes.items()]


def _more_gpus(args: SimpleNamespace, times: int) -> Changes:
    """The settings of so many times the GPUs."""
    if times == 1:
        return {}
    gpus = args.actor.num_nodes * args.actor.num_gpus_per_node * times
    nodes = max(args.actor.num_nodes, -(-gpus // 8))
    shape = {"num_nodes": nodes, "num_gpus_per_node": gpus // nodes}
    changes = {f"{group}.{name}": value for group in ("actor", "ref") for name, value in shape.items()}
    return {**changes, "vllm.num_engines": args.vllm.num_engines * times}


def _one_row(args: SimpleNamespace, ring: int) -> Changes:
    """The smallest useful dynamic batches: a row of full length, divided among the GPUs of a ring."""
    if not args.train.dynamic_batch_enable:
        return {}
    return {"train.max_tokens_per_gpu": math.ceil(args.data.max_len / (ring * args.ds.tensor_parallel_size))}


def _steps(args: SimpleNamespace) -> Iterator[Sequence[Changes]]:
    """What can be changed, each step with its alternatives: first what costs least."""
    rings = [args.ds.ring_attn_size * times for times in (1, 2, 4, 8)]
    smallest = [_one_row(args, ring) for ring in rings]
    yield [smallest[0]]
    yield [{"train.micro_batch_size": 1, "rollout.micro_batch_size": 1}]
    if args.train.colocate_all and not args.train.async_enable:
        yield [{"vllm.enable_sleep": True}]
        yield [{"ds.enable_sleep": True}]
    shares = [{"vllm.gpu_memory_utilization": share / 20} for share in range(18, 3, -1)]
    yield shares
    engines = args.vllm.num_engines * args.vllm.tensor_parallel_size
    for size in (2, 4, 8):
        if size > args.vllm.tensor_parallel_size and engines % size == 0:
            yield [
                {"vllm.tensor_parallel_size": size, "vllm.num_engines": engines // size, **share}
                for share in ({}, *shares)
            ]
    yield [{"actor.gradient_checkpointing_enable": True}]
    yield [{"ds.zero_stage": 3}]
    yield [{"ref.offload": True}]
    yield [{"ds.adam_offload": True}]
    gpus = args.actor.num_nodes * args.actor.num_gpus_per_node
    for ring, row in zip(rings[1:], smallest[1:], strict=True):
        if gpus % (ring * args.ds.tensor_parallel_size) == 0:
            yield [{"ds.ring_attn_size": ring, **row}]
    yield shares
