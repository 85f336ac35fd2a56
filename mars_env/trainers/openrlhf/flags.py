"""The flags of a run: those that the team adds to OpenRLHF's, and those that are refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Final

from mars_env.errors import ConfigError
from mars_env.trainers.openrlhf.rollouts.problems import INPUT
from mars_env.trainers.openrlhf.settings import TeamSettings

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
    "--train.agent_func_path": "the launcher puts the team in its place; for OpenRLHF's own command line "
    "there is mars_env.trainers.openrlhf.agent_file",
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
    for flag, value in zip(flags, [*flags[1:], ""], strict=False):
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
