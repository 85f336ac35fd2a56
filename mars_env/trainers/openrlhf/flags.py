"""The flags of a run: those that the team adds to OpenRLHF's, and those that are rejected."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

from mars_env.errors import ConfigError
from mars_env.problems.loading import is_path
from mars_env.trainers.checks import require_roles
from mars_env.trainers.openrlhf.command_line import Flags
from mars_env.trainers.openrlhf.settings import TeamSettings
from mars_env.types import Sampling, role_of

DEFAULTS: Final[Mapping[str, tuple[str, ...]]] = {
    "--algo.advantage.estimator": ("reinforce",),  # no critic; mars_env computes the advantages
    "--algo.kl.init_coef": ("0",),
    "--reward.remote_url": ("mars_env",),  # no reward model; this address is never used
    "--vllm.num_engines": ("0",),  # `gpu_pools` rejects it; OpenRLHF would compare None
    "--ckpt.path": ("./ckpt/checkpoints_ppo_ray",),
    "--ckpt.output_dir": ("./ckpt",),
}
"""Flags that OpenRLHF gets unless they are given."""

_LEVEL: Final = "--algo.advantage.is_correction_level"
_WRITTEN: Final = ("--ckpt.path", "--ckpt.output_dir", "--logger.tensorboard_dir")
_READ: Final = ("--actor.model_name_or_path", "--ref.model_name_or_path")  # folders, or names on a hub

_REASONS: Final = {
    "the problems are the environment's: --mars.env, --mars.problem_set": (
        "--data.prompt_dataset", "--data.input_key", "--data.label_key", "--data.prompt_probs",
    ),
    "the problems are the environment's: --mars.problem_options": ("--data.prompt_split",),
    "the agents make the prompts: --mars.agents": ("--data.input_template", "--data.apply_chat_template"),
    "evaluation plays the environment: --mars.eval_problems, --mars.eval_problem_options": (
        "--eval.dataset", "--eval.split",
    ),
    "the launcher puts the team in its place; for OpenRLHF's own command line there is "
    "mars_env.trainers.openrlhf.agent_file": ("--train.agent_func_path",),
    "advantages are those of --mars.advantage, without a critic": (
        "--algo.advantage.gamma", "--algo.advantage.lambd", "--algo.advantage.no_std_norm",
        "--critic.model_name_or_path", "--reward.normalize_enable", "--reward.clip_range",
    ),
    "groups of equal rewards are left out by --mars.uniform_groups drop": (
        "--algo.dynamic_filtering_enable", "--algo.dynamic_filtering_range",
    ),
    "rewards are the environment's: --mars.rewards, --mars.team_reward": (
        "--reward.model_name_or_path", "--reward.remote_url",
    ),
    "the penalty is part of the groups' rewards: --mars.overlong": (
        "--reward.overlong_penalty_factor", "--reward.overlong_buffer_len",
        "--reward.stop_properly_penalty_coef",
    ),
    "how far rollouts run ahead is --mars.staleness": ("--rollout.vllm_generate_batch_size",),
    "group sizes are --mars.group and --mars.branches": ("--rollout.n_samples_per_prompt",),
    "the environments have no images": ("--data.image_key", "--data.max_images_per_prompt"),
}  # fmt: skip

REFUSED: Final = {flag: reason for reason, flags in _REASONS.items() for flag in flags}
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
    """OpenRLHF's flags with those that the team decides, and with absolute paths.

    Raises:
        ConfigError: A flag of `REFUSED` is among them, or one of `AT_LEAST_ONE` is less.

    Example:
        >>> settings = TeamSettings(
        ...     env="aime-solve-verify-correct", options={"schedule": "training"}, group=4, branches=1)
        >>> complete(settings, {"--ckpt.path": ["run"]})["--rollout.n_samples_per_prompt"]
        ['20']
    """
    wrong = [f"leave {flag} out: {REFUSED[flag]}" for flag in flags if flag in REFUSED]
    wrong += [
        f"{flag} must be at least 1, got {value}"
        for flag in AT_LEAST_ONE
        for value in flags.get(flag, ())
        if value.lstrip("-").isdecimal() and int(value) < 1
    ]
    if wrong:
        raise ConfigError("\n".join(wrong))
    ours = {"--rollout.n_samples_per_prompt": [str(settings.rows_per_tree())]}
    defaults = {**DEFAULTS, **_correction(settings, flags)}
    if settings.segment_tokens is not None:
        defaults["--vllm.enable_prefix_caching"] = ()  # a segment continues without reading its prompt again
    added = {flag: list(values) for flag, values in defaults.items() if flag not in flags}
    return {
        flag: [_absolute(flag, value) for value in values] for flag, values in (flags | ours | added).items()
    }


def resolved(settings: TeamSettings, flags: Flags) -> TeamSettings:
    """The settings with absolute paths, and with a weight for GSPO unless flags choose OpenRLHF's correction.

    A relative path means the folder of the command, not of a Ray worker. The weight is that of
    `TrainConfig.corrected`: OpenRLHF's GSPO has none, only a ratio to the policy that sampled, whose rounding
    alone would exceed its narrow clip range.

    Example:
        >>> settings = TeamSettings(env="aime-solve", record="record", policies={"one": "Qwen/Qwen3-8B"})
        >>> found = resolved(settings, {"--actor.policy_loss_type": ["gspo"]})
        >>> Path(found.record).is_absolute(), found.policies["one"], found.tis_cap
        (True, 'Qwen/Qwen3-8B', 2.0)
    """
    gspo = flags.get("--actor.policy_loss_type") == ["gspo"] and _LEVEL not in flags

    def chosen(name: str | None) -> str | None:  # a set's name stays, also where a folder has it
        return _existing(name) if name and is_path(name) else name

    def options(given: Mapping[str, Any]) -> dict[str, Any]:  # with the local copy absolute
        local = isinstance(given.get("source"), str)
        return {**given, "source": _existing(given["source"])} if local else dict(given)

    return settings.model_copy(
        update={
            "tis_cap": settings.tis_cap or (2.0 if gspo else None),
            "record": settings.record and str(Path(settings.record).absolute()),
            "problem_set": chosen(settings.problem_set),
            "problem_options": options(settings.problem_options),
            "eval_set": chosen(settings.eval_set),
            "eval_problem_options": options(settings.eval_problem_options),
            "policies": {name: _existing(path) for name, path in settings.policies.items()},
        }
    )


def sampling_of(settings: TeamSettings, args: SimpleNamespace, *, evaluation: bool = False) -> Sampling:
    """How the team's models are sampled, in training or in an evaluation during training."""
    limit = args.rollout.max_new_tokens or args.data.max_len
    if evaluation and settings.eval_max_tokens is not None:
        limit = min(limit, settings.eval_max_tokens)
    temperature = args.eval.temperature if evaluation else args.rollout.temperature
    return Sampling(temperature=temperature, max_tokens=limit, overflow=settings.overflow)


