"""The flags of a run: those that the team adds to OpenRLHF's, and those that are refused."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

from mars_env.errors import ConfigError
from mars_env.problems.loading import is_path
from mars_env.trainers.openrlhf.command_line import Flags
from mars_env.trainers.openrlhf.rollouts.problems import INPUT, require_plain
from mars_env.trainers.openrlhf.settings import TeamSettings
from mars_env.types import Sampling

DEFAULTS: Final[Mapping[str, tuple[str, ...]]] = {
    "--algo.advantage.estimator": ("reinforce",),  # no critic; mars_env computes the advantages
    "--algo.kl.init_coef": ("0",),
    "--reward.remote_url": ("mars_env",),  # no reward model; this address is never used
    "--vllm.num_engines": ("0",),  # `refuse` says that there must be some; OpenRLHF would compare None
}
"""Flags that OpenRLHF gets unless they are given."""

WRITTEN: Final[Mapping[str, str]] = {
    "--ckpt.path": "./ckpt/checkpoints_ppo_ray",
    "--ckpt.output_dir": "./ckpt",
    "--logger.tensorboard_dir": "",
}
"""Flags of folders that a run writes, and OpenRLHF's defaults."""

READ: Final = ("--actor.model_name_or_path", "--ref.model_name_or_path")
"""Flags of folders that a run reads, or of names on a hub."""

REFUSED: Final[Mapping[str, str]] = {
    "--data.prompt_dataset": "the problems are the environment's: --mars.env, --mars.problem_set",
    "--data.input_key": "the problems are the environment's: --mars.env, --mars.problem_set",
    "--data.input_template": "the agents make the prompts: --mars.agents",
    "--data.apply_chat_template": "the agents make the prompts, by the model's chat template if it has one",
    "--data.label_key": "the problems are the environment's: --mars.env, --mars.problem_set",
    "--data.prompt_probs": "the problems are the environment's: --mars.env, --mars.problem_set",
    "--data.prompt_split": "the problems are the environment's: --mars.problem_options",
    "--eval.split": "evaluation plays the environment: --mars.eval_problem_options",
    "--eval.dataset": "evaluation plays the environment: --mars.eval_problems",
    "--train.agent_func_path": "the launcher puts the team in its place; for OpenRLHF's own command line "
    "there is mars_env.trainers.openrlhf.agent_file",
    "--algo.advantage.gamma": "advantages are those of --mars.advantage",
    "--algo.advantage.lambd": "advantages are those of --mars.advantage",
    "--algo.advantage.no_std_norm": "advantages are those of --mars.advantage",
    "--algo.dynamic_filtering_enable": "groups of equal rewards are left out in any case",
    "--algo.dynamic_filtering_range": "groups of equal rewards are left out in any case",
    "--critic.model_name_or_path": "there is no critic: advantages are those of --mars.advantage",
    "--reward.model_name_or_path": "rewards are the environment's: --mars.rewards, --mars.team_reward",
    "--reward.remote_url": "rewards are the environment's: --mars.rewards, --mars.team_reward",
    "--reward.overlong_penalty_factor": "the penalty is part of the groups' rewards: --mars.overlong",
    "--reward.overlong_buffer_len": "the penalty is part of the groups' rewards: --mars.overlong",
    "--reward.stop_properly_penalty_coef": "the penalty is part of the groups' rewards: --mars.overlong",
    "--reward.normalize_enable": "advantages are those of --mars.advantage",
    "--reward.clip_range": "advantages are those of --mars.advantage",
    "--rollout.vllm_generate_batch_size": "how far rollouts run ahead is --mars.staleness",
    "--rollout.n_samples_per_prompt": "group sizes are --mars.group and --mars.branches",
    "--data.image_key": "the environments have no images",
    "--data.max_images_per_prompt": "the environments have no images",
}
"""Flags that would have no effect or do harm here, and what to use instead."""


