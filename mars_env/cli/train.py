"""`mars-env train`: any environment with the local trainer, by the recipe that its rules name."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from pydantic import BaseModel, ValidationError

from mars_env.agents.registry import roles_of
from mars_env.api import make
from mars_env.checks import refuse_misfit
from mars_env.cli import options
from mars_env.cli.config import REST
from mars_env.cli.screen import say
from mars_env.envs import spec
from mars_env.envs.registry import rules_spec
from mars_env.envs.rules import Rules
from mars_env.errors import ConfigError
from mars_env.lazy import import_object
from mars_env.players import assign_agents, takes
from mars_env.problems.registry import held_out_by_default
from mars_env.sync import run_sync
from mars_env.text import shown, suggestion, validation_message
from mars_env.types import Agent, role_of

if TYPE_CHECKING:
    from mars_env.loggers import Logger
    from mars_env.models.hf import HFModel
    from mars_env.trainers import RunSettings

Assigned = Mapping[str, tuple[str, str]]
"""The policy's name and the checkpoint of each agent."""


def train(  # public edge: one parameter is one option of the command
    ctx: typer.Context,
    env_id: str,
    model: Annotated[list[str], typer.Option()],
    out: Annotated[Path, typer.Option()],
    agents: options.Limit = None,
    tools: str | None = None,
    lora: options.Limit = None,
    max_tokens: options.Limit = None,
    overflow: Literal["check", "unknown", "refuse"] | None = None,
    team: str | None = None,
    problems: str | None = None,
    fields: str | None = None,
    split: str | None = None,
    option: list[str] | None = None,
    reward: list[str] | None = None,
    team_reward: str | None = None,
    grader: str | None = None,
    set_: options.Settings = None,
    checkpoint_every: options.Count = 10,
    engine: str = "hf",
    tensorboard: Annotated[bool, typer.Option("--tensorboard")] = False,
    trackio: str | None = None,
    wandb: str | None = None,
    dry_run: options.DryRun = False,
    gpu_memory: Annotated[float, typer.Option(min=0)] = 80,
) -> None:
    """Train a team: one model shared by all roles, one for each, or adapters.

    The settings start from the recipe of the environment's rules: MARSRL, or MARS2 for a tree search.
    Checkpoints are ordinary ones; the same command continues from the newest. The file of --config holds
    options of the command, and settings of `RunSettings`.

    Args:
        env_id: E.g. aime-solve-verify-correct (MarsRL), programs-tree-search (MARS2), or
            my_module:my-set-my-rules.
        model: Checkpoint to train, a path or a Hugging Face name: one for all agents, one for each, or by
            name as in solver=first and verifier,corrector=second.
        out: Directory of checkpoints and metrics; an existing training is resumed.
        agents: Agents of a search, by default as many as models; more share one model.
        overflow: What to do where the model's context is too small, by default check (docs/faults.md).
        option: One setting, e.g. steps=50, train.learning_rate=1e-5, pipeline.staleness=1,
            segment_tokens=4096, train.dmmpt_threshold=0.99, train.tis_cap=2.
        checkpoint_every: Steps between two checkpoints.
        engine: What samples: hf, the trained model itself; or vllm, in this process, with its engine
            arguments as in vllm?gpu_memory_utilization=0.4.
        tensorboard: Metrics for TensorBoard too.
        trackio: Metrics for trackio too, in this project.
        wandb: Metrics for W&B too, in this project.
        dry_run: Print an estimate of the memory, and start nothing.
        gpu_memory: GiB of the GPU, for --dry-run.
    """
    from mars_env.trainers import make_team
    from mars_env.trainers import train as train_team

    env_spec = spec(env_id)
    rules = rules_spec(env_spec.rules)
    if agents and rules.team_size is None:
        raise ConfigError(f"--agents is for a tree search: the rules {env_spec.rules!r} name their agents")
    if rules.trained_by:
        function = rules.trained_by.replace(":", ".")
        raise ConfigError(f"the function {function} trains the rules {env_spec.rules!r}, not this command")
    if split is None and (held_out := held_out_by_default(name := problems or env_spec.problems)):
        raise ConfigError(f"{name} gives its split {held_out!r}, which is for evaluations: say --split train")
    number = {rules.team_size: agents or len(model)} if rules.team_size else {}
    env = make(
        env_id,
        problems=options.loaded(problems, fields, split, env_spec.problems),
        rewards=options.pairs(reward, "--reward"),
        team_reward=team_reward,
        grader=grader,
        **{**rules.training, **number, **options.settings(set_)},
    )
    given = given_settings(ctx, option, max_tokens=max_tokens, overflow=overflow)
    given |= {"tools": tools} if tools else {}
    run_settings = settings_for(env_id, given)
    assigned = assigned_checkpoints(model, env.possible_agents, apart=lora is not None)
    if dry_run:
        say(_memory(assigned, lora, run_settings, gpu_memory))
        return
    libraries = {"trackio": trackio, "wandb": wandb}
    loggers = _loggers(out, run_settings, tensorboard=tensorboard, libraries=libraries)
    players = make_team(
        run_settings,
        env.possible_agents,
        loaded_models(assigned, lora, run_settings),
        agent=team_maker(team, env.game.rules, run_settings, given),
        roles=roles_of(env.game.rules),
        engine=engine,
        problems=env.problems,
    )
    players = replace(players, made_by=team or players.made_by)
    kept: dict[str, Any] = {"directory": out, "checkpoint_every": checkpoint_every, "loggers": loggers}
    run_sync(train_team(env.game, players, env.problems, run_settings, **kept))


