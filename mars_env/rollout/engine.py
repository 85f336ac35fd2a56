"""The engine: plays many trees at once, over any agents, and loses nothing that is finished.

A tree depends on the run's seed and its own id alone: every request carries a seed derived from
them, so the same seed gives the same trees whatever the concurrency. (A real model adds its own
floating-point batching to that.)
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext
from dataclasses import dataclass
from time import perf_counter
from typing import Protocol

from mars_env.checks import check_action
from mars_env.envs.game import Game
from mars_env.envs.growers import Expansion, Node
from mars_env.envs.play import Act, conclude, judge
from mars_env.envs.rewards import with_rewards
from mars_env.envs.visibility import next_state
from mars_env.errors import ContextError, MarsError, ModelError
from mars_env.seeds import derive_seed
from mars_env.text import described, logger
from mars_env.types import Agent, Problem, Tree, Turn

log = logger(__name__)


@dataclass(frozen=True, slots=True)
class Job:
    """One tree to play.

    Example:
        >>> Job(Problem("aime/3", "...", "7"), sample=2).tree
        'aime/3#2'
    """

    problem: Problem
    sample: int = 0

    @property
    def tree(self) -> str:
        """Id of the tree."""
        return f"{self.problem.id}#{self.sample}"


class Journal(Protocol):
    """Where finished turns go at once, and where a resumed run finds them."""

    def turns_of(self, tree: str) -> Mapping[str, Turn]:
        """Turns of an unfinished tree that were played before, by id."""
        ...

    def write_turns(self, turns: Sequence[Turn]) -> None:
        """Keep the turns of one finished expansion."""
        ...

    def write_tree(self, tree: Tree, team_rewards: Mapping[str, float | None]) -> None:
        """Keep that a tree is finished, and the rewards that it changed."""
        ...


OnTurns = Callable[[Sequence[Turn]], None]

Gate = Callable[[Job, Expansion], AbstractAsyncContextManager[object]]
"""Held around an expansion, from before its agent acts until `OnTurns` has its turns: a schedule's seam."""


def open_gate(job: Job, order: Expansion) -> AbstractAsyncContextManager[object]:
    """A gate that holds nothing up."""
    return nullcontext()


async def play(  # public edge: one keyword for each thing that can be chosen, with a default
    game: Game,
    agents: Mapping[str, Agent],
    job: Job,
    *,
    seed: int,
    width: int = 64,
    journal: Journal | None = None,
    on_turns: OnTurns | None = None,
    gate: Gate = open_gate,
) -> Tree:
    """Play one tree to its end.

    Args:
        game: What is played.
        agents: Who plays, by agent name.
        job: The problem, and which sample of it this is.
        seed: The run's seed.
        width: At most this many expansions of the tree are under way at once.
        journal: Keeps finished turns; those it has already are not played again.
        on_turns: Called with the turns of every expansion as soon as it is finished: for
            a grouped rollout that is one group (agentic pipeline parallelism starts here).
        gate: What an expansion that is played passes through (`mars_env.rollout.pipeline` has one).

    Returns:
        The tree; if an agent could not act, with the fault's reason, and without an answer.
    """
    player = _Player(game, agents, job, seed, journal, on_turns, gate)
    grower = game.grower(game.rules, job.problem, job.tree, seed)
    under_way: dict[asyncio.Task[list[Node] | None], Expansion] = {}
    try:
        while True:
            orders = grower.ask(width - len(under_way))
            if len(orders) == 1 and not under_way:  # an episode: no task needed
                grower.tell(orders[0], await player.expand(orders[0]))
                continue
            for order in orders:
                under_way[asyncio.create_task(player.expand(order))] = order
            if not under_way:
                break
            done, _ = await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                grower.tell(under_way.pop(task), task.result())
    finally:
        await _cancel(under_way)
    turns = sorted(player.turns.values(), key=turn_order)
    proposed = None if player.fault else grower.final()
    tree = await conclude(game, job.problem, job.tree, turns, proposed, seed=seed, fault=player.fault)
    tree, team_rewards = await game.team_rewarded(tree)
    if journal is not None:
        journal.write_tree(tree, team_rewards)
    return with_rewards(tree, team_rewards)


