"""MarsRL with rollouts and training at the same time: `mars_env.rollout.pipeline`, fed to the local trainer.

environment + agents ──> pipeline ──> groups, so many versions old ──> LocalTrainer.step ──> new weights
        ^                                                                                      │
        └──────────────────────────────────── refresh ─────────────────────────────────────────┘
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, PositiveInt

from mars_env.envs import Game, GroupedSettings, grouped
from mars_env.envs.contexts import require_room
from mars_env.errors import ConfigError
from mars_env.problems import ProblemSet
from mars_env.rollout import Job
from mars_env.rollout.groups import step_jobs
from mars_env.rollout.pipeline import PipelineSettings, UpdateBatch, pipeline
from mars_env.rollout.slots import Slots
from mars_env.sync import maybe_await
from mars_env.trainers.config import TrainConfig
from mars_env.trainers.local import LocalTrainer, Policy, Refresh
from mars_env.trainers.metrics import Logger, StepMetrics
from mars_env.types import Agent

LEDGER = "trained.jsonl"
"""Beside the checkpoints: which groups each update has trained, so that none is trained twice."""


class PipelinedSettings(BaseModel):
    """Everything that a run depends on, besides environment, agents and weights.

    Example:
        >>> PipelinedSettings(pipeline=PipelineSettings(groups_per_update=1152, max_staleness=2)).steps
        100
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    seed: int = 0
    """Of problems, rollouts and minibatches."""
    steps: PositiveInt = 100
    """Number of updates, fixed beforehand."""
    problems_per_step: PositiveInt = 128
    """Problems drawn together, without replacement."""
    rollouts: GroupedSettings | None = GroupedSettings()
    """Group size, branches and their sampling; None leaves the trees to the game's own grower (a search)."""
    pipeline: PipelineSettings = PipelineSettings()
    """How rollouts and training overlap."""
    train: TrainConfig = Field(default_factory=TrainConfig)
    """Optimiser, loss and advantages. Unless it says otherwise, stale samples are corrected: the ratio is
    taken to the policy that sampled them (`TrainConfig.denominator`)."""


async def train(
    game: Game,
    agents: Mapping[str, Agent],
    problems: ProblemSet,
    policies: Mapping[str, Policy],
    settings: PipelinedSettings,
    *,
    refresh: Refresh | None = None,
    slots: Slots | None = None,
    directory: str | Path | None = None,
    checkpoint_every: int = 10,
    loggers: Sequence[Logger] = (),
    run: Mapping[str, Any] | None = None,
) -> list[StepMetrics]:
    """Train a team while it plays on, until `settings.steps` updates are done.

    With ``PipelineSettings(max_staleness=0)`` it is synchronous, and ends in the same weights as
    `mars_env.trainers.marsrl.train`. Otherwise the rollouts' models must have weights of their own, which
    `refresh` brings up to date: ``lambda p: hf.refresh(p["mars"].model, version=p["mars"].version)``, say.
    The update and a sync `refresh` run in a thread of their own.

    Loggers get, besides a step's figures: ``seconds/waited`` (the trainer's idle time), ``pipeline/age``
    (mean of the groups, in versions), ``pipeline/oldest``, ``pipeline/dropped`` (turns).

    Args:
        game: The environment's game, e.g. ``make("...", schedule="training").game``.
        agents: Who plays, by agent name; their `policy` names the weights that are trained.
        problems: Training problems.
        policies: The weights, by name.
        settings: Everything else.
        refresh: Tells the agents' models of new weights after each update.
        slots: The engine's slots, as the agents' `SegmentedModel` holds them.
        directory: Of checkpoints. The same call goes on from the newest one: no group that it has trained is
            trained again. What was under way is played again, by the policy of the checkpoint.
        checkpoint_every: Updates between two checkpoints.
        loggers: Take the figures of every update.
        run: What else a run that goes on from a checkpoint must have in common with it, as plain data.

    Returns:
        The figures of the updates that this call did; fewer than `settings.steps` only if the problems end.

    Raises:
        ConfigError: An agent samples from the very weights that are trained meanwhile, or can be given
            prompts that leave less room than its limit in the model's context.
    """
    require_room(game.rules, agents, problems)
    trainer = LocalTrainer(
        policies,
        settings.train.model_copy(update={"seed": settings.seed}),
        run={
            **settings.model_dump(mode="json", include={"problems_per_step", "rollouts", "pipeline"}),
            **(run or {}),
        },
        max_staleness=settings.pipeline.max_staleness,
    )
    if settings.pipeline.max_staleness:
        _refuse_shared_weights(agents, policies)
    history: list[StepMetrics] = []
    if directory is not None:
        trainer.resume(directory)
    ledger = _Ledger.of(directory, trainer.steps)
    batches = pipeline(
        game if settings.rollouts is None else replace(game, grower=grouped(settings.rollouts)),
        agents,
        _steps(problems, settings, trainer.steps, ledger.trees),
        settings.pipeline,
        seed=settings.seed,
        version=trainer.steps,
        policy_version=lambda name: policies[name].version if name in policies else None,
        slots=slots,
        trained=ledger.groups,
    )
    try:
        for logger in loggers:
            logger.start(trainer.steps)
        await _tell(refresh, policies)
        if trainer.steps >= settings.steps:
            return history
        async with aclosing(batches) as due:
            began = time.perf_counter()
            async for batch in due:
                waited = time.perf_counter() - began
                metrics = await asyncio.to_thread(trainer.step, batch.groups)
                await _tell(refresh, policies)
                ledger.note(trainer.steps, batch)
                history.append(metrics)
                for logger in loggers:
                    logger.log(metrics.step, {**_figures(batch, waited), **metrics.flat()})
                last = trainer.steps == settings.steps
                if directory is not None and (last or trainer.steps % checkpoint_every == 0):
                    trainer.save(directory)
                if last:
                    break
                began = time.perf_counter()
    finally:
        for logger in loggers:
            logger.close()
    return history


