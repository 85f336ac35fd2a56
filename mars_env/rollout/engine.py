"""The engine: plays many trees at the same time, over any agents, and loses no finished turn.

A tree depends only on the run's seed and its own id: every request carries a seed derived from them, so the
same seed gives the same trees whatever the concurrency. (Real models round differently in different batches.)
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Protocol

from mars_env.checks import require_integer, valid_action
from mars_env.envs.game import Game
from mars_env.envs.growers import Expansion, Node
from mars_env.envs.play import Act, conclude, judge
from mars_env.envs.rewards import with_rewards
from mars_env.envs.visibility import next_state
from mars_env.errors import ConfigError, ContextError, MarsError, ModelError, ServerDown
from mars_env.seeds import derive_seed
from mars_env.sync import awaitable, end_tasks, gather_all, only_own_cancellation
from mars_env.text import describe_error, logger, shown
from mars_env.types import Action, Agent, Observation, Problem, TrainingAgent, TrainingAsk, Tree, Turn

log = logger(__name__)


@dataclass(frozen=True, slots=True)
class Job:
    """One tree to play.

    Attributes:
        problem: What is played.
        sample: Number of the episode on it.
        progress: In training, how much of the run is done, from 0 to 1; None outside of it.

    Example:
        >>> Job(Problem("aime/3", "...", "7"), sample=2).tree_id
        'aime/3#2'
    """

    problem: Problem
    sample: int = 0
    progress: float | None = None

    @property
    def tree_id(self) -> str:
        """Id of the tree."""
        return f"{self.problem.id}#{self.sample}"


class Journal(Protocol):
    """Where finished turns are written immediately, and where a resumed run finds them."""

    def turns_of(self, tree_id: str) -> Mapping[str, Turn]:
        """Turns of an unfinished tree that were played before, by id."""
        ...

    def write_turns(self, turns: Sequence[Turn]) -> None:
        """Keep the turns of one finished expansion."""
        ...

    def write_tree(self, tree: Tree, team_rewards: Mapping[str, float | None]) -> None:
        """Keep that a tree is finished, and the rewards that changed when it ended."""
        ...


LEFT_OUT = "left_out"
"""In a tree's info: ids of turns that the journal has of it, and that are not in it.

A tree that was resumed after a fault may have taken other branches.
"""

OnTurns = Callable[[Sequence[Turn]], None]

Gate = Callable[[Job, Expansion], AbstractAsyncContextManager[object]]
"""Entered before the agent of an expansion acts, left when `OnTurns` has its turns: schedules wait here."""


def open_gate(job: Job, expansion: Expansion) -> AbstractAsyncContextManager[object]:
    """A gate at which nothing waits."""
    return nullcontext()


async def play(  # public, and more than seven: the five after `seed` are independent, most calls need none
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
        width: Most expansions of the tree under way at the same time.
        journal: Keeps finished turns; those that it has already are not played again.
        on_turns: Called with the turns of every expansion as soon as it is finished. In a grouped rollout
            these are one group: agentic pipeline parallelism starts here.
        gate: Makes each expansion wait until it may be played (`mars_env.rollout.pipeline` has one).

    Returns:
        The tree. If an agent could not act, it has a fault, which names the reason, and no answer.
    """
    require_integer(width, "width")
    player = _Player(game, agents, job, seed, journal, on_turns, gate)
    grower = game.grower(game.rules, job.problem, job.tree_id, seed)
    under_way: dict[asyncio.Task[list[Node] | None], Expansion] = {}
    try:
        while True:
            expansions = grower.ask(width - len(under_way))
            if len(expansions) == 1 and not under_way:  # an episode: no task needed
                grower.tell(expansions[0], await player.expand(expansions[0]))
                continue
            for expansion in expansions:
                under_way[asyncio.create_task(player.expand(expansion))] = expansion
            if not under_way:
                break
            done, _ = await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                grower.tell(under_way.pop(task), task.result())
    finally:
        await end_tasks(under_way)
    turns = sorted(player.turns.values(), key=turn_order)
    proposed = None if player.fault else grower.final()
    tree = await conclude(game, job.problem, job.tree_id, turns, proposed, seed=seed, fault=player.fault)
    if left_out := sorted(player.stored.keys() - player.turns.keys()):
        tree = replace(tree, info={**tree.info, LEFT_OUT: left_out})
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
    journal: Journal | None = None,
    on_turns: OnTurns | None = None,
) -> AsyncGenerator[Tree]:
    """Play many trees, at most `concurrency` at the same time; yields each as soon as it is finished.

    `on_turns` is that of `play`. Closing the iterator early cancels whatever is under way.

    Raises:
        MarsError: The machinery around the agents failed (the store cannot be written, a game's rules
            raised). Finished trees are kept, the others are cancelled.
    """
    require_integer(concurrency, "concurrency")
    queue = iter(jobs)
    finished: asyncio.Queue[Tree | None] = asyncio.Queue()

    async def work() -> None:
        for job in queue:
            finished.put_nowait(await play(game, agents, job, seed=seed, journal=journal, on_turns=on_turns))

    workers = [asyncio.create_task(work()) for _ in range(concurrency)]
    all_done = asyncio.gather(*workers)
    all_done.add_done_callback(lambda _: finished.put_nowait(None))
    try:
        while (tree := await finished.get()) is not None:
            yield tree
        await all_done  # raises what a worker raised
    finally:
        await end_tasks(workers)
        await asyncio.gather(
            all_done, return_exceptions=True
        )  # otherwise asyncio warns that its exception was not retrieved


