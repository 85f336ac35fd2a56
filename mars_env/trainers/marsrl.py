"""MarsRL on one machine: grouped agentic rollouts of an environment, fed to the local trainer.

environment + agents ──> grouped rollouts ──> groups ──> LocalTrainer.step ──> new weights ──> agents
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, PositiveInt

from mars_env.envs import Game, GroupedSettings, grouped
from mars_env.envs.contexts import require_room
from mars_env.problems import ProblemSet
from mars_env.rollout import groups_of, rollout_step
from mars_env.trainers.config import TrainConfig
from mars_env.trainers.in_step import graded_in_step
from mars_env.trainers.local import LocalTrainer, Policy, Refresh, Rollout
from mars_env.trainers.metrics import Logger, StepMetrics
from mars_env.types import Agent, Group


class MarsRLSettings(BaseModel):
    """Everything that a run depends on, besides environment, agents and weights.

    The defaults are the paper's (arXiv 2511.11373): 128 problems a step, groups of 8, 2 branches.

    Example:
        >>> MarsRLSettings(steps=50).rollouts.group
        8
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    seed: int = 0
    """Of problems, rollouts and minibatches."""
    steps: PositiveInt = 100
    """Fixed beforehand: a run is never stopped because its curve looks good."""
    problems_per_step: PositiveInt = 128
    """Problems of one step, drawn without replacement."""
    concurrency: PositiveInt | None = None
    """Trees at once; None is all of a step."""
    rollouts: GroupedSettings = GroupedSettings()
    """Group size, branches and their sampling."""
    train: TrainConfig = Field(default_factory=TrainConfig)
    """Optimiser, loss and advantages."""


def rollouts(
    game: Game, agents: Mapping[str, Agent], problems: ProblemSet, settings: MarsRLSettings
) -> Rollout:
    """The groups of a step as a function of its number: what `LocalTrainer.fit` asks for."""
    training_game = graded_in_step(replace(game, grower=grouped(settings.rollouts)))

    async def rollout(step: int) -> Sequence[Group]:
        trees = await rollout_step(
            training_game,
            agents,
            problems,
            step=step,
            problems_per_step=settings.problems_per_step,
            seed=settings.seed,
            concurrency=settings.concurrency,
        )
        return groups_of(trees)

    return rollout


async def train(
    game: Game,
    agents: Mapping[str, Agent],
    problems: ProblemSet,
    policies: Mapping[str, Policy],
    settings: MarsRLSettings,
    *,
    refresh: Refresh | None = None,
    directory: str | Path | None = None,
    checkpoint_every: int = 10,
    loggers: Sequence[Logger] = (),
) -> list[StepMetrics]:
    """Train a team: roll out, update, tell the models, until `settings.steps` steps are done.

    Args:
        game: The environment's game, e.g. ``make("...", schedule="training").game``.
        agents: Who plays, by agent name; their `policy` names the weights that are trained.
        problems: Training problems.
        policies: The weights, by name.
        settings: Everything else.
        refresh: Tells the agents' models of new weights after each update.
        directory: Of checkpoints; the same call goes on from the newest one, exactly.
        checkpoint_every: Steps between two checkpoints.
        loggers: Take the figures of every step.

    Returns:
        The figures of the steps that this call did.

    Raises:
        ConfigError: An agent can be given prompts that leave less room than its limit in the model's context.
    """
    require_room(game.rules, agents, problems)
    trainer = LocalTrainer(policies, settings.train.model_copy(update={"seed": settings.seed}))
    return await trainer.fit(
        rollouts(game, agents, problems, settings),
        settings.steps,
        directory=directory,
        checkpoint_every=checkpoint_every,
        refresh=refresh,
        loggers=loggers,
    )
