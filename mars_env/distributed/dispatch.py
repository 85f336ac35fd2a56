"""Assigns trees to workers that may be lost, and collects their reports. It does not use Ray.

Everything that a worker has reported is kept. If it is lost, another worker continues its trees from there.
"""

import asyncio
import math
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from mars_env.distributed.worker import Assignment, Event, RunContext, TreeEnded, WorkerReport
from mars_env.envs.rewards import with_rewards
from mars_env.errors import MarsError
from mars_env.rollout.engine import Job, Journal, OnTurns, add_turns, turn_order
from mars_env.sync import end_tasks
from mars_env.text import logger
from mars_env.types import Tree, Turn

log = logger(__name__)

RETRY_SECONDS = 5.0
"""After this time a worker that could not be started is tried again, while others work."""

OnActing = Callable[[int, Mapping[str, int]], None]
"""Called with a worker's number and how many acts of each agent are under way there."""


class WorkerLost(MarsError):
    """A worker has ended, or no longer answers."""


class CannotStart(MarsError):
    """A worker cannot be started: the cluster has no room, or the worker ends while it starts."""


class WorkerHandle(Protocol):
    """Starts one worker and talks to it. A worker that is lost is replaced by the next `begin`."""

    async def begin(self, run: RunContext) -> None:
        """Have a worker ready for the run's assignments; CannotStart if none can be started."""

    async def exchange(self, assignments: Sequence[Assignment]) -> WorkerReport:
        """See `Worker.exchange`; raises WorkerLost if it is gone, and with it what it had not reported."""

    async def discard(self) -> None:
        """The trees that are being played there are no longer needed."""


async def dispatch(
    workers: Sequence[WorkerHandle],
    jobs: Iterable[Job],
    run: RunContext,
    *,
    concurrency: int = 64,
    journal: Journal | None = None,
    on_turns: OnTurns | None = None,
    on_acting: OnActing | None = None,
) -> AsyncGenerator[Tree]:
    """Have trees played by workers; yields each as soon as it is finished. See `Fleet.play_all`."""
    owed, count = deque(jobs), len(workers)
    most = max(1, math.ceil(min(concurrency, len(owed)) / count))
    state = _RunState(owed, count, run.attempts, concurrency, journal, on_turns, most)
    if state.over:
        return
    tasks = [
        asyncio.create_task(_serve(n, worker, state, run, on_acting)) for n, worker in enumerate(workers)
    ]
    for task in tasks:
        task.add_done_callback(state.finished.put_nowait)
    try:
        while isinstance(tree := await state.finished.get(), Tree):
            yield tree
        tree.result()  # the first task has ended: with the run, or since something failed
    finally:
        await end_tasks(tasks)
        if state.open:
            await asyncio.gather(*(worker.discard() for worker in workers), return_exceptions=True)


@dataclass(slots=True)
class _OpenTree:
    """A tree that is started but not finished, with the turns reported so far."""

    job: Job
    turns: dict[str, Turn] = field(default_factory=dict)
    losses: int = 0  # how often its worker was lost

    def ordered(self, turn_ids: Iterable[str]) -> tuple[Turn, ...]:
        return tuple(sorted((self.turns[turn_id] for turn_id in turn_ids), key=turn_order))


@dataclass(slots=True)
class _RunState:
    """What the driver knows of a run: which trees are to be played, which are open, which are finished."""

    jobs: deque[Job]
    workers: int
    attempts: int
    concurrency: int
    journal: Journal | None
    on_turns: OnTurns | None
    per_worker: int
    finished: asyncio.Queue[Tree | asyncio.Task[None]] = field(default_factory=asyncio.Queue)
    unstartable: set[int] = field(default_factory=set)
    open: dict[str, _OpenTree] = field(default_factory=dict)
    retries: deque[_OpenTree] = field(default_factory=deque)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def over(self) -> bool:
        """Whether all trees are finished."""
        return not self.jobs and not self.open

    async def change(self) -> None:
        """Wait until there may be something to assign, or all trees are finished."""
        self.changed.clear()
        if not self.over:
            await self.changed.wait()

    def assign(self, there: dict[str, _OpenTree]) -> list[Assignment]:
        """The trees that a worker is to start besides those that are open there; `there` is updated."""
        assignments = []
        while (tree := self._next(there)) is not None:
            there[tree.job.tree_id] = tree
            assignments.append(Assignment(tree.job, dict(tree.turns)))
        return assignments

    def _next(self, there: Mapping[str, _OpenTree]) -> _OpenTree | None:
        if len(there) >= self.per_worker or any(self._is_suspect(tree) for tree in there.values()):
            return None
        for _ in range(len(self.retries)):
            tree = self.retries.popleft()
            if not there or not self._is_suspect(tree):
                return tree
            self.retries.append(tree)
        if not self.jobs or len(self.open) >= self.concurrency:
            return None
        job = self.jobs.popleft()
        earlier = self.journal.turns_of(job.tree_id) if self.journal is not None else {}
        tree = self.open[job.tree_id] = _OpenTree(job, dict(earlier))
        return tree

    def _is_suspect(self, tree: _OpenTree) -> bool:
        """Whether this is the tree's last attempt: the tree may be the reason that its workers end."""
        return tree.losses == self.attempts - 1

    def take(self, event: Event, there: dict[str, _OpenTree]) -> None:
        """Keep what a worker reports of one of its trees."""
        if isinstance(event, TreeEnded):
            turns = there.pop(event.tree.id).ordered(event.turn_ids)
            self._finish(replace(event.tree, turns=turns), event.rewards)
            return
        if self.journal is not None:
            self.journal.write_turns(event)
        add_turns(there[event[0].tree_id].turns, event)
        if self.on_turns is not None:
            self.on_turns(event)

    def lose(self, there: dict[str, _OpenTree], why: str) -> None:
        """A worker is lost: other workers continue the trees that were open there."""
        for tree in there.values():
            tree.losses += 1
            if tree.losses < self.attempts:
                self.retries.append(tree)
                continue
            fault, job = f"its worker was lost {tree.losses} times: {why}", tree.job
            log.warning("tree %s is discarded: %s", job.tree_id, fault)
            self._finish(Tree(job.tree_id, job.problem, tree.ordered(tree.turns), None, fault), {})
        there.clear()
        self.changed.set()

    def _finish(self, tree: Tree, rewards: Mapping[str, float | None]) -> None:
        if self.journal is not None:
            self.journal.write_tree(tree, rewards)
        del self.open[tree.id]
        self.finished.put_nowait(with_rewards(tree, rewards))
        self.changed.set()


async def _serve(
    number: int, worker: WorkerHandle, state: _RunState, run: RunContext, on_acting: OnActing | None
) -> None:
    """Keep a worker busy until all trees are finished."""
    there: dict[str, _OpenTree] = {}
    ready = False
    while not state.over:
        try:
            if not ready:
                await worker.begin(run)
                ready = True
                state.unstartable.discard(number)
            assignments = state.assign(there)
            if not there:
                await state.change()
                continue
            report = await worker.exchange(assignments)
        except WorkerLost as lost:
            log.warning("%s; its %d unfinished trees are continued elsewhere", lost, len(there))
            ready = False
            state.lose(there, str(lost))
            if on_acting is not None:
                on_acting(number, {})
            continue
        except CannotStart as error:
            state.unstartable.add(number)
            if len(state.unstartable) == state.workers:  # none is running, or may still start
                raise
            log.warning("%s; the others continue", error)
            await asyncio.sleep(RETRY_SECONDS)
            continue
        for event in report.events:
            state.take(event, there)
        if on_acting is not None:
            on_acting(number, report.acting)