async def collect(
    game: Game, agents: Mapping[str, Agent], jobs: Sequence[Job], *, seed: int, concurrency: int = 64
) -> list[Tree]:
    """Play the jobs and return their trees, in the order of the jobs."""
    trees: dict[str, Tree] = {}
    async with aclosing(play_all(game, agents, jobs, seed=seed, concurrency=concurrency)) as played:
        async for tree in played:
            trees[tree.id] = tree
    return [trees[job.tree_id] for job in jobs]


def turn_order(turn: Turn) -> tuple[int, ...]:
    """A key that sorts turns by their place in the tree, parents before children."""
    return tuple(int(part) for part in turn.id.split("."))


def add_turns(known: dict[str, Turn], turns: Iterable[Turn]) -> None:
    """Add turns of a tree by id; one that was played again replaces the earlier one and what grew from it.

    Example:
        >>> from mars_env.types import Action
        >>> def turn(id, text):
        ...     return Turn("p#0", id, None, "g", "solver_0", "", "p", Action(text))
        >>> known = {}
        >>> add_turns(known, [turn("0", "4"), turn("0.1", "5"), turn("1", "6"), turn("0", "7")])
        >>> {id: turn.text for id, turn in known.items()}
        {'0': '7', '1': '6'}
    """
    for turn in turns:
        if turn.id in known:
            for later in [id for id in known if id.startswith(f"{turn.id}.")]:
                del known[later]
        known[turn.id] = turn


class _Player:
    """Plays the expansions of one tree."""

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
        self.stored = journal.turns_of(job.tree_id) if journal is not None else {}
        self._replayed = {""}
        self._paths: dict[str, tuple[Turn, ...]] = {"": ()}
        self.turns: dict[str, Turn] = {}
        self.fault = ""

    async def expand(self, expansion: Expansion) -> list[Node] | None:
        """The nodes of an expansion: as they were played before, or played now; None if the agent failed."""
        if self._is_stored(expansion):
            self._replayed |= {*expansion.turn_ids}
            stored = [self._replay(expansion, self.stored[turn_id]) for turn_id in expansion.turn_ids]
            return self._finish(expansion, stored)
        async with self._gate(self._job, expansion):
            played = await self._play(expansion, self._paths[expansion.parent.id])
            return None if played is None else self._finish(expansion, played)

    def _is_stored(self, expansion: Expansion) -> bool:
        """Whether its turns were played before: on the same parent, by this agent, with this note.

        A search that decides as results come may ask for others when it is resumed.
        """
        turns = [self.stored.get(turn_id) for turn_id in expansion.turn_ids]
        return expansion.parent.id in self._replayed and all(
            turn is not None
            and turn.agent == expansion.agent
            and all(turn.info.get(name, value) == value for name, value in expansion.note.items())
            for turn in turns
        )

    def _finish(self, expansion: Expansion, nodes: list[Node]) -> list[Node]:
        """Add the new turns to the tree, and pass them to `on_turns`."""
        path = self._paths[expansion.parent.id]
        turns = [node.turn for node in nodes if node.turn is not None]
        for turn in turns:
            self.turns[turn.id] = turn
            self._paths[turn.id] = (*path, turn)
        if self._on_turns is not None:
            self._on_turns(turns)
        return nodes

    def _replay(self, expansion: Expansion, turn: Turn) -> Node:
        return Node(turn, next_state(self._game.rules, self._game.visibility, expansion.parent.state, turn))

    async def _play(self, expansion: Expansion, path: tuple[Turn, ...]) -> list[Node] | None:
        game, problem, tree_id, n = self._game, self._job.problem, self._job.tree_id, len(expansion.turn_ids)
        agent = self._agents.get(expansion.agent)
        if len(path) >= game.rules.max_turns:
            raise ConfigError(
                f"the rules let {expansion.agent} act after {len(path)} turns, but max_turns is "
                f"{game.rules.max_turns}: current_agent() gives None when the episode is over"
            )
        if agent is None:
            raise ConfigError(
                f"the rules let {shown(expansion.agent)} act, but the agents are {', '.join(self._agents)}"
            )
        observation = game.rules.observe(expansion.parent.state, expansion.agent)
        began = perf_counter()
        limit = asyncio.timeout(game.turn_timeout)
        try:
            with only_own_cancellation():
                async with limit:
                    actions = await self._act(
                        agent, observation, n, derive_seed(self._seed, tree_id, expansion.id)
                    )
            if len(actions) != n:
                raise ModelError(
                    f"{expansion.agent} returned {len(actions)} actions where {n} were asked for"
                )
            for action in actions:
                valid_action(action)
        except (ContextError, ServerDown):
            raise  # too little room, if that is to end the run; or a server without which all trees are lost
        except Exception as error:  # a user's agent may raise anything; that must not end the run
            late = limit.expired()
            why = f"TimeoutError: no action within {game.turn_timeout:g} s" if late else describe_error(error)
            self.fault = f"{expansion.agent} at turn {expansion.id}: {why}"
            log.warning(
                "tree %s is discarded: %s",
                tree_id,
                self.fault,
                exc_info=not isinstance(error, MarsError),
            )
            return None
        seconds = perf_counter() - began
        judging = [
            judge(game, problem, tree_id, expansion, i, Act(action, agent.policy, seconds), path)
            for i, action in enumerate(actions)
        ]
        nodes = [await judging[0]] if n == 1 else await gather_all(judging)
        if self._journal is not None:
            self._journal.write_turns([node.turn for node in nodes if node.turn is not None])
        return nodes

    async def _act(self, agent: Agent, observation: Observation, n: int, seed: int) -> list[Action]:
        progress = self._job.progress
        if progress is None or not isinstance(agent, TrainingAgent):
            return await awaitable(agent.act(observation, n, seed), f"{type(agent).__name__}.act()")
        return await agent.act_in_training(observation, n, seed, TrainingAsk(self._job.problem, progress))
