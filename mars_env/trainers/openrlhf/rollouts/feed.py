"""The pipeline of rollouts, for a trainer that asks for batches from a thread without an event loop."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from functools import partial
from typing import Any

from mars_env.envs import Game
from mars_env.models.preflight import preflight
from mars_env.problems import ProblemSet
from mars_env.rollout import Job, collect
from mars_env.rollout.pipeline import Training, UpdateBatch, pipeline
from mars_env.sync import end_tasks, run_sync
from mars_env.trainers.checks import OPENRLHF, check_agents
from mars_env.trainers.config import has_no_gradient
from mars_env.trainers.openrlhf.rollouts.metrics import Verifications
from mars_env.trainers.openrlhf.rollouts.problems import DrawnProblems
from mars_env.trainers.openrlhf.settings import TeamSettings
from mars_env.trainers.rollouts import LostTrees
from mars_env.types import Agent, Tree


class RolloutFeed:
    """Rollouts on the background loop of `mars_env.sync`; they continue while the trainer trains.

    `problems_per_step` problems are drawn together; `policy_version` returns a policy's present version by
    name, None for one that is not trained.

    Attributes:
        waited: Seconds that the trainer waited for the latest batch.
        between: Seconds between the latest two batches.
        verifier: The Verifier's metrics in the latest batch.
    """

    def __init__(
        self,
        game: Game,
        agents: Mapping[str, Agent],
        problems: DrawnProblems,
        problems_per_step: int,
        settings: TeamSettings,
        policy_version: Callable[[str], int | None],
    ) -> None:
        policies = [agent.policy for agent in agents.values() if policy_version(agent.policy) is not None]
        self._trained = check_agents(agents, settings.config, OPENRLHF, policies)
        self._game, self._agents, self._problems, self._seed = game, agents, problems, settings.seed
        self._lost = LostTrees(lambda turn: policy_version(turn.policy) is not None, problems_per_step)
        self._start = partial(
            pipeline, game, agents, problems.steps(problems_per_step), settings, seed=settings.seed
        )
        self._training = partial(
            Training, policy_version=policy_version, uniform=partial(has_no_gradient, settings.config)
        )
        self._batches: AsyncGenerator[UpdateBatch] | None = None
        self._waits: asyncio.Task[Any] | None = None
        self._verifications = Verifications()
        self.verifier: dict[str, float] = {}
        self.waited = self.between = 0.0
        self._latest = time.perf_counter()

    def next(self) -> UpdateBatch | None:
        """The next batch; None if everything is trained. The previous batch now counts as trained."""
        began = time.perf_counter()
        batch = run_sync(self._next())
        now = time.perf_counter()
        self.waited, self.between, self._latest = now - began, now - self._latest, now
        if batch is not None:
            self._problems.note(batch, self._lost.ids)
            self.verifier = self._verifications.metrics(batch)
        return batch

    def play(
        self,
        game: Game,
        agents: Mapping[str, Agent],
        problems: ProblemSet,
        *,
        samples: int,
        concurrency: int,
    ) -> Sequence[Tree]:
        """Play some problems to their ends, beside the rollouts under way."""
        jobs = [Job(problem, sample) for sample in range(samples) for problem in problems]
        return run_sync(collect(game, agents, jobs, seed=self._seed, concurrency=concurrency))

    def close(self) -> None:
        """Cancel the rollouts under way: also after an interrupt of `next`."""
        run_sync(self._end())

    async def _end(self) -> None:
        if self._waits is not None:  # an interrupt may have come before `run_sync` could cancel it
            await end_tasks([self._waits])
        if self._batches is not None:
            await self._batches.aclose()

    async def _next(self) -> UpdateBatch | None:
        self._waits = asyncio.current_task()
        if self._batches is None:
            await preflight(self._agents, self._game, self._trained)
            # Only now, since a checkpoint may have been loaded.
            training = self._training(version=self._problems.updates, trained=self._problems.trained)
            self._batches = self._start(training=training, journal=self._lost)
        return await anext(self._batches, None)