def _steps(
    problems: ProblemSet, settings: PipelinedSettings, done: int, trees: frozenset[str]
) -> Iterator[list[Job]]:
    """The jobs that are left: whole steps where an update trains one, else all trees not wholly trained."""
    by_step = settings.pipeline.groups_per_update is None
    for step in range(done, settings.steps) if by_step else itertools.count():
        jobs = step_jobs(
            problems, step=step, problems_per_step=settings.problems_per_step, seed=settings.seed
        )
        yield [job for job in jobs if job.tree not in trees]


async def _tell(refresh: Refresh | None, policies: Mapping[str, Policy]) -> None:
    """Refresh in a thread: an in-process engine may have to finish a batch first."""
    if refresh is not None:
        await maybe_await(await asyncio.to_thread(refresh, policies))


def _figures(batch: UpdateBatch, waited: float) -> dict[str, float]:
    return {
        "seconds/waited": waited,
        "pipeline/age": sum(batch.ages) / max(1, len(batch.ages)),
        "pipeline/oldest": float(max(batch.ages, default=0)),
        "pipeline/dropped": float(batch.dropped),
    }


def _refuse_shared_weights(agents: Mapping[str, Agent], policies: Mapping[str, Policy]) -> None:
    """An update in the middle of a sample would be neither the old policy nor the new one."""
    trained = {id(policy.model): name for name, policy in policies.items()}
    for agent_name, agent in agents.items():
        inner: object = agent
        while (inner := getattr(inner, "model", None) or getattr(inner, "_model", None)) is not None:
            if id(getattr(inner, "module", None)) in trained:
                raise ConfigError(
                    f"{agent_name} samples from the weights that are trained meanwhile: give its model a "
                    "copy of them, and a `refresh` that brings it up to date; or set max_staleness to 0"
                )


@dataclass(frozen=True, slots=True)
class _Ledger:
    """What has been trained, on disk: a line an update."""

    path: Path | None
    groups: frozenset[str] = field(default_factory=frozenset)
    trees: frozenset[str] = field(default_factory=frozenset)

    @classmethod
    def of(cls, directory: str | Path | None, steps: int) -> _Ledger:
        """What the first `steps` updates trained; later lines are cut off, for their weights are lost."""
        if directory is None:
            return cls(None)
        path, kept = Path(directory) / LEDGER, ""
        groups: list[str] = []
        trees: list[str] = []
        for line in path.read_text(encoding="utf-8").splitlines(keepends=True) if path.exists() else ():
            row = _row(line)
            if row is None or row["step"] > steps:
                break
            kept += line
            groups += row["groups"]
            trees += row["trees"]
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(LEDGER + ".draft")
        draft.write_text(kept, encoding="utf-8")
        draft.replace(path)
        return cls(path, frozenset(groups), frozenset(trees))

    def note(self, step: int, batch: UpdateBatch) -> None:
        """Keep what an update has trained, before its checkpoint is written."""
        if self.path is None:
            return
        row = {"step": step, "groups": [group.id for group in batch.groups], "trees": batch.trees}
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
            file.flush()
            os.fsync(file.fileno())


def _row(line: str) -> dict[str, Any] | None:
    """A line of the ledger; None if a kill has torn it."""
    try:
        row = json.loads(line)
    except ValueError:  # its update came after the newest checkpoint, or it would be whole
        return None
    return row if isinstance(row, dict) else None
