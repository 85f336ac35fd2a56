"""A worker: plays trees with the engine and reports every finished turn. It does not use Ray.

Reports keep the order of events, so a driver that knows of a turn knows of all turns before it.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from mars_env.envs.contexts import require_room
from mars_env.envs.game import Game
from mars_env.players import refuse_training_agents
from mars_env.rollout.engine import Job, play
from mars_env.rollout.monitor import Monitor
from mars_env.sync import end_tasks
from mars_env.types import Agent, Problem, Tree, Turn

HEARTBEAT_SECONDS = 2.0
"""A worker answers after this time even if nothing has happened."""

MakeGame = Callable[[], Game]
MakeAgents = Callable[[], Mapping[str, Agent]]
Change = Callable[[Game], Game]
CheckAgents = Callable[[Mapping[str, Agent], Game], Awaitable[None]]
"""Rejects agents before a run; it must be a function that can be sent to processes."""


def unchanged(game: Game) -> Game:
    """The game as it is."""
    return game


@dataclass(frozen=True, slots=True)
class RunContext:
    """What the trees of one run have in common.

    Attributes:
        seed: The run's seed.
        change: Makes the run's game from the worker's own. Must be a function that can be sent to processes.
        attempts: A tree whose worker is lost this many times is discarded. Its last attempt is played alone,
            so that it cannot cost other trees their worker.
    """

    seed: int
    change: Change = unchanged
    attempts: int = 3


@dataclass(frozen=True, slots=True)
class Assignment:
    """A tree to play, and its turns that were played before, by id."""

    job: Job
    earlier: Mapping[str, Turn]


@dataclass(frozen=True, slots=True)
class TreeEnded:
    """A tree is finished or discarded.

    Attributes:
        tree: The tree, without its turns, which were reported before.
        turn_ids: Ids of its turns.
        rewards: The rewards that changed when the tree ended.
    """

    tree: Tree
    turn_ids: tuple[str, ...]
    rewards: Mapping[str, float | None]


Event = tuple[Turn, ...] | TreeEnded
"""The turns of one finished expansion, or the end of a tree."""


@dataclass(frozen=True, slots=True)
class WorkerReport:
    """What has happened at a worker since its last report, in order, and each agent's acts under way."""

    events: tuple[Event, ...]
    acting: Mapping[str, int]


class Process:
    """An object in its own process."""

    async def process_id(self) -> int:
        """The id of the process, once it is running."""
        return os.getpid()


async def check_team(
    agents: Mapping[str, Agent], make_game: MakeGame, problems: Sequence[Problem], check: CheckAgents
) -> None:
    """Reject agents before they play, also by `mars_env.envs.contexts.require_room`."""
    game = make_game()
    await check(agents, game)
    await require_room(game.rules, agents, problems)


class Worker(Process):
    """Plays the trees that it is assigned, all at the same time."""

    def __init__(self) -> None:
        self._game: Game
        self._players: Mapping[str, Agent] = {}
        self._agents: Mapping[str, Agent] = {}
        self._monitor = Monitor()
        self._tasks: set[asyncio.Task[None]] = set()
        self._events: asyncio.Queue[Event | Exception] = asyncio.Queue()  # or what has ended a tree

    async def setup(self, make_game: MakeGame, make_agents: MakeAgents) -> None:
        """Make the game and the agents, here in the worker's own process."""
        self._game, self._players = make_game(), make_agents()
        refuse_training_agents(self._players, "a worker")
        self._agents = self._monitor.watch(self._players)

    async def check(self, problems: Sequence[Problem], check: CheckAgents) -> None:
        """See `check_team`."""
        await check_team(self._players, lambda: self._game, problems, check)

    async def begin(self, run: RunContext) -> None:
        """Start a run; trees of an earlier run are discarded without a report."""
        await end_tasks(self._tasks)
        self._tasks, self._events = set(), asyncio.Queue()
        self._run, self._run_game = run, run.change(self._game)

    async def exchange(self, assignments: Sequence[Assignment]) -> WorkerReport:
        """Take assignments, and report as soon as something has happened, or after `HEARTBEAT_SECONDS`.

        Raises what ended a tree and is not a fault of an agent, grader or reward (the rules raised).
        """
        for assignment in assignments:
            task = asyncio.create_task(self._play(assignment))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        queue, found = self._events, list[Any]()
        with suppress(TimeoutError):  # nothing happened: the answer shows that the worker is alive
            async with asyncio.timeout(HEARTBEAT_SECONDS):
                found.append(await queue.get())
        while not queue.empty():
            found.append(queue.get_nowait())
        for each in found:
            if isinstance(each, Exception):
                raise each
        return WorkerReport(tuple(found), self._monitor.acting if queue is self._events else {})

    async def _play(self, assignment: Assignment) -> None:
        events = self._events
        journal = _EventJournal(assignment.earlier, events.put_nowait)
        try:
            await play(self._run_game, self._agents, assignment.job, seed=self._run.seed, journal=journal)
        except Exception as error:
            events.put_nowait(error)


@dataclass(frozen=True, slots=True)
class _EventJournal:
    """The journal of one tree at a worker: whatever is written to it is reported to the driver."""

    earlier: Mapping[str, Turn]
    report: Callable[[Event], None]

    def turns_of(self, tree_id: str) -> Mapping[str, Turn]:
        return self.earlier

    def write_turns(self, turns: Sequence[Turn]) -> None:
        self.report(tuple(turns))

    def write_tree(self, tree: Tree, team_rewards: Mapping[str, float | None]) -> None:
        ids = tuple(turn.id for turn in tree.turns)
        self.report(TreeEnded(replace(tree, turns=()), ids, dict(team_rewards)))