async def play_all(  # public edge: one keyword for each thing that can be chosen, with a default
    game: Game,
    agents: Mapping[str, Agent],
    jobs: Iterable[Job],
    *,
    seed: int,
    concurrency: int = 64,
    width: int = 64,
    journal: Journal | None = None,
    on_turns: OnTurns | None = None,
) -> AsyncGenerator[Tree]:
    """Play many trees, at most `concurrency` at once; yields each as soon as it is finished.

    Closing the iterator early cancels what is under way.

    Raises:
        MarsError: The machinery around the agents failed (the store cannot be written, a
            game's rules raised): what is finished is kept, the rest is cancelled.
    """
    queue = iter(jobs)
    finished: asyncio.Queue[Tree | None] = asyncio.Queue()

    async def work() -> None:
        for job in queue:
            finished.put_nowait(
                await play(game, agents, job, seed=seed, width=width, journal=journal, on_turns=on_turns)
            )

    workers = [asyncio.create_task(work()) for _ in range(concurrency)]
    all_done = asyncio.gather(*workers)
    all_done.add_done_callback(lambda _: finished.put_nowait(None))
    try:
        while (tree := await finished.get()) is not None:
            yield tree
        await all_done  # raises what a worker raised
    finally:
        await _cancel(workers)
        await asyncio.gather(all_done, return_exceptions=True)  # its end is told to nobody, and that is fine


async def collect(
    game: Game, agents: Mapping[str, Agent], jobs: Sequence[Job], *, seed: int, concurrency: int = 64
) -> list[Tree]:
    """Play the jobs and return their trees, in the order of the jobs."""
    trees: dict[str, Tree] = {}
    async with aclosing(play_all(game, agents, jobs, seed=seed, concurrency=concurrency)) as played:
        async for tree in played:
            trees[tree.id] = tree
    return [trees[job.tree] for job in jobs]


def turn_order(turn: Turn) -> tuple[int, ...]:
    """Sorts turns by their place in the tree, parents before children."""
    return tuple(int(part) for part in turn.id.split("."))


class _Player:
    """Makes the expansions of one tree."""

    def __init__(
        self,
        game: Game,
        agents: Mapping[str, Agent],
        job: Job,
        seed: int,
        journal: Journal | None,
        on_turns: OnTurns | None,
        gate: Gate,
    ) -> None:
        self._game, self._agents, self._job, self._seed = game, agents, job, seed
        self._journal, self._on_turns, self._gate = journal, on_turns, gate
        self._stored = journal.turns_of(job.tree) if journal is not None else {}
        self._paths: dict[str, tuple[Turn, ...]] = {"": ()}
        self.turns: dict[str, Turn] = {}
        self.fault = ""

    async def expand(self, order: Expansion) -> list[Node] | None:
        """The nodes of an expansion: as they were played before, or played now; None if lost."""
        if all(turn_id in self._stored for turn_id in order.turn_ids):
            return self._finish(
                order, [self._replay(order, self._stored[turn_id]) for turn_id in order.turn_ids]
            )
        async with self._gate(self._job, order):
            played = await self._play(order, self._paths[order.parent.id])
            return None if played is None else self._finish(order, played)

    def _finish(self, order: Expansion, nodes: list[Node]) -> list[Node]:
        """Enter the new turns into the tree and hand them on."""
        path = self._paths[order.parent.id]
        turns = [node.turn for node in nodes if node.turn is not None]
        for turn in turns:
            self.turns[turn.id] = turn
            self._paths[turn.id] = (*path, turn)
        if self._on_turns is not None:
            self._on_turns(turns)
        return nodes

    def _replay(self, order: Expansion, turn: Turn) -> Node:
        return Node(turn, next_state(self._game.rules, self._game.visibility, order.parent.state, turn))

    async def _play(self, order: Expansion, path: tuple[Turn, ...]) -> list[Node] | None:
        game, problem, n = self._game, self._job.problem, len(order.turn_ids)
        agent = self._agents[order.agent]
        observation = game.rules.observe(order.parent.state, order.agent)
        began = perf_counter()
        limit = asyncio.timeout(game.turn_timeout)
        try:
            async with limit:
                actions = await agent.act(observation, n, derive_seed(self._seed, self._job.tree, order.id))
            if len(actions) != n:
                raise ModelError(f"{order.agent} returned {len(actions)} actions where {n} were asked for")
            for action in actions:
                check_action(action)
        except ContextError:
            raise  # asked for: the run is to end rather than to play on with too little room
        except Exception as error:  # a user's agent may raise anything; one tree must not end the run
            late = limit.expired()
            why = f"TimeoutError: no action within {game.turn_timeout:g} s" if late else described(error)
            self.fault = f"{order.agent} at turn {order.id}: {why}"
            log.warning(
                "tree %s is given up: %s",
                self._job.tree,
                self.fault,
                exc_info=not isinstance(error, MarsError),
            )
            return None
        seconds = perf_counter() - began
        judging = [
            judge(game, problem, self._job.tree, order, i, Act(action, agent.policy, seconds), path)
            for i, action in enumerate(actions)
        ]
        nodes = [await judging[0]] if n == 1 else list(await asyncio.gather(*judging))
        if self._journal is not None:
            self._journal.write_turns([node.turn for node in nodes if node.turn is not None])
        return nodes


async def _cancel(tasks: Iterable[asyncio.Task[object]]) -> None:
    """Cancel what still runs and wait until it is gone."""
    running = [task for task in tasks if not task.done()]
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
