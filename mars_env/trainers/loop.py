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
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from mars_env.checks import require_integer
from mars_env.envs import Game
from mars_env.errors import ConfigError
from mars_env.identity import settings_identity
from mars_env.loggers import Logger
from mars_env.models.preflight import preflight
from mars_env.problems import ProblemSet
from mars_env.rollout import UpdateBatch
from mars_env.rollout.contexts import require_room
from mars_env.sync import maybe_await
from mars_env.text import brief, logger
from mars_env.trainers.checkpoints import run_identity
from mars_env.trainers.checks import check_run, is_on_policy, require_steps
from mars_env.trainers.config import TrainConfig
from mars_env.trainers.elsewhere import sampled_by
from mars_env.trainers.evaluation import Evaluate
from mars_env.trainers.local import LocalTrainer
from mars_env.trainers.metrics import StepMetrics, batch_metrics
from mars_env.trainers.recipes import RunSettings, checked
from mars_env.trainers.rollouts import rollouts
from mars_env.trainers.team import Refresh, Team
from mars_env.types import Completion, Group

log = logger(__name__)


@dataclass(frozen=True, slots=True)
class Texts:
    """A batch of given completions to imitate, by policy; empty: a step without an update.

    Attributes:
        completions: By policy; see `LocalTrainer.imitate`.
        metrics: What its source measured, for the loggers.
    """

    completions: Mapping[str, Sequence[Completion]]
    metrics: Mapping[str, float] = field(default_factory=dict)


ROLLOUTS = {"problems_per_step", "rollouts", "sampling", "segment_tokens", "pipeline"}
"""The settings of a run that its rollouts depend on, beside the seed."""


class Trainer(Protocol):
    """What the loop needs of a trainer: `LocalTrainer`, or OpenRLHF's processes."""

    steps: int

    @property
    def policies(self) -> Mapping[str, Any]:
        """What is trained, by name."""

    def step(self, groups: Sequence[Group]) -> StepMetrics:
        """Update all policies on the groups of one rollout."""

    def save(self, directory: str | Path) -> Any:
        """Write a checkpoint of all policies."""

    def resume(self, directory: str | Path) -> bool:
        """Load the newest checkpoint; whether there is one."""


Batches = Callable[[int], AsyncGenerator[UpdateBatch | Texts]]
"""Makes the batches of all further updates, from the number of updates done before."""

EvaluateAfter = Callable[[int], Awaitable[Mapping[str, float]]]
"""Gives the metrics of an evaluation after so many updates; none where none is due."""


async def train(
    game: Game,
    team: Team,
    problems: ProblemSet,
    settings: RunSettings,
    *,
    loggers: Sequence[Logger] = (),
    evaluate: Evaluate | None = None,
) -> list[StepMetrics]:
    """Train a team until `settings.steps` updates are done.

    With ``pipeline.staleness=0`` rollouts and updates alternate, and on a CPU a run that was killed and
    resumed ends with bitwise the same weights as an uninterrupted one. With a higher value, rollouts of later
    steps continue during an update; no turn is trained that is older than the bound, and none twice.

    Args:
        game: The environment's game: ``make("...", schedule="training").game``.
        team: Who plays and what is trained (`mars_env.trainers.make_team`).
        problems: Training problems.
        settings: Everything else: `MARSRL`, `MARS2`, or your own. With `out` the same call continues from the
            newest checkpoint (docs/training.md says what may change); trees that were under way are played
            again.
        loggers: Get the metrics of every update.
        evaluate: Gets the agents and the number of each update; its metrics are logged with the update's.

    Returns:
        The metrics of the updates that this call made.

    Raises:
        ConfigError: Team, game, settings and models do not fit together.
        ModelError: A server of an agent cannot be reached, or as many trees as a step has could not be
            played, and no other. The same call continues from the newest checkpoint.
        StoreError: The newest checkpoint is damaged, or of another run.
    """
    listed = () if getattr(problems, "generated", False) else problems
    if bare := next((problem for problem in listed if not game.can_grade(problem)), None):
        raise ConfigError(f"the problem {brief(bare.id)} has no reference: leave it out or change the grader")
    trained = check_run(game, team, settings)
    settings = checked(settings)
    await preflight(team.agents, game, trained)
    await require_room(game.rules, team.agents, problems, game.grader)
    also = {
        "made_by": team.made_by,
        "tools": settings.team.tools,
        "max_turns": game.rules.max_turns,
        "problems": problems.content_hash(),
    }
    trainer = trainer_of(game, team, settings, settings.train, also)
    async with sampled_by(team, settings.samplers, settings.pipeline.staleness) as players:
        return await fit(
            trainer,
            lambda done: rollouts(game, players, problems, settings, done=done, directory=settings.out),
            settings.steps,
            refresh=players.refresh,
            directory=settings.out,
            checkpoint_every=settings.checkpoint_every,
            loggers=loggers,
            evaluate=None if evaluate is None else partial(evaluate, players.agents),
        )


