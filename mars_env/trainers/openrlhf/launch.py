"""The launcher: puts the team's classes in the place of OpenRLHF's, and runs OpenRLHF's own command line."""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

from mars_env.errors import ConfigError
from mars_env.trainers.openrlhf.arguments import ENTRY, parse
from mars_env.trainers.openrlhf.problems import INPUT, write_ids
from mars_env.trainers.openrlhf.responses import shape_of
from mars_env.trainers.openrlhf.room import require_room_for
from mars_env.trainers.openrlhf.settings import TeamSettings, read_flags
from mars_env.trainers.openrlhf.sizes import require_context
from mars_env.trainers.openrlhf.versions import require_openrlhf

DEFAULTS: Final[Mapping[str, tuple[str, ...]]] = {
    "--algo.advantage.estimator": ("reinforce",),  # no critic; the advantages are ours
    "--algo.kl.init_coef": ("0",),
    "--reward.remote_url": ("mars_env",),  # no reward model; nobody asks this address
}
"""Flags that OpenRLHF gets unless they are given."""

REFUSED: Final[Mapping[str, str]] = {
    "--data.prompt_dataset": "the problems are the environment's: --mars.env, --mars.problem_set",
    "--data.input_key": "the problems are the environment's: --mars.env, --mars.problem_set",
    "--data.input_template": "the agents make the prompts: --mars.agents",
    "--data.apply_chat_template": "the agents make the prompts, by the model's chat template if it has one",
    "--eval.dataset": "evaluation plays the environment: --mars.eval_problems",
    "--train.agent_func_path": "the launcher puts the team in its place; for the stock command line there is "
    "mars_env.trainers.openrlhf.agent_file",
    "--algo.advantage.gamma": "advantages are those of --mars.advantage",
    "--algo.advantage.lambd": "advantages are those of --mars.advantage",
    "--algo.advantage.no_std_norm": "advantages are those of --mars.advantage",
    "--algo.dynamic_filtering_enable": "groups of equal rewards are left out in any case",
    "--reward.overlong_buffer_len": "the penalty belongs into the groups: --mars.overlong",
    "--reward.stop_properly_penalty_coef": "the penalty belongs into the groups: --mars.overlong",
    "--reward.normalize_enable": "advantages are those of --mars.advantage",
    "--reward.clip_range": "advantages are those of --mars.advantage",
    "--rollout.vllm_generate_batch_size": "how far rollouts run ahead is --mars.staleness",
    "--rollout.n_samples_per_prompt": "group sizes are --mars.group and --mars.branches",
    "--train.dynamic_batch_enable": "it would drop rows where updates differ in size",
    "--data.image_key": "the environments have no images",
    "--data.max_images_per_prompt": "the environments have no images",
}
"""Flags that would do nothing or harm here, and what to use."""


def launch(argv: Sequence[str]) -> None:
    """Train: ``python -m mars_env.trainers.openrlhf --mars.env ... <OpenRLHF's flags>``.

    Args:
        argv: The flags.

    Raises:
        ConfigError: A flag is refused, here or by OpenRLHF.
        MissingExtra: OpenRLHF is not installed.
    """
    settings, flags = read_flags(argv)
    require_openrlhf()
    flags = complete(settings, flags)
    args = parse(flags)
    refuse(settings, args)
    shape_of(args)  # refuses a batch size that does not divide
    for checkpoint in settings.policies.values() or filter(None, [args.actor.model_name_or_path]):
        require_context(checkpoint, args.data.max_len)
        require_room_for(settings, args, checkpoint)
    write_ids(settings.training_problems(), dataset_path(flags, "problems"))
    if settings.eval_problems:
        write_ids(settings.evaluation_problems(), dataset_path(flags, "evaluation"))
    install(settings)
    if settings.policies:
        from mars_env.trainers.openrlhf import several

        several.train(settings, args)
        return
    sys.argv = [ENTRY, *flags]
    runpy.run_module(ENTRY, run_name="__main__", alter_sys=True)


