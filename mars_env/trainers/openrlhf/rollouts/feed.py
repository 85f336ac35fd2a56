"""The pipeline of rollouts, for a trainer that asks for batches from a thread without an event loop."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from mars_env.envs import Game
from mars_env.models.preflight import preflight
from mars_env.players import refuse_training_agents
from mars_env.problems import ProblemSet
from mars_env.rollout import Job, collect
from mars_env.rollout.pipeline import Training, UpdateBatch, pipeline
from mars_env.sync import end_tasks
from mars_env.trainers.config import has_no_gradient
from mars_env.trainers.openrlhf.rollouts.metrics import Verifications
from mars_env.trainers.openrlhf.rollouts.problems import DrawnProblems
from mars_env.trainers.openrlhf.settings import TeamSettings
from mars_env.trainers.rollouts import LostTrees
from mars_env.types import Agent, Tree

T = TypeVar("T")


class RolloutFeed:
    """Rollouts on an event loop in a thread of its own; they continue while the trainer trains.

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
        refuse_training_agents(agents, "OpenRLHF")
        self._game, self._agents, self._problems = game, agents, problems
        self._size, self._settings = problems_per_step, settings
        self._policy_version = policy_version
        self._lost = LostTrees(lambda turn: policy_version(turn.policy) is not None, problems_per_step)
        self._batches: AsyncGenerator[UpdateBatch] | None = None
        self._over = False
        self._tasks: set[asyncio.Task[Any]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="mars-env-rollouts", daemon=True)
        self._thread.start()
        self.waited = self.between = 0.0
        self._verifications = Verifications()
        self.verifier: dict[str, float] = {}
        self._latest = time.perf_counter()

    def next(self) -> UpdateBatch | None:
        """The next batch; None if everything is trained. The previous batch now counts as trained.

        Raises:
            MarsError: The rollouts failed, or as many trees in a row as a step has could not be played.
        """
        if self._over:
            return None
        began = time.perf_counter()
        batch = self._run(self._next())
        now = time.perf_counter()
        self.waited, self.between, self._latest = now - began, now - self._latest, now
        if batch is None:
            self._over = True
        else:
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
        return self._run(collect(game, agents, jobs, seed=self._settings.seed, concurrency=concurrency))

    def close(self) -> None:
        """Cancel the rollouts under way, and end the thread: also after an interrupt of a call that waits."""
        try:
            self._run(self._end())
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    async def _end(self) -> None:
        await end_tasks(self._tasks - {asyncio.current_task()})
        if self._batches is not None:
            await self._batches.aclose()

    async def _next(self) -> UpdateBatch | None:
        if self._batches is None:
            version_of = self._policy_version
            trained = [name for name, agent in self._agents.items() if version_of(agent.policy) is not None]
            await preflight(self._agents, self._game, trained)
            self._batches = pipeline(
                self._game,
                self._agents,
                self._problems.steps(self._size),
                self._settings,
                seed=self._settings.seed,
                training=Training(
                    version=self._problems.updates,
                    policy_version=self._policy_version,
                    trained=self._problems.trained,
                    uniform=partial(has_no_gradient, self._settings.config),
                ),
                journal=self._lost,
            )
        return await anext(self._batches, None)

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(self._tracked(work), self._loop).result()

    async def _tracked(self, work: Coroutine[Any, Any, T]) -> T:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            return await work
        finally:
            self._tasks.discard(task)
