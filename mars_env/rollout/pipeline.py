"""The agentic pipeline: rollouts and training at the same time, within a bound of staleness.

MarsRL (arXiv 2511.11373, training): the groups of an agent are trained as soon as that agent has finished
them. **An update waits for groups that it would make too old.** So no group is dropped because it took long,
which would teach a policy to be brief. Dropping is only the last resort.
"""

import asyncio
import heapq
import itertools
from collections.abc import AsyncGenerator, Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Self

from pydantic import BaseModel, Field, NonNegativeInt, PositiveInt, model_validator

from mars_env.envs.game import Game
from mars_env.envs.growers import Expansion
from mars_env.errors import ConfigError, MarsError
from mars_env.identity import MAY_CHANGE
from mars_env.rollout.engine import Job, Journal, play
from mars_env.rollout.groups import groups_of, is_uniform
from mars_env.rollout.staleness import acting_after, age, oldest_version
from mars_env.sync import end_tasks
from mars_env.text import logger
from mars_env.types import Agent, Group, Tree, Turn

log = logger(__name__)

_PlayTree = Callable[[Job], Coroutine[None, None, Tree]]


class PipelineSettings(BaseModel, frozen=True, extra="forbid", use_attribute_docstrings=True):
    """How rollouts and training overlap."""

    staleness: NonNegativeInt = 1
    """Most versions between the oldest token of a group and the policy that is trained on it."""

    groups_per_update: PositiveInt | None = None
    """None: an update trains the groups of one whole step, as the synchronous trainer does. Rollouts of later
    steps continue meanwhile, as far as the staleness bound allows; with ``staleness=0`` this is
    synchronous training. A number: an update trains this many groups in the order in which they were started,
    whichever trees they belong to (the agentic pipeline). It trains more if more would become too old.
    Groups of roles that are not trained count."""

    refill: float = Field(default=1.0, ge=1)
    """Groups whose known rewards are all equal teach nothing, nor do those of roles or policies that are not
    trained: others are played in their place, so that updates do not shrink as the team gets better, up to
    this many times ``groups_per_update`` groups."""

    concurrency: Annotated[PositiveInt | None, MAY_CHANGE] = None
    """Most groups under way at the same time; None: only the other bounds apply."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.refill > 1 and self.groups_per_update is None:
            raise ValueError("refill is for updates of a number of groups: set groups_per_update")
        return self

    @property
    def bound(self) -> int | None:
        """Most groups that are started but not trained, those under way included."""
        return None if self.groups_per_update is None else self.groups_per_update * (self.staleness + 1)


@dataclass(frozen=True, slots=True)
class UpdateBatch:
    """What one update trains: whole groups.

    Attributes:
        version: Version of the policy that is trained: the number of updates before this one.
        ages: Of each group: versions between its oldest token and the policy.
        trained_tree_ids: Trees of which nothing remains to be trained after this update, as far as they have
            noted their end.
        dropped: Turns dropped since the last update because they had become too old.
    """

    version: int
    groups: tuple[Group, ...]
    ages: tuple[int, ...] = ()
    trained_tree_ids: tuple[str, ...] = ()
    dropped: int = 0


@dataclass(frozen=True, slots=True)
class Training:
    """What a pipeline knows of the training around it.

    Attributes:
        version: The version of the policies at the start (above 0 in a resumed run).
        policy_version: The present version of a policy by its name, None for one that is not trained; by
            default the number of updates, for all.
        trained: Ids of groups that were trained before: they are not yielded again.
        uniform: Whether a group teaches nothing, for `PipelineSettings.refill`.
    """

    version: int = 0
    policy_version: Callable[[str], int | None] | None = None
    trained: Collection[str] = frozenset()
    uniform: Callable[[Group], bool] = is_uniform


async def pipeline(
    game: Game,
    agents: Mapping[str, Agent],
    steps: Iterable[Sequence[Job]],
    settings: PipelineSettings,
    *,
    seed: int,
    training: Training = Training(),
    journal: Journal | None = None,
) -> AsyncGenerator[UpdateBatch]:
    """Play trees and yield their groups, batch by batch, while later trees are being played.

    The body of the loop trains on a batch and refreshes the models, in a thread, since rollouts continue only
    while it awaits something. When it asks for the next batch, the policy's version goes up by one. `steps`
    are jobs in the order in which they are started, and may be endless. Every group of every tree is in
    exactly one batch, unless it is counted as dropped; the last batch may be smaller.

    Raises:
        ConfigError: Groups are to be trained before their tree is finished, but grow with it or are rewarded
            with it.
        MarsError: The machinery failed, or all groups that come are too old to be trained.

    Example:
        >>> import asyncio, mars_env
        >>> from dataclasses import replace
        >>> from mars_env.envs import grouped, GroupedSettings
        >>> from mars_env.players import assign_agents
        >>> env = mars_env.make("arithmetic-solve-verify-correct", schedule="training")
        >>> game = replace(env.game, grower=grouped(GroupedSettings(group=2, branches=1)))
        >>> players = assign_agents(game.rules, lambda observation: "Correctness: Correct")
        >>> steps = [[Job(problem)] for problem in env.problems[:3]]
        >>> async def train():
        ...     batches = pipeline(game, players, steps, PipelineSettings(groups_per_update=4), seed=0)
        ...     return [(batch.version, len(batch.groups)) async for batch in batches]
        >>> asyncio.run(train())
        [(0, 4), (1, 2)]
    """
    if settings.groups_per_update is not None and game.team_reward is not None:
        raise ConfigError(
            "a team reward is only known when its tree is finished: leave groups_per_update out"
        )
    schedule = _Schedule(settings, training)
    play_tree = partial(
        play, game, agents, seed=seed, journal=journal, on_turns=schedule.take, gate=schedule.gate
    )
    try:
        schedule.start(steps, play_tree)
        while (batch := await schedule.next_batch()) is not None:
            yield batch
            schedule.advance()
    finally:
        await schedule.stop()


@dataclass(slots=True, eq=False)
class _OpenTree:
    """A tree of which something remains to be played or trained."""

    number: int  # its place among all trees
    step: int
    requested: bool = False  # whether one of its groups has asked to start
    untrained: int = 0  # finished groups that wait for an update
    finished: Tree | None = None
    started: dict[str, int] = field(default_factory=dict)  # of each group: the version when it began

    def has_progressed(self) -> bool:
        return self.requested or self.finished is not None


@dataclass(slots=True, eq=False)
class _ReadyGroup:
    """A finished group that waits for its update; `started` is the policy's version when it started."""

    group: Group
    started: int
    tree: _OpenTree
    uniform: bool = False


