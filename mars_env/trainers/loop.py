"""The training loop: a batch, an update, new weights for the models. All algorithms share it.

    problems ──> rollouts ──> groups, so many versions old ──> LocalTrainer.step ──> new weights
                    ^                                                                    │
                    └───────────────────────────── refresh ──────────────────────────────┘

`train` assembles a run, `fit` is the loop. Batches come from a source: `rollouts` (MarsRL's groups of
outputs for one input, or MARS2's trees), SPELL's trees with memory, PromptCoT's texts, or an async generator
of your own.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mars_env.checks import require_integer
from mars_env.envs import Game
from mars_env.envs.contexts import require_room
from mars_env.errors import ConfigError
from mars_env.loggers import Logger
from mars_env.models.preflight import preflight
from mars_env.problems import ProblemSet
from mars_env.rollout import UpdateBatch
from mars_env.sync import maybe_await
from mars_env.text import logger as logger_of
from mars_env.text import shown
from mars_env.trainers.checkpoints import run_identity
from mars_env.trainers.checks import check_run, require_steps, sampled_elsewhere
from mars_env.trainers.config import TrainConfig
from mars_env.trainers.local import LocalTrainer, Policy
from mars_env.trainers.metrics import StepMetrics, batch_metrics
from mars_env.trainers.recipes import RunSettings, checked
from mars_env.trainers.rollouts import rollouts
from mars_env.trainers.samplers import Samplers
from mars_env.trainers.team import Refresh, Team
from mars_env.types import Completion, TrainingAgent

log = logger_of(__name__)


@dataclass(frozen=True, slots=True)
class Texts:
    """A batch of given completions to imitate, by policy; empty: a step without an update.

    Attributes:
        completions: By policy; see `LocalTrainer.imitate`.
        metrics: What its source measured, for the loggers.
    """

    completions: Mapping[str, Sequence[Completion]]
    metrics: Mapping[str, float] = field(default_factory=dict)


Batches = Callable[[int], AsyncGenerator[UpdateBatch | Texts]]
"""Makes the batches of all further updates, from the number of updates done before."""


async def train(
    game: Game,
    team: Team,
    problems: ProblemSet,
    settings: RunSettings,
    *,
    directory: str | Path | None = None,
    checkpoint_every: int = 10,
    loggers: Sequence[Logger] = (),
) -> list[StepMetrics]:
    """Train a team until `settings.steps` updates are done.

    With ``pipeline.staleness=0`` rollouts and updates alternate, and on a CPU a run that was killed and
    resumed ends with bitwise the same weights as an uninterrupted one. With a higher value, rollouts of later
    steps continue during an update. No turn is trained that is older than the bound, none is trained twice,
    and dropped turns are counted.

    Args:
        game: The environment's game: ``make("...", schedule="training").game``.
        team: Who plays and what is trained (`mars_env.trainers.make_team`).
        problems: Training problems.
        settings: Everything else: `MARSRL`, `MARS2`, or your own.
        directory: For checkpoints of all policies. The same call continues from the newest one; a call with
            another game, other agents or problems, or another reference is rejected. Trees that were under
            way when the run stopped are played again, by the policy of the checkpoint.
        checkpoint_every: Updates between two checkpoints; the last update always gets one.
        loggers: Get the metrics of every update.

    Returns:
        The metrics of the updates that this call made.

    Raises:
        ConfigError: Team, game and settings do not fit together, a role that is trained has no reward, an
            agent can get prompts that leave less room than its limit in the model's context, or a server
            rejects an agent or gives no log-probabilities of one that is trained.
        ModelError: A server of an agent cannot be reached, or as many trees in a row as a step has could not
            be played. The same call continues from the newest checkpoint.
    """
    listed = () if getattr(problems, "generated", False) else problems
    if bare := next((problem for problem in listed if not game.can_grade(problem)), None):
        raise ConfigError(f"the problem {shown(bare.id)} has no reference: leave it out or change the grader")
    trained = check_run(game, team, settings)
    settings = checked(settings)
    await preflight(team.agents, game, trained)
    await require_room(game.rules, team.agents, problems)
    also = {"made_by": team.made_by, "max_turns": game.rules.max_turns, "problems": problems.content_hash()}
    return await fit(
        trainer_of(game, team, settings, settings.train, also),
        lambda done: rollouts(game, team, problems, settings, done=done, directory=directory),
        settings.steps,
        refresh=team.refresh,
        directory=directory,
        checkpoint_every=checkpoint_every,
        loggers=loggers,
    )


def trainer_of(
    game: Game, team: Team, settings: RunSettings, config: TrainConfig, also: Mapping[str, Any]
) -> LocalTrainer:
    """The trainer of a run; no other run continues from its checkpoints.

    `config` are the settings of the update, corrected where another engine or precision samples; `also` is
    what else the run depends on, as plain data.
    """
    scaffolds = any(isinstance(agent, TrainingAgent) for agent in team.agents.values())
    if not scaffolds and (apart := sampled_elsewhere(team, config)):
        config = config.corrected(settings.pipeline.staleness)
        log.info(
            "%s sampled by another engine or precision than trains: old_logprobs=%s, tis_cap=%s",
            ", ".join(apart), config.denominator(settings.pipeline.staleness), config.tis_cap,
        )  # fmt: skip
    return LocalTrainer(
        team.policies,
        config.model_copy(update={"seed": settings.seed}),
        run={
            **settings.model_dump(mode="json", exclude={"seed", "steps", "train"}),
            **also,
            **run_identity(game, team, settings.steps),
        },
        max_staleness=settings.pipeline.staleness,
        frozen=team.frozen,
    )


async def fit(
    trainer: LocalTrainer,
    batches: Batches,
    steps: int,
    *,
    refresh: Refresh | None = None,
    directory: str | Path | None = None,
    checkpoint_every: int = 10,
    loggers: Sequence[Logger] = (),
) -> list[StepMetrics]:
    """The loop: wait for a batch, update, refresh the models, log, save, until `steps` updates are done.

    With a directory, the newest complete checkpoint in it is loaded first, if it is ahead of the trainer. The
    update and a synchronous `refresh` run in a thread, so rollouts can continue meanwhile.

    Args:
        trainer: What is trained.
        batches: The source of the batches.
        steps: Updates in all, those of earlier runs included.
        refresh: Called before the first batch is asked for and after every update.
        directory: For checkpoints; None: none are written.
        checkpoint_every: Updates between two checkpoints; the last update always gets one.
        loggers: Get the metrics of every update: the trainer's, ``seconds/waited`` (for the batch), and
            ``pipeline/age`` (mean of its groups, in versions), ``pipeline/oldest`` and ``pipeline/dropped``
            (turns), or what the source of texts measured; and what `refresh` gives.

    Returns:
        The metrics of the updates that this call made; fewer than asked for only if the batches end.

    Raises:
        ConfigError: More updates than `steps` are done already.
    """
    require_integer(checkpoint_every, "checkpoint_every")
    if directory is not None:
        trainer.resume(directory)
    require_steps(trainer.steps, steps, directory)
    history: list[StepMetrics] = []
    try:
        for logger in loggers:
            logger.start(trainer.steps)
        await _refresh(refresh, trainer.policies)
        if trainer.steps >= steps:
            return history
        async with aclosing(batches(trainer.steps)) as due:
            began = time.perf_counter()
            async for batch in due:
                waited = time.perf_counter() - began
                if isinstance(refresh, Samplers):
                    await asyncio.to_thread(refresh.sleep)
                metrics = await asyncio.to_thread(_update, trainer, batch)
                refreshed = await _refresh(refresh, trainer.policies)
                history.append(metrics)
                own = batch.metrics if isinstance(batch, Texts) else batch_metrics(batch)
                values = {"seconds/waited": waited, **own, **metrics.flat(), **refreshed}
                for logger in loggers:
                    logger.log(metrics.step, values)
                if trainer.steps == steps:
                    break
                if directory is not None and trainer.steps % checkpoint_every == 0:
                    trainer.save(directory)
                began = time.perf_counter()
            unsaved = trainer.steps == steps or trainer.steps % checkpoint_every  # the batches may end early
            if directory is not None and history and unsaved:
                trainer.save(directory)
    finally:
        for logger in loggers:
            logger.close()
    return history


def _update(trainer: LocalTrainer, batch: UpdateBatch | Texts) -> StepMetrics:
    return trainer.imitate(batch.completions) if isinstance(batch, Texts) else trainer.step(batch.groups)


async def _refresh(refresh: Refresh | None, policies: Mapping[str, Policy]) -> Mapping[str, float]:
    """Refresh the models in a thread, since an in-process engine may have to finish a batch first."""
    if refresh is None:
        return {}
    return await maybe_await(await asyncio.to_thread(refresh, policies)) or {}