AT_LEAST_ONE: Final = (
    "--actor.num_nodes", "--actor.num_gpus_per_node", "--ref.num_nodes", "--ref.num_gpus_per_node",
    "--vllm.num_engines", "--vllm.tensor_parallel_size", "--ds.tensor_parallel_size", "--ds.ring_attn_size",
    "--train.batch_size", "--train.micro_batch_size", "--train.max_tokens_per_gpu", "--train.max_epochs",
    "--train.num_episodes", "--rollout.batch_size", "--rollout.micro_batch_size", "--rollout.max_new_tokens",
    "--rollout.max_tokens_per_gpu", "--data.max_len", "--eval.n_samples_per_prompt",
)  # fmt: skip
"""Flags that OpenRLHF takes with 0 or less, and with which it divides by zero or does nothing."""


def complete(settings: TeamSettings, flags: Flags) -> Flags:
    """OpenRLHF's flags with those that the team decides.

    Raises:
        ConfigError: A flag of `REFUSED` is among them, one of `AT_LEAST_ONE` is less, or OpenRLHF cannot read
            a data set below ``--ckpt.path``.

    Example:
        >>> settings = TeamSettings(
        ...     env="aime-solve-verify-correct", options={"schedule": "training"}, group=4, branches=1)
        >>> complete(settings, {"--ckpt.path": ["run"]})["--rollout.n_samples_per_prompt"]
        ['20']
    """
    wrong = [f"{flag} is rejected: {REFUSED[flag]}" for flag in flags if flag in REFUSED]
    wrong += [
        f"{flag} must be at least 1, got {value}"
        for flag in AT_LEAST_ONE
        for value in flags.get(flag, ())
        if value.lstrip("-").isdecimal() and int(value) < 1
    ]
    if wrong:
        raise ConfigError("\n".join(wrong))
    problems = dataset_path(flags, "problems")
    require_plain(problems)
    ours = {
        "--data.prompt_dataset": [str(problems)],
        "--data.input_key": [INPUT],
        "--rollout.n_samples_per_prompt": [str(settings.rows_per_tree())],
    }
    if settings.eval_problems:
        ours["--eval.dataset"] = [str(dataset_path(flags, "evaluation"))]
    defaults = {**DEFAULTS, **_correction(settings, flags)}
    if settings.segment_tokens is not None:
        defaults["--vllm.enable_prefix_caching"] = ()  # a segment continues without reading its prompt again
    ours |= {flag: list(values) for flag, values in defaults.items() if flag not in flags}
    return _absolute(flags) | ours


def dataset_path(flags: Flags, name: str) -> Path:
    """The file with the problems' ids: beside the checkpoints, where all nodes can read it."""
    path = " ".join(flags.get("--ckpt.path", [WRITTEN["--ckpt.path"]]))
    return Path(path).absolute() / "mars" / f"{name}.jsonl"


def located(settings: TeamSettings) -> TeamSettings:
    """The settings with absolute paths: a relative one means the folder of the command, not of a Ray worker.

    Example:
        >>> settings = TeamSettings(env="aime-solve", record="record", policies={"one": "Qwen/Qwen3-8B"})
        >>> Path(located(settings).record).is_absolute(), located(settings).policies["one"]
        (True, 'Qwen/Qwen3-8B')
    """
    here = {
        "record": settings.record and str(Path(settings.record).absolute()),
        "problem_set": settings.problem_set and _set(settings.problem_set),
        "problem_options": _options(settings.problem_options),
        "eval_set": settings.eval_set and _set(settings.eval_set),
        "eval_problem_options": _options(settings.eval_problem_options),
        "policies": {name: _existing(path) for name, path in settings.policies.items()},
    }
    return settings.model_copy(update=here)


def sampling_of(settings: TeamSettings, args: SimpleNamespace, *, evaluation: bool = False) -> Sampling:
    """How the team's models are sampled.

    Args:
        settings: The team's.
        args: OpenRLHF's arguments, parsed.
        evaluation: During an evaluation instead of training.
    """
    limit = args.rollout.max_new_tokens or args.data.max_len
    if evaluation and settings.eval_max_tokens is not None:
        limit = min(limit, settings.eval_max_tokens)
    temperature = args.eval.temperature if evaluation else args.rollout.temperature
    return Sampling(temperature=temperature, max_tokens=limit, overflow=settings.overflow)