def trainer_of(
    game: Game, team: Team, settings: RunSettings, config: TrainConfig, also: Mapping[str, Any]
) -> LocalTrainer:
    """The trainer of a run; no other run continues from its checkpoints.

    `config` are the settings of the update; `also` is what else the run depends on, as plain data.
    """
    must_match = settings_identity(settings)["must_match"]
    return LocalTrainer(
        team.policies,
        config.model_copy(update={"seed": settings.seed}),
        run={
            **{name: value for name, value in must_match.items() if name in ROLLOUTS},
            **also,
            **run_identity(game, team, settings.steps),
        },
        on_policy=settings.pipeline.staleness == 0 and is_on_policy(team, config),
        frozen=team.frozen,
    )


async def fit(
    trainer: Trainer,
    batches: Batches,
    steps: int,
    *,
    refresh: Refresh | None = None,
    directory: str | Path | None = None,
    checkpoint_every: int = 10,
    loggers: Sequence[Logger] = (),
    evaluate: EvaluateAfter | None = None,
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
        loggers: Get the metrics of every update: the trainer's, ``seconds/waited`` (for the batch), those of
            the batch, and what `refresh` and `evaluate` give.
        evaluate: Called with the number of updates after each, when the models are refreshed.

    Returns:
        The metrics of the updates that this call made; fewer than asked for only if the batches end.

    Raises:
        ConfigError: More updates than `steps` are done already.
    """
    require_integer(checkpoint_every, "checkpoint_every")
    if directory is not None:
        trainer.resume(directory)
    require_steps(trainer.steps, steps, directory)
    history, saved = list[StepMetrics](), trainer.steps
    try:
        _start(loggers, trainer.steps)
        await _refresh(refresh, trainer.policies)
        if trainer.steps == steps:
            return history
        async with (
            aclosing(batches(saved)) as due,
            aclosing(_updates(trainer, due, refresh, evaluate)) as rows,
        ):
            async for metrics, values in rows:
                history.append(metrics)
                for output in loggers:
                    output.log(metrics.step, values)
                if directory is not None and trainer.steps % checkpoint_every == 0:
                    await asyncio.to_thread(trainer.save, directory)
                    saved = trainer.steps
                if trainer.steps == steps:
                    break
            if directory is not None and trainer.steps > saved:  # the last update; the batches may end early
                await asyncio.to_thread(trainer.save, directory)
    except asyncio.CancelledError:  # by Ctrl-C, say
        _log_stop(trainer.steps, saved if directory is not None else 0)
        raise
    finally:
        for output in loggers:
            output.close()
    return history


def _start(loggers: Sequence[Logger], step: int) -> None:
    for output in loggers:
        output.start(step)


def _log_stop(steps: int, saved: int) -> None:
    after = f"goes on after step {saved}" if saved else "starts again"
    log.warning("stopped in step %d; the same call %s", steps + 1, after)


async def _updates(
    trainer: Trainer,
    batches: AsyncGenerator[UpdateBatch | Texts],
    refresh: Refresh | None,
    evaluate: EvaluateAfter | None,
) -> AsyncGenerator[tuple[StepMetrics, dict[str, float]]]:
    """Train on each batch, refresh the models and evaluate; the metrics, and all that is logged."""
    began = time.perf_counter()
    async for batch in batches:
        waited = time.perf_counter() - began
        if (sleep := getattr(refresh, "sleep", None)) is not None:
            await asyncio.to_thread(sleep)
        metrics = await asyncio.to_thread(_update, trainer, batch)
        refreshed = await _refresh(refresh, trainer.policies)
        measured = batch.metrics if isinstance(batch, Texts) else batch_metrics(batch)
        values = {"seconds/waited": waited, **measured, **metrics.flat(), **refreshed}
        if evaluate is not None:
            values |= await evaluate(trainer.steps)
        yield metrics, values
        began = time.perf_counter()


def _update(trainer: Trainer, batch: UpdateBatch | Texts) -> StepMetrics:
    if not isinstance(batch, Texts):
        return trainer.step(batch.groups)
    if not isinstance(trainer, LocalTrainer):
        raise ConfigError("given texts are imitated by the local trainer alone")
    return trainer.imitate(batch.completions)


async def _refresh(refresh: Refresh | None, policies: Mapping[str, Any]) -> Mapping[str, float]:
    """Refresh the models in a thread, since an in-process engine may have to finish a batch first."""
    if refresh is None:
        return {}
    return await maybe_await(await asyncio.to_thread(refresh, policies)) or {}
