"""Handing trees out to workers that may be lost, and taking in what they tell; knows nothing of Ray.

What a worker has told is kept: if it is lost, another one takes its trees up from there. Seeds derive from
the run's seed, the tree and the turn, so it does not matter who plays what, or how often.
"""

from __future__ import annotations

import asyncio
import itertools
import math
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from typing import Protocol

from mars_env.distributed.worker import Ended, News, Order, Played, Run
from mars_env.envs.rewards import with_rewards
from mars_env.errors import MarsError
from mars_env.rollout.engine import Job, Journal, turn_order
from mars_env.text import logger
from mars_env.types import Tree, Turn

log = logger(__name__)

AGAIN_SECONDS = 5.0
"""Before a worker that could not be started is tried again, while others work."""

OnTurns = Callable[[Sequence[Turn]], None]
OnActing = Callable[[int, Mapping[str, int]], None]
"""Called with a worker's number and how many acts of each agent are under way there."""


class WorkerLost(MarsError):
    """A worker has ended, or fallen silent."""


class CannotStart(MarsError):
    """A worker cannot be started: the cluster has no room, or it ends as soon as it begins."""


class Post(Protocol):
    """A place for one worker; one that is lost is replaced by the next `begin`."""

    async def begin(self, run: Run) -> None:
        """Have a worker there, started if need be, that is ready for the run's orders.

        Raises:
            CannotStart: There is none.
        """
        ...

    async def exchange(self, orders: Sequence[Order]) -> News:
        """See `mars_env.distributed.worker.Worker.exchange`.

        Raises:
            WorkerLost: It is gone; what it has not told is lost.
        """
        ...

    async def rest(self) -> None:
        """What is under way there is wanted no more."""
        ...


async def dispatch(  # as `play_all`, which it takes the place of on a cluster
    posts: Sequence[Post],
    jobs: Iterable[Job],
    run: Run,
    *,
    concurrency: int = 64,
    journal: Journal | None = None,
    attempts: int = 3,
    on_turns: OnTurns | None = None,
    on_acting: OnActing | None = None,
) -> AsyncGenerator[Tree]:
    """Have trees played by workers; yields each as soon as it is finished.

    Args:
        posts: Where the workers are.
        jobs: What is to be played.
        run: What the trees have in common.
        concurrency: Trees at once, over all workers.
        journal: Keeps finished turns; those it has already are not played again.
        attempts: A tree whose worker is lost so many times is given up. The last time it is played alone,
            so that it takes no other with it.
        on_turns: Called with the turns of each expansion that is told.
        on_acting: Called with each worker's acts under way.

    Raises:
        CannotStart: No worker at all can be started.
        MarsError: What ended a worker's tree that is no fault of an agent or grader.
    """
    desk = _Desk(jobs, len(posts), concurrency, journal, attempts, on_turns)
    if desk.over:
        return
    serving = [asyncio.create_task(_serve(n, post, desk, run, on_acting)) for n, post in enumerate(posts)]
    for task in serving:
        task.add_done_callback(desk.ended)
    try:
        while (tree := await desk.finished.get()) is not None:
            yield tree
        if desk.failure is not None:
            raise desk.failure
    finally:
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)
        if desk.under_way:
            await asyncio.gather(*(post.rest() for post in posts), return_exceptions=True)


@dataclass(slots=True)
class _Open:
    """A tree that is begun and not finished: what has been told of it, and how often its worker was lost."""

    job: Job
    turns: dict[str, Turn] = field(default_factory=dict)
    losses: int = 0


