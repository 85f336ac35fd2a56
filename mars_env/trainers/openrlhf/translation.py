"""A run file as OpenRLHF's flags: each setting is translated, or an error says why it cannot be.

Flags that only OpenRLHF has are passed on from the table ``openrlhf``.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

from mars_env.errors import ConfigError, explained
from mars_env.trainers.architecture import architecture_of
from mars_env.trainers.assembly import checkpoints_of, is_frozen, most_rows, rows_per_tree, training_game
from mars_env.trainers.checks import require_groups, require_roles
from mars_env.trainers.config import TrainConfig
from mars_env.trainers.openrlhf.command_line import Flags, flags_of
from mars_env.trainers.recipes import RunSettings
from mars_env.trainers.samples import require_trainable
from mars_env.types import role_of

_AGGREGATIONS: Final = {"token-mean": "token-mean", "sequence-mean": "seq-mean-token-mean"}

_DEFAULTS: Final[Mapping[str, tuple[str, ...]]] = {
    "--reward.remote_url": ("mars_env",),  # no reward model; this address is never used
    "--vllm.num_engines": ("0",),  # `gpu_pools` rejects it; OpenRLHF would compare None
}

PASSED_ON: Final = (
    "actor.num_*", "actor.gradient_checkpointing_reentrant", "ref.*", "vllm.*", "ds.[!l]*", "ckpt.[!b]*",
    "train.colocate_*", "train.micro_batch_size", "train.dynamic_batch_enable",
    "train.partial_rollout_enable", "train.full_determinism_enable", "rollout.micro_batch_size",
    "rollout.max_tokens_per_gpu", "data.disable_fast_tokenizer", "data.dataloader_num_workers",
)  # fmt: skip
"""OpenRLHF's flags of place, memory and speed, as patterns: what else it has is a setting of the file, or
would change the objective. LoRA (``ds.lora``) fails with vLLM in OpenRLHF 0.11.2 (its issue 1349). Its
evaluations, and so its best checkpoint (``ckpt.best_metric_key``), are not used."""

COUNTS: Final = ("*.num_*", "*_size", "*.max_tokens_per_gpu")
"""Flags that must be at least 1, as patterns: OpenRLHF would divide by zero, or do nothing."""


class Translation(NamedTuple):
    """A flag that a setting decides; without values (None) the flag stays out."""

    flag: str
    setting: str
    values: tuple[Any, ...] | None


def policies_of(settings: RunSettings) -> dict[str, str]:
    """The checkpoints of the policies, by name."""
    names = training_game(settings).rules.possible_agents
    return dict(checkpoints_of(settings.team, names).values())


def complete_flags(settings: RunSettings) -> Flags:
    """All flags of OpenRLHF for a run; a `ConfigError` has a line for each that cannot be.

    Example:
        >>> flags = complete_flags(RunSettings(
        ...     environment={"id": "arithmetic-solve-verify-correct"}, team={"model": "Qwen/Qwen3-0.6B"},
        ...     out="run", rollouts={"group": 4, "branches": 1}))
        >>> flags["--rollout.n_samples_per_prompt"], flags["--actor.adam.lr"]
        (['20'], ['1e-06'])
    """
    own = flags_of(settings.openrlhf)
    wrong = list(_untranslatable(settings))
    translations = [] if wrong else list(_translations(settings, own))
    decided = {translation.flag: translation.setting for translation in translations}
    for flag, values in own.items():
        if reason := _rejection(flag, values, decided):
            wrong.append(f"openrlhf.{flag[2:]}: {reason}")
    if wrong:
        raise ConfigError("\n".join(wrong))
    flags = {flag: list(values) for flag, values in _DEFAULTS.items()}
    flags |= {t.flag: [str(value) for value in t.values] for t in translations if t.values is not None}
    return flags | own


def _rejection(flag: str, values: Sequence[str], decided: Mapping[str, str]) -> str:
    if flag in decided:
        return f"leave it out, it is {decided[flag]}"
    if not _matches(flag, PASSED_ON):
        return "leave it out, it is no flag of place, memory or speed; this file's own settings say the rest"
    if _matches(flag, COUNTS) and any(value.startswith("-") or value == "0" for value in values):
        return f"it must be at least 1, got {', '.join(values)}"
    return ""


def _matches(flag: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(flag[2:], pattern) for pattern in patterns)


def _translations(settings: RunSettings, own: Flags) -> Iterator[Translation]:
    yield from _model(settings)
    yield from _optimiser(settings)
    yield from _loss(settings.train)
    yield from _rollouts(settings, own)
    out = Path(settings.out or "").absolute()
    yield Translation("--ckpt.path", "out", (out / "checkpoints",))
    yield Translation("--ckpt.output_dir", "out", (out / "model",))
    yield Translation("--ckpt.save_steps", "checkpoint_every", (settings.checkpoint_every,))
    yield Translation("--ckpt.load_enable", "out", ())


def _model(settings: RunSettings) -> Iterator[Translation]:
    policies, engine, train = policies_of(settings), settings.engine, settings.train
    recomputes = train.gradient_checkpointing
    [first, *others] = policies.values()
    yield Translation("--actor.model_name_or_path", "team.model", None if others else (_existing(first),))
    yield Translation("--data.max_len", "engine.context", (engine.context or _context(first),))
    for name, values in flags_of(engine.arguments, "--vllm.").items():
        yield Translation(name, f"engine.arguments.{name.removeprefix('--vllm.')}", tuple(values))
    for flag, setting, is_on in (
        ("--actor.gradient_checkpointing_enable", "train.gradient_checkpointing", recomputes),
        ("--ds.adam_offload", "train.offload", train.offload),
        ("--train.async_enable", "pipeline.staleness", settings.pipeline.staleness > 0),
    ):
        yield Translation(flag, setting, () if is_on else None)
    if settings.segment_tokens is not None:  # a segment continues without reading its prompt again
        yield Translation("--vllm.enable_prefix_caching", "segment_tokens", ())


def _optimiser(settings: RunSettings) -> Iterator[Translation]:
    train, seed = settings.train, settings.seed
    warmup = max(0.0, train.warmup_updates - 0.5) / scheduled_steps(settings)  # OpenRLHF rounds up
    yield Translation("--actor.adam.lr", "train.learning_rate", (train.learning_rate,))
    yield Translation("--actor.lr_scheduler", "train.warmup_updates", ("constant_with_warmup",))
    yield Translation("--actor.lr_warmup_ratio", "train.warmup_updates", (warmup,))
    yield Translation("--actor.adam.betas", "train.betas", train.betas)
    yield Translation("--actor.adam.weight_decay", "train.weight_decay", (train.weight_decay,))
    yield Translation("--actor.max_norm", "train.max_grad_norm", (train.max_grad_norm,))
    yield Translation("--train.max_epochs", "train.epochs", (train.epochs,))
    yield Translation("--train.max_tokens_per_gpu", "train.token_budget", (train.token_budget,))
    yield Translation("--train.seed", "seed", (seed,))


def _loss(train: TrainConfig) -> Iterator[Translation]:
    loss, kl = "gspo" if train.ratio == "sequence" else "ppo", train.kl_coefficient
    yield Translation("--algo.advantage.estimator", "train.advantage", ("reinforce",))
    yield Translation("--actor.policy_loss_type", "train.ratio", (loss,))
    yield Translation("--actor.loss_agg_mode", "train.aggregation", (_AGGREGATIONS[train.mean],))
    yield Translation("--actor.eps_clip", "train.clip_low", None)
    yield Translation("--actor.eps_clip_low_high", "train.clip_low and train.clip_high", train.clip)
    yield Translation("--algo.kl.init_coef", "train.kl_coefficient", (kl,))
    yield Translation("--algo.kl.use_loss", "train.kl_coefficient", () if kl else None)


def _rollouts(settings: RunSettings, own: Flags) -> Iterator[Translation]:
    sampling = settings.sampling
    yield Translation("--rollout.batch_size", "problems_per_step", (settings.problems_per_step,))
    rows = rows_per_tree(training_game(settings), settings.rollouts)
    yield Translation("--rollout.n_samples_per_prompt", "rollouts.group and rollouts.branches", (rows,))
    yield Translation("--train.batch_size", "train.minibatches", (_batch_size(settings, own),))
    yield Translation("--rollout.max_new_tokens", "sampling.max_tokens", (sampling.max_tokens,))
    yield Translation("--rollout.temperature", "sampling.temperature", (sampling.temperature,))
    yield Translation("--rollout.top_p", "sampling.top_p", (sampling.top_p,))


def scheduled_steps(settings: RunSettings) -> int:
    """Most optimizer steps of a run."""
    return settings.steps * settings.train.minibatches * settings.train.epochs


def _batch_size(settings: RunSettings, own: Flags) -> int:
    """Rows of an optimizer step, at most: those of the largest update in so many minibatches."""

    def number(flag: str, default: int) -> int:
        with explained(ConfigError, f"openrlhf.{flag[2:]} takes a number", ValueError, IndexError):
            return int(own.get(flag, [str(default)])[0])

    gpus = number("--actor.num_nodes", 1) * number("--actor.num_gpus_per_node", 8)
    ranks = max(1, gpus // number("--ds.ring_attn_size", 1) // number("--ds.tensor_parallel_size", 1))
    micro = math.lcm(number("--rollout.micro_batch_size", 1), number("--train.micro_batch_size", 1))
    unit = ranks * (1 if "--train.dynamic_batch_enable" in own else micro)
    return math.ceil(most_rows(settings) / settings.train.minibatches / unit) * unit


def _context(checkpoint: str) -> int:
    try:
        context = architecture_of(checkpoint).context
    except ConfigError:
        context = None
    if context is None:
        raise ConfigError(f"the context of {checkpoint} is not known: set engine.context")
    return context


def _existing(path: str) -> str:
    return str(Path(path).absolute()) if Path(path).exists() else path


def _untranslatable(settings: RunSettings) -> Iterator[str]:
    train, team, plain = settings.train, settings.team, TrainConfig()
    if settings.out is None:
        yield "say where checkpoints and metrics go: out, a folder that all nodes can read"
    if team.lora is not None:
        yield "leave team.lora out: LoRA with vLLM fails in OpenRLHF 0.11.2 (its issue 1349)"
    if settings.engine.name == "hf":
        yield "leave engine.name out: OpenRLHF samples with vLLM alone"
    if settings.samplers is not None:
        yield "leave samplers out: OpenRLHF places its own engines, by openrlhf.vllm.num_engines"
    for name in ("shared_prefixes", "most_logits", "autocast"):
        if getattr(train, name) != getattr(plain, name):
            yield f"leave train.{name} out: OpenRLHF has no such thing, and always computes in bfloat16"
    try:
        require_trainable(settings.sampling)
    except ConfigError as error:
        yield f"sampling: {error}"


def require_supported(settings: RunSettings, args: SimpleNamespace) -> None:
    """A line of ConfigError for each setting that would fail later, or do something wrong silently."""
    if wrong := list(_unsupported(settings, args)):
        raise ConfigError("\n".join(wrong))


def _unsupported(settings: RunSettings, args: SimpleNamespace) -> Iterator[str]:
    train, game = settings.train, training_game(settings)
    agents = game.rules.possible_agents
    try:
        require_groups(game, settings)
        require_roles(train, agents)
    except ConfigError as error:
        yield str(error)
    frozen = {role_of(agent) for agent in agents if is_frozen(settings.team, agent)}
    if clash := frozen.intersection(train.train_roles or ()):
        yield f"others play {', '.join(sorted(clash))}: leave that out of train.train_roles or team.others"
    if args.vllm.enable_sleep and settings.pipeline.staleness > 0:
        yield "engines that sleep while the policy is trained roll nothing out: set pipeline.staleness to 0"
    if train.overlong is not None and train.overlong.limit != settings.sampling.max_tokens:
        yield f"train.overlong.limit is {train.overlong.limit}: make sampling.max_tokens equal"
