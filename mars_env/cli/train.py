"""`mars-env train`: MarsRL, or MARS2 where the rules are a tree search, with the local trainer."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import typer
from pydantic import BaseModel, ValidationError

from mars_env.api import make
from mars_env.cli.options import pairs, settings
from mars_env.envs import MarsEnv, cast, spec
from mars_env.envs.registry import rules_spec
from mars_env.errors import ConfigError
from mars_env.lazy import resolve
from mars_env.sync import run_sync
from mars_env.types import Sampling

if TYPE_CHECKING:
    from mars_env.agents.hf import HFModel

Settings = TypeVar("Settings", bound=BaseModel)


def train(
    env_id: Annotated[
        str,
        typer.Argument(
            help="E.g. aime-solve-verify-correct (MarsRL), programs-tree-search (MARS2), or "
            "my_module:my-set-my-rules."
        ),
    ],
    model: Annotated[
        list[str],
        typer.Option(
            help="Checkpoint to train, a path or a Hugging Face name; in a search repeatable, one an agent."
        ),
    ],
    out: Annotated[Path, typer.Option(help="Checkpoints and metrics; resumes what is there.")],
    agents: Annotated[
        int | None,
        typer.Option(help="Agents of a search, by default as many as models; more share one model.", min=1),
    ] = None,
    lora: Annotated[
        int | None,
        typer.Option(help="Train adapters of this rank on one model, one for each agent of a search.", min=1),
    ] = None,
    max_tokens: Annotated[int, typer.Option(help="Limit of one completion.", min=1)] = Sampling().max_tokens,
    overflow: Annotated[
        Literal["check", "unknown", "refuse"],
        typer.Option(help="Where the model's context is too small: docs/faults.md says what each does."),
    ] = "check",
    team: Annotated[
        str | None,
        typer.Option(help="my_module:my_team, a function of a model that gives agents by role."),
    ] = None,
    problems: Annotated[str | None, typer.Option(help="Other problems: a set's name or a file.")] = None,
    config: Annotated[
        Path | None, typer.Option(help="Settings (MarsRLSettings or MARS2Settings) as TOML.")
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(help="One setting, e.g. steps=50, train.learning_rate=1e-5, pipeline.max_staleness=1."),
    ] = None,
    reward: Annotated[list[str] | None, typer.Option(help="role=my_module:my_reward; repeatable.")] = None,
    team_reward: Annotated[str | None, typer.Option(help="my_module:my_team_reward.")] = None,
    grader: Annotated[str | None, typer.Option(help="my_module:my_grader.")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="Setting of the rules, name=value, e.g. nodes=8.")
    ] = None,
    checkpoint_every: Annotated[int, typer.Option(help="Steps between two checkpoints.", min=1)] = 10,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Metrics for TensorBoard too.")] = False,
) -> None:
    """Train one model shared by all roles with MarsRL, or the models of a tree search with MARS2.

    Checkpoints are ordinary ones; the same call goes on from the newest.
    """
    from mars_env.trainers.metrics import ConsoleLogger, JsonlLogger, Logger, TensorBoardLogger

    rules = rules_spec(spec(env_id).rules)
    if "agents" in rules.parameters:
        number: dict[str, int] = {"agents": agents or len(model)}
    elif agents or lora or len(model) > 1:
        raise ConfigError(
            "MarsRL trains one model, shared by all roles: --agents, --lora and several --model are for a "
            "tree search"
        )
    else:
        number = {}
    env = make(
        env_id,
        problems=problems,
        rewards=pairs(reward or [], "--reward"),
        team_reward=team_reward,
        grader=grader,
        **{**rules.training, **number, **settings(set_ or [])},
    )
    told = _overridden(tomllib.loads(config.read_text(encoding="utf-8")) if config else {}, option or [])
    sampling = Sampling(max_tokens=max_tokens, overflow=overflow)
    if env.game.evidence is not None and env.game.evidence.searched:
        trained = _mars2(env, model, told, sampling, team, lora)
    else:
        trained = _marsrl(env, model[0], told, sampling, team)
    out.mkdir(parents=True, exist_ok=True)
    loggers: list[Logger] = [ConsoleLogger(), JsonlLogger(out / "metrics.jsonl")]
    if tensorboard:
        loggers.append(TensorBoardLogger(out / "tensorboard"))
    run_sync(trained(directory=out, checkpoint_every=checkpoint_every, loggers=loggers))


def _marsrl(
    env: MarsEnv, model: str, told: Mapping[str, Any], sampling: Sampling, team: str | None
) -> Callable[..., Coroutine[Any, Any, object]]:
    """One model for all roles, in grouped agentic rollouts."""
    from mars_env.agents import as_agent
    from mars_env.agents.hf import HFModel  # these bring torch
    from mars_env.trainers.local import Policy
    from mars_env.trainers.marsrl import MarsRLSettings, train

    run_settings = _validated(MarsRLSettings, told)
    hf = HFModel(model, dtype="float32", name="policy")
    if team is None:
        agents = {name: as_agent(hf, name, sampling=sampling) for name in env.possible_agents}
    else:
        agents = cast(env.game.rules, resolve(team)(hf))
    names = sorted({agent.policy for agent in agents.values()})
    if len(names) != 1:
        raise ConfigError(f"the agents share one model, so they must share one policy name, got {names}")
    policy = names[0]
    return partial(
        train,
        env.game,
        agents,
        env.problems,
        {policy: Policy(hf.module, hf.tokenizer)},
        run_settings,
        refresh=lambda trained: hf.refresh(version=trained[policy].version),
    )


def _mars2(
    env: MarsEnv,
    models: Sequence[str],
    told: Mapping[str, Any],
    sampling: Sampling,
    team: str | None,
    lora: int | None,
) -> Callable[..., Coroutine[Any, Any, object]]:
    """One model for all agents of a search, one for each, or an adapter for each."""
    from mars_env.trainers import mars2  # brings torch

    names = env.possible_agents
    if len(models) not in (1, len(names)) or (lora and len(models) > 1):
        raise ConfigError(
            f"{len(names)} agents take one --model that they share, or with --lora one as the base of their "
            f"adapters, or {len(names)}, one for each; got {len(models)}"
        )
    apart = len(names) > 1 and bool(lora or len(models) > 1)
    stage = "heterogeneous" if apart else "homogeneous" if len(names) > 1 else "single"
    # The penalty must be for the agents' own limit; one that is short has no room for the paper's buffer.
    overlong = {"limit": sampling.max_tokens, "buffer": min(2048, (sampling.max_tokens + 1) // 2)}
    base = {"stage": stage, "train": {**mars2.MARS2.model_dump(mode="json"), "overlong": overlong}}
    run_settings = _validated(mars2.MARS2Settings, _merged(base, told))
    made = _models(models, names if apart else ["policy"], lora, run_settings.seed)
    agent = None if team is None else lambda name, model: cast(env.game.rules, resolve(team)(model))[name]
    players = mars2.team(run_settings, names, made, sampling=sampling, agent=agent)
    return partial(mars2.train, env.game, players, env.problems, run_settings)


def _models(paths: Sequence[str], policies: Sequence[str], lora: int | None, seed: int) -> list[HFModel]:
    """A model for each policy: checkpoints, or adapters on one."""
    from mars_env.agents.hf import HFModel

    if lora is None:
        return [HFModel(path, dtype="float32", name=name) for path, name in zip(paths, policies, strict=True)]
    from mars_env.trainers.lora import LoRASettings, add_adapters

    base = HFModel(paths[0])  # frozen, so in its own type
    adapters = add_adapters(base.module, policies, LoRASettings(rank=lora, alpha=2 * lora), seed=seed)
    return [HFModel((adapter, base.tokenizer), name=name) for name, adapter in adapters.items()]


def _validated(schema: type[Settings], told: Mapping[str, Any]) -> Settings:
    try:
        return schema.model_validate(told)
    except ValidationError as error:
        raise ConfigError(f"these settings do not fit {schema.__name__}: {error}") from error


def _merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Nested settings, those of `over` first.

    Example:
        >>> _merged({"steps": 9, "train": {"epochs": 1, "clip_low": 0.2}}, {"train": {"epochs": 2}})
        {'steps': 9, 'train': {'epochs': 2, 'clip_low': 0.2}}
    """
    result = {**base, **over}
    for name in base.keys() & over.keys():
        if isinstance(base[name], Mapping) and isinstance(over[name], Mapping):
            result[name] = _merged(base[name], over[name])
    return result


def _overridden(base: Mapping[str, Any], options: Sequence[str]) -> dict[str, Any]:
    """Settings with single ones replaced: dotted names, values read as JSON where they are.

    Raises:
        ConfigError: A dotted name leads through a setting that has no parts.

    Example:
        >>> _overridden({"steps": 9}, ["train.epochs=2", "train.ratio=token"])
        {'steps': 9, 'train': {'epochs': 2, 'ratio': 'token'}}
    """
    result: dict[str, Any] = json.loads(json.dumps(base))
    for name, value in pairs(options, "--option").items():
        *path, last = name.split(".")
        place = result
        for key in path:
            place = place.setdefault(key, {})
            if not isinstance(place, dict):
                raise ConfigError(f"--option {name}: {key!r} is a single value, so it has no parts")
        try:
            place[last] = json.loads(value)
        except ValueError:
            place[last] = value
    return result