def _loggers(
    out: Path, settings: "RunSettings", *, tensorboard: bool, libraries: Mapping[str, str | None]
) -> "list[Logger]":
    """The console, a file, TensorBoard, and runs of other libraries in projects, named as the folder."""
    from mars_env.loggers import ConsoleLogger, JsonlLogger, RunLogger, TensorBoardLogger

    run = {"name": out.resolve().name, "config": settings.model_dump(mode="json"), "resume": "allow"}
    found: list[Logger] = [ConsoleLogger(), JsonlLogger(out / "metrics.jsonl")]
    if tensorboard:
        found.append(TensorBoardLogger(out / "tensorboard"))
    found += [RunLogger(library, project=name, **run) for library, name in libraries.items() if name]
    return found


def given_settings(
    ctx: typer.Context, values: Sequence[str] | None, **sampling: int | str | None
) -> dict[str, Any]:
    """The settings that the user gives: of the file of --config, of --option, of single options."""
    given = overridden(ctx.meta.get(REST, {}), values)
    chosen = {name: value for name, value in sampling.items() if value}
    return merged_settings(given, {"sampling": chosen} if chosen else {})


def settings_for(env_id: str, given: Mapping[str, Any]) -> "RunSettings":
    """The recipe of an environment, with what the user gives in its place."""
    from mars_env.trainers.recipes import RunSettings, recipe_of

    merged = merged_settings(recipe_of(spec(env_id)).model_dump(mode="json"), given)
    limit, train = _given(merged, "sampling").get("max_tokens"), merged["train"]
    if isinstance(limit, int) and isinstance(train, dict) and isinstance(train.get("overlong"), dict):
        # The penalty is for the agents' own limit; one that is short has no room for the paper's buffer.
        overlong = {"limit": limit, "buffer": min(2048, (limit + 1) // 2)}
        train["overlong"] = {**overlong, **_given(given, "train", "overlong")}
    try:
        return RunSettings.model_validate(merged)
    except ValidationError as error:
        wrong = validation_message(error, _names(RunSettings))
        raise ConfigError(f"these settings do not fit a training: {wrong}") from error


def assigned_checkpoints(given: Sequence[str], names: Sequence[str], *, apart: bool) -> Assigned:
    """What each agent gets of the options ``--model``; `apart` gives each agent a policy of its own.

    Example:
        >>> team = ["solver_0", "verifier_0", "corrector_0"]
        >>> assigned_checkpoints(["base"], team, apart=False)["solver_0"]
        ('policy', 'base')
        >>> assigned_checkpoints(["solver=one", "verifier,corrector=two"], team, apart=False)["corrector_0"]
        ('verifier-corrector', 'two')
    """
    known = {*names, *map(role_of, names)}
    named: dict[str, tuple[str, str]] = {}
    by_name = [_is_named(one, known) for one in given]
    if all(by_name):
        for one in given:
            who, _, path = one.partition("=")
            parts = who.split(",")
            if named.keys() & set(parts):
                raise ConfigError(f"--model names {who} again: give each agent one checkpoint")
            named |= {part: ("-".join(parts), path) for part in parts}
        if missing := [name for name in names if name not in named and role_of(name) not in named]:
            raise ConfigError(f"--model names no checkpoint for {', '.join(missing)}")
        return {name: named.get(name) or named[role_of(name)] for name in names}
    if len(given) == 1 and not (apart and len(names) > 1):
        return dict.fromkeys(names, ("policy", given[0]))
    if len(given) not in (1, len(names)) or (apart and len(given) > 1):
        own = f"one for each, or by name as in {role_of(names[0])}=PATH; got {len(given)}"
        raise ConfigError(f"{len(names)} agents take one --model (with --lora, their adapters' base), {own}")
    return {name: (name, given[i % len(given)]) for i, name in enumerate(names)}


def _is_named(given: str, known: Collection[str]) -> bool:
    """Whether a checkpoint is one such as ``solver,verifier=path``; ``solvr=path`` must be a folder."""
    who, equals, _ = given.partition("=")
    names = who.split(",")
    unknown = next((name for name in names if name not in known), None)
    if equals and unknown and all(map(str.isidentifier, names)) and not Path(given).exists():
        there = f"{', '.join(sorted(known))}{suggestion(unknown, known)}"
        raise ConfigError(f"--model {shown(given)}: there is no agent {shown(unknown)}; there are {there}")
    return bool(equals) and unknown is None


def _memory(assigned: Assigned, lora: int | None, settings: "RunSettings", gpu: float) -> str:
    """An estimate of the memory of each checkpoint that is trained."""
    from transformers import AutoConfig

    from mars_env.models.checkpoint import from_checkpoint
    from mars_env.trainers.lora import LoRASettings
    from mars_env.trainers.memory import GIB, Shape, described, estimate

    group = settings.rollouts.group if settings.rollouts else 8
    shape = Shape(settings.sampling.max_tokens // 2, settings.sampling.max_tokens, group)
    adapters = None if lora is None else LoRASettings(rank=lora, alpha=2 * lora)
    lines = [f"{shape.rows} samples at once, of prompts of {shape.prompt} tokens and {shape.sampled} sampled"]
    for path in dict.fromkeys(path for _, path in assigned.values()):
        [config] = from_checkpoint(path, AutoConfig.from_pretrained)
        found = estimate(config, settings.train, shape, lora=adapters)
        lines.append(f"{path}: {described(found, gpu * GIB)}")
    return "\n".join(lines)


def loaded_models(assigned: Assigned, lora: int | None, settings: "RunSettings") -> "dict[str, HFModel]":
    """The model of each agent: checkpoints, or adapters on one."""
    from mars_env.models.hf import HFModel

    paths = dict(assigned.values())
    dtype = "bfloat16" if settings.train.offload else "float32"
    if lora is None:
        loaded = {policy: HFModel(path, dtype=dtype, name=policy) for policy, path in paths.items()}
    else:
        from mars_env.trainers.lora import LoRASettings, add_adapters

        if len(set(paths.values())) > 1:
            raise ConfigError(f"adapters share one base: with --lora give one checkpoint, got {len(paths)}")
        base = HFModel(next(iter(paths.values())))  # frozen, so in its own type
        rank = LoRASettings(rank=lora, alpha=2 * lora)
        adapters = add_adapters(base.module, list(paths), rank, seed=settings.seed)
        loaded = {name: HFModel((adapter, base.tokenizer), name=name) for name, adapter in adapters.items()}
    return {agent: loaded[policy] for agent, (policy, _) in assigned.items()}


def team_maker(
    name: str | None, rules: Rules[Any], run_settings: "RunSettings", given: Mapping[str, Any]
) -> Callable[[str, Any], Agent] | None:
    """What makes the agents of --team; None without it. A parameter ``sampling`` gets the run's."""
    if name is None:
        return None
    function = import_object(name)
    if takes(function, "sampling"):
        function = partial(function, sampling=run_settings.sampling)
    elif ignored := _given(given, "sampling"):
        lost = f"--team {name} has no parameter sampling, and ignores sampling.{', sampling.'.join(ignored)}"
        raise ConfigError(f"{lost}: let it take (model, sampling), or leave that out here")
    refuse_misfit(function, ("model",), f"--team {name}")
    members = cache(lambda model: assign_agents(rules, function(model)))
    return lambda agent, model: members(model)[agent]


def _names(settings: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """The dotted names of settings and of those inside them."""
    for name, field in settings.model_fields.items():
        yield prefix + name
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from _names(field.annotation, f"{prefix}{name}.")


def _given(settings: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
    """A nested setting, as far as it is given."""
    for name in names:
        found = settings.get(name)
        settings = found if isinstance(found, Mapping) else {}
    return settings


def merged_settings(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Nested settings, those of `over` first."""
    result = {**base, **over}
    for name in base.keys() & over.keys():
        if isinstance(base[name], Mapping) and isinstance(over[name], Mapping):
            result[name] = merged_settings(base[name], over[name])
    return result


def overridden(base: Mapping[str, Any], values: Sequence[str] | None) -> dict[str, Any]:
    """Settings with single ones replaced: dotted names, values read as JSON where they are.

    Example:
        >>> overridden({"steps": 9}, ["train.epochs=2", "train.ratio=token"])
        {'steps': 9, 'train': {'epochs': 2, 'ratio': 'token'}}
    """
    result = dict(base)
    for name, value in options.pairs(values, "--option").items():
        setting = options.read_value(value)
        for key in reversed(name.split(".")):
            setting = {key: setting}
        result = merged_settings(result, setting)
    return result
