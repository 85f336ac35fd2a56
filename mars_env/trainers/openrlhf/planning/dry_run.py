"""What a run would do, before it does it: placement, memory, the full command. No GPU, no Ray, no network."""

import copy
import math
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from types import SimpleNamespace
from typing import Annotated, Any, Final, NamedTuple

from pydantic import AllowInfNan, PositiveFloat, TypeAdapter

from mars_env.envs import spec
from mars_env.errors import ConfigError, explained
from mars_env.problems.hub_code import CODE_SETS
from mars_env.problems.hub_math import MATH_SETS
from mars_env.trainers.openrlhf.arguments import ENTRY, parsed_arguments
from mars_env.trainers.openrlhf.command_line import Flags, as_words
from mars_env.trainers.openrlhf.flags import complete, resolved, sampling_of
from mars_env.trainers.openrlhf.planning.checks import check_flags, check_launch
from mars_env.trainers.openrlhf.planning.memory import GIB, describe, fits, gpu_pools
from mars_env.trainers.openrlhf.planning.models import Architecture, architecture_of
from mars_env.trainers.openrlhf.settings import TeamSettings, as_flags, read_flags
from mars_env.trainers.openrlhf.versions import require_stack

DRY_RUN: Final = "--dry-run"
"""``--dry-run``, or ``--dry-run=GIB`` with the memory of one GPU; without a number: 80 GiB."""

_STAND_INS: Final = {
    **dict.fromkeys(MATH_SETS, "arithmetic"),
    **dict.fromkeys(CODE_SETS, "programs"),
    "livecodebench": "programs",
}
"""Embedded sets of the same kind, for those that would be downloaded."""

_SIZE: Final = TypeAdapter(Annotated[PositiveFloat, AllowInfNan(False)])

Changes = Mapping[str, Any]
"""New values by flag, without the leading dashes."""


class DryRun(NamedTuple):
    """What a run would do, for people to read; and whether every model of known sizes fits into its GPUs."""

    text: str
    fits: bool


def gpu_memory(values: Sequence[str]) -> float:
    """The memory of one GPU in bytes, from the value of `DRY_RUN`; a `ConfigError` unless it is above 0."""
    with explained(ConfigError, f"{DRY_RUN}=GIB takes the memory of one GPU, such as 80", ValueError):
        return GIB * _SIZE.validate_python(" ".join(values) or 80)


def dry_run(given: Flags) -> DryRun:
    """Check a launcher's flags as at a run's start, and describe the run; problem sets are not downloaded.

    Raises:
        ConfigError: A flag is rejected, here or by OpenRLHF: a line for each.
        MissingExtra: OpenRLHF's files are not there.
    """
    settings, flags = read_flags(given)
    gpu = gpu_memory(flags.pop(DRY_RUN, []))
    settings_here = without_downloads(resolved(settings, flags))
    full = complete(settings_here, flags)
    args = parsed_arguments(full)
    require_stack(only=("openrlhf",))
    policies = check_launch(settings_here, args)
    pools = gpu_pools(args)
    lines = [_rollouts(settings_here, args), *_evaluation(settings_here, args), ""]
    if len(policies) > 1:
        gpus = sum(pool.gpus for pool in pools)
        lines += [f"{len(policies)} policies with {gpus} GPUs each: {gpus * len(policies)} in all", ""]
    models = []
    for name, checkpoint in policies:
        lines.append(f"{f'Policy {name}: ' if name else ''}{checkpoint}")
        try:
            models.append(model := architecture_of(checkpoint))
            lines += [f"{model.parameters / 1e9:.2f} billion parameters, {describe(args, model, gpu)}", ""]
        except ConfigError as unknown:
            placed = ", ".join(f"{pool.gpus} GPUs ({', '.join(pool.components)})" for pool in pools)
            lines += [f"{placed}; no estimate of the memory: {unknown}", ""]
    enough = all(fits(args, model, gpu) for model in models)
    if not enough:
        lines += [*_advice(settings_here, args, models, gpu), ""]
    lines += ["Command:", _command("mars_env.trainers.openrlhf", as_flags(settings) | flags), ""]
    lines += ["What OpenRLHF gets:", _command(ENTRY, full)]
    return DryRun("\n".join(lines), enough)


def _rollouts(settings: TeamSettings, args: SimpleNamespace) -> str:
    """How much is rolled out and trained at a time."""
    rows, problems = settings.rows_per_tree(), args.rollout.batch_size
    if settings.groups_per_update is not None:
        return (
            f"{settings.env}: {settings.groups_per_update} groups of {settings.group} an update, "
            f"at most {rows} samples a problem, rollouts at most {settings.staleness} versions ahead"
        )
    return (
        f"{settings.env}: {problems} problems a step, at most {rows} samples each: at most {rows * problems} "
        f"an update, in optimizer steps of at most {args.train.batch_size}"
    )


def _evaluation(settings: TeamSettings, args: SimpleNamespace) -> list[str]:
    """What an evaluation during training plays at most."""
    if not settings.eval_problems:
        return []
    turns, samples = settings.evaluation_game().rules.max_turns, args.eval.n_samples_per_prompt
    limit = sampling_of(settings, args, evaluation=True).max_tokens
    return [
        f"evaluation every {args.eval.steps} steps: {settings.eval_problems} problems, "
        f"{samples} samples each, at most {turns} turns in a row of {limit:,} tokens; the trainer waits"
    ]


def _advice(
    settings: TeamSettings, args: SimpleNamespace, models: Sequence[Architecture], gpu: float
) -> list[str]:
    """What to change so that all models fit."""

    def valid(changed: SimpleNamespace) -> bool:
        try:
            check_flags(settings, changed)
        except ConfigError:
            return False
        return True

    changes = advise(args, models, gpu, valid)
    if changes is None:
        return [
            "IT DOES NOT FIT, not even into 16 times as many GPUs: take a smaller model or --data.max_len"
        ]
    words = [f"    --{flag}" if value is True else f"    --{flag} {value}" for flag, value in changes.items()]
    return ["IT DOES NOT FIT. With these settings it does:", *words]


def without_downloads(settings: TeamSettings) -> TeamSettings:
    """The settings with a stand-in of the same kind for a set that would be downloaded."""
    here: dict[str, object] = {}
    stand_in = _STAND_INS.get(settings.problem_set or spec(settings.env).problems)
    if stand_in is not None:
        here |= {"problem_set": stand_in, "problem_options": {}}
    evaluated = _STAND_INS.get(settings.eval_set or "")
    if evaluated is not None or (stand_in is not None and settings.eval_set is None):
        here |= {"eval_set": evaluated or stand_in, "eval_problem_options": {}}
    return settings.model_copy(update=here)


def advise(
    args: SimpleNamespace,
    models: Sequence[Architecture],
    gpu: float,
    valid: Callable[[SimpleNamespace], bool] = lambda _: True,
) -> Changes | None:
    """The settings to change so that every model fits: with more GPUs only where all others are not enough.

    A GPU has `gpu` bytes; `valid` says whether changed arguments can be used. None where no number of GPUs up
    to 16 times as many is enough.
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
    """The arguments with other values."""
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


def _command(module: str, flags: Flags) -> str:
    """A command, a flag a line, as a shell takes it; a key is not shown."""
    key = "--logger.wandb.key"  # logs of clusters are read by others
    shown = [
        f'{key} "$WANDB_API_KEY"' if flag == key else shlex.join(as_words({flag: values}))
        for flag, values in flags.items()
    ]
    return " \\\n    ".join([f"python -m {module}", *shown])
