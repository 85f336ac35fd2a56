"""A worker: plays trees with the engine, and tells each finished turn; knows nothing of Ray.

The driver calls `exchange` again and again: it hands in trees to play, and gets what has happened since.
What is told is told in order, so a driver that has heard of a turn has heard of all turns before it.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from mars_env.envs.contexts import require_room
from mars_env.envs.game import Game
from mars_env.rollout.engine import Job, play
from mars_env.types import Action, Agent, Observation, Problem, Tree, Turn

BEAT = 2.0
"""Seconds after which a worker answers even if nothing has happened."""

MakeGame = Callable[[], Game]
MakeAgents = Callable[[], Mapping[str, Agent]]
Change = Callable[[Game], Game]


def unchanged(game: Game) -> Game:
    """The game as it is."""
    return game


@dataclass(frozen=True, slots=True)
class Run:
    """What the trees of one run have in common.

    Attributes:
        seed: The run's seed.
        width: Expansions of one tree at once.
        change: Makes the run's game of the worker's own; a function that can be sent to processes.
    """

    seed: int
    width: int = 64
    change: Change = unchanged


@dataclass(frozen=True, slots=True)
class Order:
    """A tree to play, and its turns that were played before, by id."""

    job: Job
    earlier: Mapping[str, Turn]


@dataclass(frozen=True, slots=True)
class Played:
    """Turns of one finished expansion."""

    tree: str
    turns: tuple[Turn, ...]


@dataclass(frozen=True, slots=True)
class Ended:
    """A tree is finished, or given up.

    Attributes:
        tree: The tree; its turns were told before.
        turn_ids: Ids of its turns.
        rewards: The rewards that its end has changed.
    """

    tree: Tree
    turn_ids: tuple[str, ...]
    rewards: Mapping[str, float | None]


@dataclass(frozen=True, slots=True)
class News:
    """What has happened at a worker since it was asked last.

    Attributes:
        events: In order.
        acting: How many acts of each agent are under way.
    """

    events: tuple[Played | Ended, ...]
    acting: Mapping[str, int]


class Host:
    """An object that a process of its own hosts."""

    async def present(self) -> int:
        """The process's id: it is there."""
        return os.getpid()


class Worker(Host):
    """Plays the trees that it is told to, as many at once as it is given."""

    def __init__(self) -> None:
        self._game: Game | None = None
        self._players: Mapping[str, Agent] = {}
        self._agents: Mapping[str, Agent] = {}
        self._acting: Counter[str] = Counter()
        self._tasks: set[asyncio.Task[None]] = set()
        self._outbox: list[Played | Ended] = []
        self._failure: BaseException | None = None
        self._news = asyncio.Event()

    async def setup(self, make_game: MakeGame, make_agents: MakeAgents) -> None:
        """Make the game and the agents, here in the worker's own process."""
        self._game, self._players = make_game(), make_agents()
        self._agents = {name: _Counted(name, agent, self._acting) for name, agent in self._players.items()}

    async def require_room(self, problems: Sequence[Problem]) -> None:
        """Refuse agents that can be given too long prompts: see `mars_env.envs.contexts.require_room`."""
        assert self._game is not None, "setup comes first"
        await require_room(self._game.rules, self._players, problems)

    async def begin(self, run: Run) -> None:
        """Begin a run; what is left of another one is given up, told to nobody."""
        assert self._game is not None, "setup comes first"
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks, self._outbox, self._failure = set(), [], None
        self._run, self._played = run, run.change(self._game)

    async def exchange(self, orders: Sequence[Order]) -> News:
        """Take orders, and tell what has happened: as soon as there is something, or after `BEAT` seconds.

        Raises:
            Exception: What ended a tree and is no fault of an agent, grader or reward (the rules raised).
        """
        run = self._run
        for order in orders:
            task = asyncio.create_task(self._play(order))
            self._tasks.add(task)
            task.add_done_callback(self._ended)
        if not self._outbox and self._failure is None:
            try:
                async with asyncio.timeout(BEAT):
                    await self._news.wait()
            except TimeoutError:
                pass  # nothing happened: the answer says that the worker lives
        if self._run is not run:  # the driver has begun another run meanwhile, and waits for this no more
            return News((), {})
        self._news.clear()
        if self._failure is not None:
            raise self._failure
        events, self._outbox = tuple(self._outbox), []
        return News(events, {name: count for name, count in self._acting.items() if count})

    async def _play(self, order: Order) -> None:
        journal = _Outbox(order.earlier, self._tell)
        await play(
            self._played, self._agents, order.job, seed=self._run.seed, width=self._run.width, journal=journal
        )

    def _tell(self, event: Played | Ended) -> None:
        self._outbox.append(event)
        self._news.set()

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failure = self._failure or error
            self._news.set()


class _Outbox:
    """The journal of one tree at a worker: what is written into it is told to the driver."""

    def __init__(self, earlier: Mapping[str, Turn], tell: Callable[[Played | Ended], None]) -> None:
        self._earlier, self._tell = earlier, tell

    def turns_of(self, tree: str) -> Mapping[str, Turn]:
        return self._earlier

    def write_turns(self, turns: Sequence[Turn]) -> None:
        if turns:
            self._tell(Played(turns[0].tree_id, tuple(turns)))

    def write_tree(self, tree: Tree, team_rewards: Mapping[str, float | None]) -> None:
        ids = tuple(turn.id for turn in tree.turns)
        self._tell(Ended(replace(tree, turns=()), ids, dict(team_rewards)))


class _Counted:
    """An agent whose acts under way are counted."""

    def __init__(self, name: str, agent: Agent, acting: Counter[str]) -> None:
        self._name, self._agent, self._acting = name, agent, acting

    @property
    def policy(self) -> str:
        return self._agent.policy

    async def act(self, observation: Observation, n: int, seed: int) -> list[Action]:
        self._acting[self._name] += 1
        try:
            return await self._agent.act(observation, n, seed)
        finally:
            self._acting[self._name] -= 1