def _correction(settings: TeamSettings, given: Flags) -> dict[str, tuple[str, ...]]:
    """Flags of the importance weight between the engine that sampled and the policy that is trained.

    Without it OpenRLHF takes every sample for one of the present policy. The weight is capped from above
    alone: OpenRLHF's own lower bound, 0.5, keeps pushing down tokens that the policy has left.

    Another gate than the ratio masks, and its bound is the user's: nothing but the level is added.

    GSPO has no such weight: there the ratio itself is taken to the policy that sampled, which its narrow
    clip range leaves no room for where samples are fresh and differ by the engine's rounding alone.
    """
    if settings.staleness == 0 and given.get("--actor.policy_loss_type") == ["gspo"]:
        return {}
    if "--algo.advantage.is_correction_level" in given:
        return {}
    if given.get("--algo.advantage.is_correction_gating", ["ratio"]) != ["ratio"]:
        return {"--algo.advantage.is_correction_level": ("token",)}
    return {
        "--algo.advantage.is_correction_level": ("token",),
        "--algo.advantage.is_correction_mode": ("clip",),
        "--algo.advantage.is_correction_threshold": ("5",),
    }


def _absolute(flags: Flags) -> Flags:
    """The flags with absolute paths; with those of `WRITTEN` that have a default and are not given."""
    defaults = {flag: [path] for flag, path in WRITTEN.items() if path and flag not in flags}
    paths = (*WRITTEN, *READ)
    return {
        flag: [_placed(flag, value) for value in values] if flag in paths else values
        for flag, values in (flags | defaults).items()
    }


def _placed(flag: str, path: str) -> str:
    """The path that a flag means."""
    return str(Path(path).absolute()) if flag in WRITTEN and path else _existing(path)


def _set(name: str) -> str:
    """A problem set's name as it is, also where a folder has it; a file that exists, absolute."""
    return _existing(name) if is_path(name) else name


def _options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of a loader, with the local copy (``source``) absolute."""
    return {
        name: _existing(value) if name == "source" and isinstance(value, str) else value
        for name, value in options.items()
    }


def _existing(path: str) -> str:
    """A path that exists, absolute; else the name of something, as it is."""
    return str(Path(path).absolute()) if Path(path).exists() else path


def refuse(settings: TeamSettings, args: SimpleNamespace) -> None:
    """Refuse arguments that would fail later, or do something wrong silently.

    Args:
        settings: The team's.
        args: OpenRLHF's arguments, parsed.

    Raises:
        ConfigError: A line for each says what is wrong and what to do.
    """
    wrongs = []
    try:
        settings.trained_roles()
    except ConfigError as error:  # there is no such role
        wrongs.append(str(error))
    correction = args.algo.advantage
    gated = correction.is_correction_gating != "ratio"
    for wrong, sentence in (
        (
            args.ds.lora.rank > 0,
            "LoRA with vLLM fails in OpenRLHF 0.11.2 (its issue 1349: vLLM is sent weights under names that "
            "it does not know): leave --ds.lora.rank out",
        ),
        (
            correction.estimator != "reinforce",
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
            settings.staleness > 0 and correction.is_correction_level == "off",
            f"samples may be {settings.staleness} versions old, and would be trained as if they were new: "
            "leave --algo.advantage.is_correction_level out",
        ),
        (
            correction.is_correction_mode == "clip" and (correction.is_correction_level == "seq" or gated),
            "--algo.advantage.is_correction_mode clip is for the level token and the gating ratio: drop it",
        ),
        (
            gated and correction.is_correction_level != "off" and correction.is_correction_threshold[0] > 0,
            f"the gating {correction.is_correction_gating} has an upper bound alone: give "
            "--algo.advantage.is_correction_threshold one number, e.g. 0.05",
        ),
        (
            args.train.enable_ema,
            "--train.enable_ema averages by micro-batches of a fixed number, which updates here do not have",
        ),
    ):
        if wrong:
            wrongs.append(sentence)
    if settings.overlong is not None and settings.overlong.limit != args.rollout.max_new_tokens:
        wrongs.append(
            f"the limit of --mars.overlong is {settings.overlong.limit} tokens, but completions end at "
            f"--rollout.max_new_tokens {args.rollout.max_new_tokens}: make them equal"
        )
    if wrongs:
        raise ConfigError("\n".join(wrongs))
