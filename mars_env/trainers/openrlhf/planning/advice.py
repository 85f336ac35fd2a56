"""Which settings to change so that a run fits into its GPUs."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from types import SimpleNamespace
from typing import Any

from mars_env.trainers.openrlhf.planning.memory import fits
from mars_env.trainers.openrlhf.planning.models import Architecture

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
        args: OpenRLHF's arguments.
        models: The sizes of the models that are trained.
        gpu: Bytes of one GPU.
        valid: Whether changed arguments can be used.

    Returns:
        The changes; None where no number of GPUs up to 16 times as many is enough.
    """

    def enough(steps: Sequence[Changes]) -> bool:
        changed = applied(args, _merged(steps))
        return all(fits(changed, model, gpu) for model in models) and valid(changed)

    for times in (1, 2, 4, 8, 16):
        more = _more_gpus(args, times)
        larger = applied(args, more)
        steps = [step for step in _steps(larger) if valid(applied(larger, step))]
        for number in range(len(steps) + 1):
            for share in ({}, *({"vllm.gpu_memory_utilization": tenth / 10} for tenth in range(9, 1, -1))):
                chosen = [more, share, *steps[:number]]
                if enough(chosen):
                    for step in chosen[:0:-1]:  # leave out what is not needed, first what costs most
                        without = [kept for kept in chosen if kept is not step]
                        chosen = without if enough(without) else chosen
                    return _merged(chosen)
    return None


def _merged(steps: Sequence[Changes]) -> dict[str, Any]:
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


def _more_gpus(args: SimpleNamespace, times: int) -> Changes:
    """The settings of so many times the GPUs."""
    if times == 1:
        return {}
    gpus = args.actor.num_nodes * args.actor.num_gpus_per_node * times
    nodes = max(args.actor.num_nodes, -(-gpus // 8))
    shape = {"num_nodes": nodes, "num_gpus_per_node": gpus // nodes}
    changes = {f"{group}.{name}": value for group in ("actor", "ref") for name, value in shape.items()}
    return {**changes, "vllm.num_engines": args.vllm.num_engines * times}


def _steps(args: SimpleNamespace) -> Iterator[Changes]:
    """What can be changed: first what costs least."""
    yield _one_row(args, args.ds.ring_attn_size)
    yield {"train.micro_batch_size": 1, "rollout.micro_batch_size": 1}
    if args.train.colocate_all and not args.train.async_enable:
        yield {"vllm.enable_sleep": True}
        yield {"ds.enable_sleep": True}
    yield {"actor.gradient_checkpointing_enable": True}
    yield {"ds.zero_stage": 3}
    engines, parallel = args.vllm.num_engines * args.vllm.tensor_parallel_size, args.vllm.tensor_parallel_size
    for size in (2, 4, 8):
        if size > parallel and engines % size == 0:
            yield {"vllm.tensor_parallel_size": size, "vllm.num_engines": engines // size}
    yield {"ref.offload": True}
    yield {"ds.adam_offload": True}
    gpus = args.actor.num_nodes * args.actor.num_gpus_per_node
    for ring in (args.ds.ring_attn_size * times for times in (2, 4, 8)):
        if gpus % (ring * args.ds.tensor_parallel_size) == 0:
            yield {"ds.ring_attn_size": ring, **_one_row(args, ring)}


def _one_row(args: SimpleNamespace, ring: int) -> Changes:
    """The smallest useful dynamic batches: a row of full length, divided among the GPUs of a ring."""
    if not args.train.dynamic_batch_enable:
        return {}
    return {"train.max_tokens_per_gpu": math.ceil(args.data.max_len / (ring * args.ds.tensor_parallel_size))}
