"""What a run through OpenRLHF would do: placement, memory, flags. No GPU, no Ray, no network."""

import shlex
from types import SimpleNamespace

from mars_env.errors import ConfigError
from mars_env.trainers.architecture import architecture_of
from mars_env.trainers.assembly import (
    environment_of,
    evaluation_game,
    evaluation_sampling,
    rows_per_tree,
    training_game,
)
from mars_env.trainers.credit_rules import credit_line
from mars_env.trainers.memory import GIB
from mars_env.trainers.openrlhf.arguments import ENTRY, parsed_arguments
from mars_env.trainers.openrlhf.command_line import Flags, as_words
from mars_env.trainers.openrlhf.planning.checks import check_launch
from mars_env.trainers.openrlhf.planning.placement import describe, fits, gpu_pools
from mars_env.trainers.openrlhf.translation import complete_flags
from mars_env.trainers.recipes import RunSettings


def dry_run(settings: RunSettings, gpu: float) -> tuple[str, bool]:
    """Check a run as at its start, and describe it; the hub's problem sets are not downloaded.

    Returns a text for people, and whether every model of known sizes fits into its GPUs of so many GiB.
    """
    flags = complete_flags(settings)
    args = parsed_arguments(flags)
    policies = check_launch(settings, args)
    pools = gpu_pools(args)
    credit = credit_line(settings.train.credit)
    lines = [_rollouts(settings), credit, *_evaluation(settings), ""]
    if len(policies) > 1:
        gpus = sum(pool.gpus for pool in pools)
        lines += [f"{len(policies)} policies with {gpus} GPUs each: {gpus * len(policies)} in all", ""]
    enough = True
    for name, checkpoint in policies.items():
        text, fit = _policy(args, checkpoint, gpu * GIB)
        enough = enough and fit
        lines += [f"Policy {name}: {checkpoint}" if len(policies) > 1 else checkpoint, text, ""]
    return "\n".join([*lines, "What OpenRLHF gets:", _command(flags)]), enough


def _policy(args: SimpleNamespace, checkpoint: str, gpu: float) -> tuple[str, bool]:
    """The memory of a policy, and whether it fits; one of unknown sizes counts as fitting."""
    try:
        model = architecture_of(checkpoint)
    except ConfigError as unknown:
        placed = ", ".join(f"{pool.gpus} GPUs ({', '.join(pool.components)})" for pool in gpu_pools(args))
        return f"{placed}; no estimate of the memory: {unknown}", True
    text = f"{model.parameters / 1e9:.2f} billion parameters, {describe(args, model, gpu)}"
    return text, fits(args, model, gpu)


def _rollouts(settings: RunSettings) -> str:
    name, pipeline = environment_of(settings).id, settings.pipeline
    rows = rows_per_tree(training_game(settings), settings.rollouts)
    if pipeline.groups_per_update is not None and settings.rollouts is not None:
        return (
            f"{name}: {settings.steps} updates of {pipeline.groups_per_update} groups of "
            f"{settings.rollouts.group}, at most {rows} samples a problem, rollouts at most "
            f"{pipeline.staleness} versions ahead"
        )
    problems = settings.problems_per_step
    return (
        f"{name}: {settings.steps} updates of {problems} problems, at most {rows} samples each: at most "
        f"{rows * problems} an update, in {settings.train.minibatches} optimizer steps"
    )


def _evaluation(settings: RunSettings) -> list[str]:
    table = settings.evaluation
    if not table.every:
        return []
    turns, limit = evaluation_game(settings).rules.max_turns, evaluation_sampling(settings).max_tokens
    return [
        f"evaluation every {table.every} updates: {table.limit or 'all'} problems, {table.samples} samples "
        f"each, at most {turns} turns in a row of {limit:,} tokens; the trainer waits"
    ]


def _command(flags: Flags) -> str:
    lines = [shlex.join(as_words({flag: values})) for flag, values in flags.items()]
    return " \\\n    ".join([f"python -m {ENTRY}", *lines])