class _Schedule:
    """All decisions: which tree starts, which group may start, what the next update trains."""

    def __init__(self, settings: PipelineSettings, training: Training) -> None:
        self.version = self._first = training.version
        self._size, self._staleness = settings.groups_per_update, settings.staleness
        self._bound, self._concurrency = settings.bound, settings.concurrency
        self._extra = int((settings.refill - 1) * (self._size or 0))
        self._policy_version = training.policy_version or (lambda policy: self.version)
        self._is_uniform = training.uniform
        self._trained = frozenset(training.trained)
        self._trees: dict[str, _OpenTree] = {}
        self._requests: list[tuple[int, int, str, asyncio.Future[None]]] = []  # to start a group
        self._request_numbers = itertools.count()
        self._under_way: dict[str, int] = {}  # expansions, and the versions under which they started
        self._ready: dict[str, _ReadyGroup] = {}
        self._in_training = 0
        self._started_steps, self._all_started = self.version, False
        self._trained_trees: list[str] = []
        self._dropped = self._lost_in_a_row = self._lost_steps = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()
        self._failure: BaseException | None = None

    # -------------------------------------------------------------------------------------- rollouts

    def start(self, steps: Iterable[Sequence[Job]], play_tree: _PlayTree) -> None:
        """Start to play trees, and to let groups start."""
        self._spawn(self._start_trees(steps, play_tree))
        self._spawn(self._admit_groups())

    async def stop(self) -> None:
        """Cancel whatever is under way, and wait until it has ended."""
        await end_tasks(self._tasks)

    async def _start_trees(self, steps: Iterable[Sequence[Job]], play_tree: _PlayTree) -> None:
        """Start each tree when no group of an older one waits to start."""
        numbers = itertools.count()
        for step, jobs in enumerate(steps, self.version):
            for job in jobs:
                await self._wait_until(partial(self._may_start_tree, step))
                if job.tree_id in self._trees:
                    raise ConfigError(f"the tree {job.tree_id} is to be played twice: number its samples")
                tree = self._trees[job.tree_id] = _OpenTree(next(numbers), step)
                self._spawn(self._play(tree, job, play_tree))
                await self._wait_until(tree.has_progressed)
            self._started_steps += 1
            self._changed.set()
        self._all_started = True
        self._changed.set()

    def _may_start_tree(self, step: int) -> bool:
        in_time = self._size is not None or step - self.version <= self._staleness
        return in_time and not self._requests and self._may_start_group()

    async def _play(self, tree: _OpenTree, job: Job, play_tree: _PlayTree) -> None:
        tree.finished = await play_tree(job)
        if self._size is None:
            for group in groups_of([tree.finished]):
                self._add(group, tree)
        self._close_if_trained(tree)
        self._changed.set()

    @asynccontextmanager
    async def gate(self, job: Job, expansion: Expansion) -> AsyncGenerator[None]:
        """Wait until a group may start, older trees first; see `mars_env.rollout.engine.Gate`."""
        tree, key = self._trees[job.tree_id], _key(job.tree_id, expansion.id)
        admitted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._requests, (tree.number, next(self._request_numbers), key, admitted))
        tree.requested = True
        self._changed.set()
        try:
            await admitted
            oldest = tree.step - self._staleness if self._size is None else self._under_way[key]
            with acting_after(max(0, oldest - self._first), run=self):
                yield
        finally:
            self._under_way.pop(key, None)  # it is still there if the group failed
            self._changed.set()

    async def _admit_groups(self) -> None:
        while True:
            await self._wait_until(lambda: bool(self._requests) and self._may_start_group())
            _, _, key, admitted = heapq.heappop(self._requests)
            if admitted.done():  # its tree is being cancelled
                continue
            self._under_way[key] = self.version
            admitted.set_result(None)
            self._changed.set()

    def _may_start_group(self) -> bool:
        under_way = len(self._under_way)
        started = under_way + self._counted(self._ready.values()) + self._in_training
        return (self._bound is None or started < self._bound) and (
            self._concurrency is None or under_way < self._concurrency
        )

    def take(self, turns: Sequence[Turn]) -> None:
        """Take the turns of a finished expansion: a whole group, unless groups wait for their trees."""
        group, key = Group(turns[0].group_id, tuple(turns)), _key(turns[0].tree_id, turns[0].id)
        started = self._under_way.pop(key, self.version)  # a stored group tells its own age
        tree = self._trees[turns[0].tree_id]
        tree.started[group.id] = min(started, tree.started.get(group.id, started))
        if self._size is None:
            return
        if group.id != key and group.id not in self._trained:
            advice = "leave groups_per_update out, or grow the trees in groups (mars_env.envs.grouped)"
            raise ConfigError(f"the group {group.id} grows with its tree: {advice}")
        self._add(group, tree)
        self._changed.set()

    def _add(self, group: Group, tree: _OpenTree) -> None:
        uniform = bool(self._extra) and self._is_uniform(group)
        ready = _ReadyGroup(group, tree.started[group.id], tree, uniform)
        if group.id not in self._trained and not self._is_stale(ready):
            tree.untrained += 1
            self._ready[group.id] = ready

    # -------------------------------------------------------------------------------------- training

    async def next_batch(self) -> UpdateBatch | None:
        """Wait until an update is due; None if there is nothing more to train."""
        await self._wait_until(lambda: self._failure is not None or self._is_due() or self._is_over())
        if self._failure is not None:
            raise self._failure
        if not self._is_due():
            return None
        chosen = self._chosen()
        for ready in chosen:
            self._remove(ready)
        if chosen:
            self._lost_in_a_row, self._lost_steps = 0, 0
        elif self._lost_in_a_row:
            self._lost_steps += 1
            if self._lost_steps > min(1, self._staleness):  # samplers may be late once
                raise self._too_old()
        batch = UpdateBatch(
            self.version,
            tuple(ready.group for ready in chosen),
            tuple(map(self._age, chosen)),
            tuple(self._trained_trees),
            self._dropped,
        )
        self._in_training = self._counted(chosen)
        self._trained_trees, self._dropped = [], 0
        return batch

    def advance(self) -> None:
        """The batch was trained and the models know the new weights: the version goes up by one."""
        self.version += 1
        self._in_training = 0
        for ready in list(self._ready.values()):
            if self._is_stale(ready):
                self._remove(ready)
        self._changed.set()

    def _is_due(self) -> bool:
        if self._size is None:
            started = self.version < self._started_steps
            return started and all(
                tree.finished is not None for tree in self._trees.values() if tree.step == self.version
            )
        if self._is_over():
            return bool(self._ready)
        oldest = self.version - self._staleness
        return self._counted(self._ready.values()) >= self._size and all(
            started > oldest for started in self._under_way.values()
        )

    def _is_over(self) -> bool:
        return self._all_started and not any(
            self._size is None or tree.finished is None for tree in self._trees.values()
        )

    def _chosen(self) -> list[_ReadyGroup]:
        """The groups that are due: of this step; or as many as count, and those that would be too old."""
        if self._size is None:
            of_step = (ready for ready in self._ready.values() if ready.tree.step == self.version)
            return sorted(of_step, key=lambda ready: ready.tree.number)
        queue = sorted(self._ready.values(), key=lambda ready: (ready.started, ready.tree.number))
        last = self.version - self._staleness
        chosen: list[_ReadyGroup] = []
        for ready in queue:
            if ready.started > last and self._counted(chosen) >= self._size:
                break
            chosen.append(ready)
        return chosen

    def _counted(self, groups: Collection[_ReadyGroup]) -> int:
        """How many groups fill an update; uniform ones only once there are too many of them."""
        uniform = sum(ready.uniform for ready in groups) if self._extra else 0
        return len(groups) - min(uniform, self._extra)

    def _remove(self, ready: _ReadyGroup) -> None:
        del self._ready[ready.group.id]
        ready.tree.untrained -= 1
        self._close_if_trained(ready.tree)

    def _close_if_trained(self, tree: _OpenTree) -> None:
        if tree.finished is not None and not tree.untrained:
            del self._trees[tree.finished.id]
            self._trained_trees.append(tree.finished.id)

    def _is_stale(self, ready: _ReadyGroup) -> bool:
        """Whether a group is too old to be trained. If so, it is counted as dropped."""
        if (versions := self._age(ready)) <= self._staleness:
            return False
        self._dropped += len(ready.group.turns)
        self._lost_in_a_row += 1
        if self._bound is not None and self._lost_in_a_row > self._bound:
            raise self._too_old()
        message = "group %s is dropped: it is %d versions old; is the model refreshed after each update?"
        log.warning(message, ready.group.id, versions)
        return True

    def _too_old(self) -> MarsError:
        return MarsError(
            f"{self._lost_in_a_row} groups in a row were too old to be trained: the model does not "
            "report new weights; refresh it, with its version, after each update"
        )

    def _age(self, ready: _ReadyGroup) -> int:
        versioned = oldest_version(ready.group.turns) is not None
        return age(ready.group, self._policy_version) if versioned else self.version - ready.started

    # ---------------------------------------------------------------------------------------- waiting

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = MarsError("a rollout was cancelled") if task.cancelled() else task.exception()
        if error is not None:
            self._failure = self._failure or error
            self._changed.set()

    async def _wait_until(self, condition: Callable[[], bool]) -> None:
        """Wait until a condition is true. Whatever changes what it may depend on sets `_changed`."""
        while not condition():
            self._changed.clear()
            await self._changed.wait()


def _key(tree_id: str, turn_id: str) -> str:
    """Names an expansion by its first turn. A group that is whole with its expansion has the same name."""
    return f"{tree_id}/{turn_id}"
