"""The launcher: puts the team's classes in the place of OpenRLHF's, and runs OpenRLHF's own command line."""

from __future__ import annotations

import os
import runpy
import sys
from typing import Any

from mars_env.trainers.openrlhf.arguments import ENTRY, parse
from mars_env.trainers.openrlhf.command_line import Flags, as_words
from mars_env.trainers.openrlhf.flags import complete, dataset_path, located
from mars_env.trainers.openrlhf.planning.checks import check_run
from mars_env.trainers.openrlhf.rollouts.problems import write_ids
from mars_env.trainers.openrlhf.settings import TeamSettings, read_flags
from mars_env.trainers.openrlhf.versions import require_stack


def launch(given: Flags) -> None:
    """Train: ``python -m mars_env.trainers.openrlhf --mars.env ... <OpenRLHF's flags>``.

    Args:
        given: The flags, from `mars_env.trainers.openrlhf.command_line.read`.

    Raises:
        ConfigError: A flag is rejected, here or by OpenRLHF (a line for each), or a version is not supported.
        MissingExtra: OpenRLHF is not installed.
    """
    settings, flags = read_flags(given)
    require_stack()
    settings = located(settings)
    flags = complete(settings, flags)
    args = parse(flags)
    check_run(settings, args)
    write_ids(settings.training_problems(), dataset_path(flags, "problems"))
    if settings.eval_problems:
        write_ids(settings.evaluation_problems(), dataset_path(flags, "evaluation"))
    install(settings)
    if settings.policies:
        from mars_env.trainers.openrlhf.workers import multi_policy

        multi_policy.train(settings, args)
        return
    sys.argv = [ENTRY, *as_words(flags)]
    runpy.run_module(ENTRY, run_name="__main__", alter_sys=True)


def install(settings: TeamSettings) -> None:
    """Put the team's classes in the place of OpenRLHF's, in this process; Ray carries them to the others."""
    # Workers that are started for this run read this before they import anything.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    import ray
    from openrlhf import utils
    from openrlhf.trainer import ppo_trainer, ppo_trainer_async
    from openrlhf.trainer.ray import ppo_actor, vllm_engine

    from mars_env.trainers.openrlhf.workers import actors, processes, trainer

    def of_team(cls: type) -> type:
        return type(cls.__name__, (cls,), {"team": settings, "__module__": cls.__module__})

    places: list[tuple[Any, str, Any]] = [
        (utils, "get_strategy", processes.strategy_of),
        (vllm_engine, "RolloutRayActor", ray.remote(of_team(actors.TeamRolloutActor))),
        (ppo_actor, "PolicyModelActor", ray.remote(num_gpus=1)(actors.TeamPolicyActor)),
        (ppo_trainer, "PPOTrainer", ray.remote(of_team(trainer.TeamPPOTrainer))),
        (ppo_trainer_async, "GenerateSamplesActor", ray.remote(of_team(trainer.TeamGenerateSamplesActor))),
        (ppo_trainer_async, "TrainingActor", ray.remote(of_team(trainer.TeamTrainingActor))),
    ]
    for module, name, actor in places:
        setattr(module, name, actor)
