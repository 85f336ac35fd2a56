"""What a run would do, before it does it: placement, memory, the full command. No GPU, no Ray, no network."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Final, NamedTuple

from mars_env.envs import spec
from mars_env.errors import ConfigError
from mars_env.problems.code_hub import CODE_HUB_SETS
from mars_env.problems.hub import HUB_SETS
from mars_env.trainers.openrlhf.arguments import ENTRY, parsed_arguments
from mars_env.trainers.openrlhf.command_line import Flags, as_words
from mars_env.trainers.openrlhf.flags import complete, located, sampling_of
from mars_env.trainers.openrlhf.planning.advice import advise
from mars_env.trainers.openrlhf.planning.checks import check_flags, check_launch
from mars_env.trainers.openrlhf.planning.memory import GIB, describe, fits, gpu_pools
from mars_env.trainers.openrlhf.planning.models import Architecture, architecture_of
from mars_env.trainers.openrlhf.settings import TeamSettings, as_flags, read_flags
from mars_env.trainers.openrlhf.versions import require_openrlhf

DRY_RUN: Final = "--dry-run"
"""``--dry-run``, or ``--dry-run=GIB`` with the memory of one GPU; without a number: 80 GiB."""

_STAND_INS: Final = {
    **{hub_set.name: "arithmetic" for hub_set in HUB_SETS},
    **{hub_set.name: "programs" for hub_set in CODE_HUB_SETS},
    "livecodebench": "programs",
}
"""Embedded sets of the same kind, for those that would be downloaded."""


class DryRun(NamedTuple):
    """What a run would do, for people to read; and whether every model of known sizes fits into its GPUs."""

    text: str
    fits: bool


def gpu_memory(values: Sequence[str]) -> float:
    """The memory of one GPU in bytes, from the value of `DRY_RUN`.

    Raises:
        ConfigError: It is no number above 0.
    """
    value = " ".join(values)
    try:
        gib = float(value or 80)
    except ValueError:
        gib = 0.0
    if not 0 < gib < math.inf:
        raise ConfigError(f"{DRY_RUN}=GIB takes the memory of one GPU, e.g. {DRY_RUN}=80, got {value!r}")
    return gib * GIB


def dry_run(given: Flags) -> DryRun:
    """Check a run's flags as at its start, and describe it; problem sets are not downloaded.

    Args:
        given: The launcher's flags. `DRY_RUN` among them gives the memory of one GPU.

    Raises:
        ConfigError: A flag is rejected, here or by OpenRLHF: a line for each.
        MissingExtra: OpenRLHF's files are not there.
    """
    settings, flags = read_flags(given)
    gpu = gpu_memory(flags.pop(DRY_RUN, []))
    settings_here = without_downloads(located(settings))
    full = complete(settings_here, flags)
    args = parsed_arguments(full)
    require_openrlhf()
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


def _command(module: str, flags: Flags) -> str:
    """A command, a flag a line, as a shell takes it; a key is not shown."""
    key = "--logger.wandb.key"  # logs of clusters are read by others
    shown = [
        f'{key} "$WANDB_API_KEY"' if flag == key else shlex.join(as_words({flag: values}))
        for flag, values in flags.items()
    ]
    return " \\\n    ".join([f"python -m {module}", *shown])