def complete(settings: TeamSettings, flags: Sequence[str]) -> list[str]:
    """OpenRLHF's flags with those that the team decides.

    Raises:
        ConfigError: A flag of `REFUSED` is among them.

    Example:
        >>> settings = TeamSettings(
        ...     env="aime-solve-verify-correct", options={"schedule": "training"}, group=4, branches=1)
        >>> flags = complete(settings, ["--ckpt.path", "run", "--algo.kl.init_coef", "0.001"])
        >>> flags[flags.index("--rollout.n_samples_per_prompt") + 1]
        '20'
    """
    given = [flag.partition("=")[0] for flag in flags if flag.startswith("--")]
    for flag in given:
        if flag in REFUSED:
            raise ConfigError(f"{flag} is refused: {REFUSED[flag]}")
    ours = ["--data.prompt_dataset", str(dataset_path(flags, "problems")), "--data.input_key", INPUT]
    ours += ["--rollout.n_samples_per_prompt", str(settings.rows_per_tree())]
    if settings.eval_problems:
        ours += ["--eval.dataset", str(dataset_path(flags, "evaluation"))]
    for flag, values in DEFAULTS.items():
        if flag not in given:
            ours += [flag, *values]
    return [*flags, *ours]


def dataset_path(flags: Sequence[str], name: str) -> Path:
    """Where the ids of the problems lie: beside the checkpoints, where all nodes can read them."""
    path = "./ckpt/checkpoints_ppo_ray"  # OpenRLHF's default
    for flag, value in zip(flags, [*flags[1:], ""], strict=True):
        if flag == "--ckpt.path":
            path = value
        elif flag.startswith("--ckpt.path="):
            path = flag.partition("=")[2]
    return Path(path).absolute() / "mars" / f"{name}.jsonl"


def refuse(settings: TeamSettings, args: SimpleNamespace) -> None:
    """Refuse what would go wrong later, or silently.

    Args:
        settings: The team's.
        args: OpenRLHF's arguments, parsed.

    Raises:
        ConfigError: In one sentence: what, and what to do.
    """
    for wrong, sentence in (
        (
            args.ds.lora.rank > 0,
            "LoRA with vLLM fails in OpenRLHF 0.11.2 (its issue 1349: vLLM is sent weights under names that "
            "it does not know): leave --ds.lora.rank out",
        ),
        (
            args.algo.advantage.estimator != "reinforce",
            "the advantages are those of --mars.advantage: leave --algo.advantage.estimator out",
        ),
        (
            args.algo.kl.init_coef > 0 and not args.algo.kl.use_loss,
            "a KL penalty in the rewards would be compared within groups: add --algo.kl.use_loss",
        ),
        (
            args.rollout.top_p != 1.0,
            "training needs all tokens of the policy: leave --rollout.top_p out",
        ),
        (
            args.train.async_queue_size != 1,
            "how far rollouts run ahead is --mars.staleness: leave --train.async_queue_size out",
        ),
        (
            args.train.async_enable and settings.staleness == 0,
            "asynchronous training needs --mars.staleness 1 or more",
        ),
        (
            args.vllm.enable_sleep and settings.staleness > 0,
            "engines that sleep while the policy is trained roll nothing out: set --mars.staleness 0",
        ),
        (
            not args.vllm.num_engines,
            "rollouts need engines: give --vllm.num_engines, at least 1",
        ),
        (
            args.train.enable_ema,
            "--train.enable_ema averages by micro-batches of a fixed number, which updates here do not have",
        ),
    ):
        if wrong:
            raise ConfigError(sentence)
    if settings.overlong is not None and settings.overlong.limit != args.rollout.max_new_tokens:
        raise ConfigError(
            f"the limit of --mars.overlong is {settings.overlong.limit} tokens, but completions end at "
            f"--rollout.max_new_tokens {args.rollout.max_new_tokens}: make them equal"
        )


def install(settings: TeamSettings) -> None:
    """Put the team's classes in the place of OpenRLHF's, in this process; Ray carries them to the others."""
    # Workers that are started for this run read this before they import anything.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    import ray
    from openrlhf.trainer import ppo_trainer, ppo_trainer_async
    from openrlhf.trainer.ray import ppo_actor, vllm_engine

    from mars_env.trainers.openrlhf import actors, trainer

    def of_team(cls: type) -> type:
        return type(cls.__name__, (cls,), {"team": settings, "__module__": cls.__module__})

    places: list[tuple[Any, str, Any]] = [
        (vllm_engine, "RolloutRayActor", ray.remote(actors.TeamRolloutActor)),
        (ppo_actor, "PolicyModelActor", ray.remote(num_gpus=1)(actors.TeamPolicyActor)),
        (ppo_trainer, "PPOTrainer", ray.remote(of_team(trainer.TeamPPOTrainer))),
        (ppo_trainer_async, "GenerateSamplesActor", ray.remote(of_team(trainer.TeamGenerateSamplesActor))),
        (ppo_trainer_async, "TrainingActor", ray.remote(of_team(trainer.TeamTrainingActor))),
    ]
    for module, name, actor in places:
        setattr(module, name, actor)