class _Desk:
    """The driver's view of a run: what is to be played, what is open, what is finished."""

    def __init__(
        self,
        jobs: Iterable[Job],
        posts: int,
        concurrency: int,
        journal: Journal | None,
        attempts: int,
        on_turns: OnTurns | None,
    ) -> None:
        self.finished: asyncio.Queue[Tree | None] = asyncio.Queue()
        self.failure: BaseException | None = None
        self.unstartable: set[int] = set()
        self._jobs = iter(jobs)
        first = next(self._jobs, None)
        self._jobs, self._exhausted = itertools.chain([first] if first else [], self._jobs), first is None
        at_once = min(concurrency, len(jobs)) if isinstance(jobs, Sized) else concurrency
        self._posts, self._concurrency, self._room = posts, concurrency, max(1, math.ceil(at_once / posts))
        self._journal, self._attempts, self._on_turns = journal, attempts, on_turns
        self._open: dict[str, _Open] = {}
        self._again: deque[_Open] = deque()
        self._changed = asyncio.Event()

    @property
    def over(self) -> bool:
        """Whether all trees are finished."""
        return self._exhausted and not self._open

    @property
    def under_way(self) -> bool:
        """Whether trees are begun and not finished."""
        return bool(self._open)

    @property
    def none_can_start(self) -> bool:
        """Whether no post has, or may yet get, a worker."""
        return len(self.unstartable) == self._posts

    async def something_new(self) -> None:
        """Wait until there may be something to hand out, or all is over."""
        self._changed.clear()
        if not self.over:
            await self._changed.wait()

    def orders(self, there: dict[str, _Open]) -> list[Order]:
        """What a worker is to begin, besides the trees that are open there; they are entered."""
        orders = []
        while (tree := self._next(there)) is not None:
            there[tree.job.tree] = tree
            orders.append(Order(tree.job, dict(tree.turns)))
        return orders

    def _next(self, there: Mapping[str, _Open]) -> _Open | None:
        if len(there) >= self._room or any(self._is_suspect(tree) for tree in there.values()):
            return None
        for _ in range(len(self._again)):
            tree = self._again.popleft()
            if not there or not self._is_suspect(tree):
                return tree
            self._again.append(tree)
        if self._exhausted or len(self._open) >= self._concurrency:
            return None
        job = next(self._jobs, None)
        if job is None:
            self._exhausted = True
            self._changed.set()
            return None
        earlier = self._journal.turns_of(job.tree) if self._journal is not None else {}
        tree = self._open[job.tree] = _Open(job, dict(earlier))
        return tree

    def _is_suspect(self, tree: _Open) -> bool:
        """Whether it is the tree's last attempt: it may be what ends its workers."""
        return tree.losses == self._attempts - 1

    def take(self, event: Played | Ended, there: dict[str, _Open]) -> None:
        """Keep what a worker told of one of its trees."""
        if isinstance(event, Played):
            if self._journal is not None:
                self._journal.write_turns(event.turns)
            there[event.tree].turns |= {turn.id: turn for turn in event.turns}
            if self._on_turns is not None:
                self._on_turns(event.turns)
            return
        tree = there.pop(event.tree.id)
        turns = sorted((tree.turns[turn_id] for turn_id in event.turn_ids), key=turn_order)
        told = event.tree
        self._finish(Tree(told.id, tree.job.problem, tuple(turns), told.final, told.fault, told.info),
                     event.rewards)  # fmt: skip

    def lose(self, there: dict[str, _Open], why: str) -> None:
        """A worker is gone, with the trees that were open there: others take them up."""
        for tree in there.values():
            tree.losses += 1
            if tree.losses < self._attempts:
                self._again.append(tree)
                continue
            turns = tuple(sorted(tree.turns.values(), key=turn_order))
            fault = f"its worker was lost {tree.losses} times: {why}"
            log.warning("tree %s is given up: %s", tree.job.tree, fault)
            self._finish(Tree(tree.job.tree, tree.job.problem, turns, None, fault), {})
        there.clear()
        self._changed.set()

    def ended(self, task: asyncio.Task[None]) -> None:
        """A task that serves a post has ended: with the run, or because something failed."""
        if not task.cancelled() and (error := task.exception()) is not None:
            self.failure = self.failure or error
            self.finished.put_nowait(None)
        elif self.over:
            self.finished.put_nowait(None)

    def _finish(self, tree: Tree, rewards: Mapping[str, float | None]) -> None:
        if self._journal is not None:
            self._journal.write_tree(tree, rewards)
        del self._open[tree.id]
        self.finished.put_nowait(with_rewards(tree, rewards))
        self._changed.set()


async def _serve(number: int, post: Post, desk: _Desk, run: Run, on_acting: OnActing | None) -> None:
    """Keep a post at work until all trees are finished."""
    there: dict[str, _Open] = {}
    ready = False
    while not desk.over:
        try:
            if not ready:
                await post.begin(run)
                ready = True
                desk.unstartable.discard(number)
            orders = desk.orders(there)
            if not there:
                await desk.something_new()
                continue
            news = await post.exchange(orders)
        except WorkerLost as lost:
            log.warning("%s; its %d unfinished trees are taken up again", lost, len(there))
            ready = False
            desk.lose(there, str(lost))
            if on_acting is not None:
                on_acting(number, {})
            continue
        except CannotStart as error:
            desk.unstartable.add(number)
            if desk.none_can_start:
                raise
            log.warning("%s; the others go on", error)
            await asyncio.sleep(AGAIN_SECONDS)
            continue
        for event in news.events:
            desk.take(event, there)
        if on_acting is not None:
            on_acting(number, news.acting)