def _correction(settings: TeamSettings, given: Flags) -> dict[str, tuple[str, ...]]:
    """Flags of the importance weight between the engine that sampled and the policy that is trained.

    The weight is capped from above alone: OpenRLHF's own lower bound, 0.5, keeps pushing down tokens that the
    policy has left. Another gate than the ratio masks, and its bound is the user's.
    """
    if settings.tis_cap is not None or _LEVEL in given:
        return {}
    if given.get("--algo.advantage.is_correction_gating", ["ratio"]) != ["ratio"]:
        return {_LEVEL: ("token",)}
    return {
        _LEVEL: ("token",),
        "--algo.advantage.is_correction_mode": ("clip",),
        "--algo.advantage.is_correction_threshold": ("5",),
    }


def _absolute(flag: str, value: str) -> str:
    if flag in _WRITTEN and value:
        return str(Path(value).absolute())
    return _existing(value) if flag in _READ else value


def _existing(path: str) -> str:
    """A path that exists, absolute; else the name of something, as it is."""
    return str(Path(path).absolute()) if Path(path).exists() else path


def require_supported(settings: TeamSettings, args: SimpleNamespace) -> None:
    """Reject arguments that would fail later, or do something wrong silently: a line of ConfigError each."""
    if wrong := list(_unsupported(settings, args)):
        raise ConfigError("\n".join(wrong))


def _unsupported(settings: TeamSettings, args: SimpleNamespace) -> Iterator[str]:
    agents = settings.game().rules.possible_agents
    try:
        require_roles(settings, agents)
    except ConfigError as error:  # there is no such role
        yield str(error)
    frozen = {role_of(agent) for agent in agents if settings.is_frozen(agent)}
    if clash := frozen.intersection(settings.train_roles or ()):
        yield f"others play {', '.join(sorted(clash))}: leave that out of --mars.train_roles or --mars.others"
    correction, overlong, limit = args.algo.advantage, settings.overlong, args.rollout.max_new_tokens
    level, gated = correction.is_correction_level, correction.is_correction_gating != "ratio"
    if args.ds.lora.rank > 0:
        yield "LoRA with vLLM fails in OpenRLHF 0.11.2 (its issue 1349): leave --ds.lora.rank out"
    if correction.estimator != "reinforce":
        yield "the advantages are those of --mars.advantage: leave --algo.advantage.estimator out"
    if args.algo.kl.init_coef > 0 and not args.algo.kl.use_loss:
        yield "a KL penalty in the rewards would be compared within groups: add --algo.kl.use_loss"
    if args.rollout.top_p != 1.0:
        yield "training needs all tokens of the policy: leave --rollout.top_p out"
    if args.train.async_queue_size != 1:
        yield "how far rollouts run ahead is --mars.staleness: leave --train.async_queue_size out"
    if args.train.async_enable and settings.staleness == 0:
        yield "asynchronous training needs --mars.staleness 1 or more"
    if args.vllm.enable_sleep and settings.staleness > 0:
        yield "engines that sleep while the policy is trained roll nothing out: set --mars.staleness 0"
    if settings.tis_cap is not None and level != "off":
        yield f"--mars.tis_cap and {_LEVEL} correct the same difference: leave one of them out"
    if settings.dmmpt_threshold is not None and args.actor.policy_loss_type == "gspo":
        yield "--mars.dmmpt_threshold leaves tokens out that GSPO's ratio would go on to push: drop it"
    if settings.staleness > 0 and level == "off" and settings.tis_cap is None:
        yield f"samples {settings.staleness} versions old would be trained as new ones: leave {_LEVEL} out"
    if correction.is_correction_mode == "clip" and (level == "seq" or gated):
        yield "--algo.advantage.is_correction_mode clip is for the level token and the gating ratio: drop it"
    if gated and level != "off" and correction.is_correction_threshold[0] > 0:
        yield (
            f"the gating {correction.is_correction_gating} has an upper bound alone: give "
            "--algo.advantage.is_correction_threshold one number, e.g. 0.05"
        )
    if args.train.enable_ema:
        yield "--train.enable_ema averages by micro-batches of a fixed number, which updates here do not have"
    if overlong is not None and overlong.limit != limit:
        yield f"--mars.overlong is for {overlong.limit} tokens: make --rollout.max_new_tokens, {limit}, equal"
