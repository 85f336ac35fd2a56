"""`mars_env.train`: what a run file says, or the agents of a game with what its recipe says."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mars_env.agents.registry import roles_of
from mars_env.api import Env, Problems, make_env, spec_with
from mars_env.envs.registry import find_game, spec, with_team_size
from mars_env.errors import ConfigError
from mars_env.loggers import ConsoleLogger, JsonlLogger, Logger, RunLogger, TensorBoardLogger
from mars_env.sync import run_sync
from mars_env.trainers.assembly import agents_by_name, checkpoints_of, training_game, training_problems
from mars_env.trainers.evaluation import evaluation_after
from mars_env.trainers.loop import train as train_team
from mars_env.trainers.metrics import StepMetrics
from mars_env.trainers.recipes import RunSettings, recipe_of
from mars_env.trainers.run_file import load_run
from mars_env.trainers.team import OWN, make_team, team_of

if TYPE_CHECKING:
    from mars_env.models.hf import HFModel

TINY, TINY_CONTEXT = "tiny", 16_384
"""The name of `mars_env.models.tiny_model` among checkpoints, and its context: to try a file before a run."""


def train(  # public edge: friendly keywords, each with a default
    source: "RunSettings | Path | Env",
    *,
    models: "str | HFModel | Sequence[HFModel | str] | None" = None,
    problems: Problems | None = None,
    run: RunSettings | None = None,
    out: str | Path | None = None,
    loggers: Sequence[Logger] = (),
    settings: Mapping[str, Any] | None = None,
    **more: Any,
) -> list[StepMetrics]:
    """Train, and wait for the metrics of each update.

    `mars_env.trainers.make_team` and `mars_env.trainers.train` give more control over agents and engines.

    Args:
        source: A `RunSettings` or the path of a run file, ending in ``.toml``, which say everything; or what
            `mars_env.make` takes, for which the arguments below say the rest. Settings for training are the
            game's preset ``"training"``.
        models: What is trained: an `mars_env.models.HFModel` or the path of a checkpoint for all agents, or
            one for each.
        problems: As for `mars_env.make`.
        run: Everything else; by default the recipe that the game names.
        out: Directory for checkpoints; the same call continues from the newest one.
        loggers: Get the metrics of every update.
        settings: Of the game, as for `mars_env.make`.
        **more: Likewise, by keyword.

    Raises:
        ConfigError: Game, models, problems and settings do not fit together.
    """
    if isinstance(source, Path) or (isinstance(source, str) and source.endswith(".toml")):
        source = load_run(source)
    if isinstance(source, RunSettings):
        return train_run(source, loggers)
    if models is None:
        raise ConfigError("say what is trained: models=, a checkpoint for all agents or one for each")
    listed = [models] if isinstance(models, str) or not isinstance(models, Sequence) else list(models)
    game = find_game(spec(source).game)
    if game.options.trained_by:
        raise ConfigError(
            f"{game.options.trained_by.replace(':', '.')} trains {game.name!r}, not this function"
        )
    env_spec = spec_with(train, source, {**game.training, **(settings or {}), **more})
    env_spec = with_team_size(env_spec, len(listed))
    env, run = make_env(env_spec, problems), run or recipe_of(env_spec)
    run = run if out is None else run.with_(out=str(out))
    roles, loaded = roles_of(env.game.rules), [_loaded(model) for model in listed]
    team = make_team(run, env.possible_agents, loaded, roles=roles, problems=env.problems)
    return run_sync(train_team(env.game, team, env.problems, run, loggers=loggers))


def train_run(settings: RunSettings, loggers: Sequence[Logger] = ()) -> list[StepMetrics]:
    """`train` for settings of an environment and a team."""
    if settings.out is None:
        raise ConfigError("say where checkpoints and metrics go: out, a folder")
    loggers = [*make_loggers(settings), *loggers]  # before weights are read: a library may be missing
    if settings.backend == "openrlhf":
        from mars_env.trainers.openrlhf.launch import launch

        return launch(settings, loggers)
    game, problems = training_game(settings), training_problems(settings)
    paths = dict(checkpoints_of(settings.team, game.rules.possible_agents).values())
    agents_of = partial(agents_by_name, settings, game.rules, problems=problems)
    team = team_of(settings, load_models(paths, settings), agents_of, settings.team.agents or OWN)
    evaluate = partial(evaluation_after, settings) if settings.evaluation.every else None
    return run_sync(train_team(game, team, problems, settings, loggers=loggers, evaluate=evaluate))


def load_models(paths: Mapping[str, str], settings: RunSettings) -> "dict[str, HFModel]":
    """The models of policies, from their checkpoints: whole ones, or adapters on one."""
    from mars_env.models import tiny_model
    from mars_env.models.hf import HFModel

    context = settings.engine.context
    dtype = "bfloat16" if settings.train.offload else "float32"
    if settings.team.lora is None:
        return {
            policy: tiny_model(context=context or TINY_CONTEXT, name=policy)
            if path == TINY
            else HFModel(path, dtype=dtype, name=policy, context=context)
            for policy, path in paths.items()
        }
    from mars_env.trainers.lora import add_adapters

    if len(set(paths.values())) > 1:
        raise ConfigError(f"adapters share one base: give team.model one checkpoint, not {len(paths)}")
    base = HFModel(next(iter(paths.values())))  # frozen, so in its own type
    adapters = add_adapters(base.module, list(paths), settings.team.lora, seed=settings.seed)
    return {
        name: HFModel((adapter, base.tokenizer), name=name, context=context)
        for name, adapter in adapters.items()
    }


def make_loggers(settings: RunSettings) -> list[Logger]:
    """The loggers of a run: a file, and what the settings name; their runs have the name of the folder."""
    out, table = Path(settings.out or ""), settings.logging
    run = {"name": out.resolve().name, "config": settings.model_dump(mode="json"), "resume": "allow"}
    projects = {"trackio": table.trackio, "wandb": table.wandb}
    return [
        *([ConsoleLogger()] if table.console else []),
        JsonlLogger(out / "metrics.jsonl"),
        *([TensorBoardLogger(out / "tensorboard")] if table.tensorboard else []),
        *(RunLogger(library, project=name, **run) for library, name in projects.items() if name),
    ]


def _loaded(model: "HFModel | str") -> "HFModel":
    from mars_env.models.hf import HFModel  # brings torch

    return HFModel(model, dtype="float32", name=Path(model).name) if isinstance(model, str) else model
