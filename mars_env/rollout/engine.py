"""The engine: plays many trees at the same time, over any agents, and loses no finished turn.

A tree depends only on the run's seed and its own id: every request carries a seed derived from them, so the
same seed gives the same trees whatever the concurrency. (Real models round differently in different batches.)
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext
from dataclasses import dataclass, field
from time import perf_counter
from typing import Protocol

from mars_env.checks import require_integer, valid_action
from mars_env.envs.game import Game
from mars_env.envs.growers import Expansion, TreeNode, turn_path
from mars_env.envs.play import Act, conclude, play_turn
from mars_env.envs.rewards import with_rewards
from mars_env.envs.visibility import next_state
from mars_env.errors import ConfigError, ContextError, ModelError, ServerDown
from mars_env.seeds import derive_seed
from mars_env.sync import awaitable, end_tasks, gather_all, only_own_cancellation, turn_limit
from mars_env.text import brief, describe_error, logger, raised
from mars_env.types import (
    Action,
    Agent,
    Completion,
    Observation,
    Problem,
    TrainingAgent,
    TrainingAsk,
    Tree,
    Turn,
)

log = logger(__name__)


@dataclass(frozen=True, slots=True)
class Job:
    """One tree to play: an episode on a problem. In training, `progress` is the share of the run done."""

    problem: Problem
    sample: int = 0
    progress: float | None = None

    @property
    def tree_id(self) -> str:
        """Id of the tree, such as ``"aime/3#2"``."""
        return f"{self.problem.id}#{self.sample}"


class Journal(Protocol):
    """Where finished turns are written immediately, and where a resumed run finds them."""

    def turns_of(self, tree_id: str) -> Mapping[str, Turn]:
        """Stored turns of an unfinished tree, by id."""

    def write_turns(self, turns: Sequence[Turn]) -> None:
        """Keep the turns of one finished expansion."""

    def write_tree(self, tree: Tree, team_rewards: Mapping[str, float | None]) -> None:
        """Keep that a tree is finished, and the rewards that changed when it ended."""


LEFT_OUT = "left_out"
"""In a tree's info: ids of turns that the journal has of it, and that a resumed tree did not take again."""

_WIDTH = 64
"""Most expansions of one tree under way at the same time."""

OnTurns = Callable[[Sequence[Turn]], None]
"""Gets the turns of every expansion as soon as it is finished; in a grouped rollout they are one group."""

Gate = Callable[[Job, Expansion], AbstractAsyncContextManager[object]]
"""Entered before the agent of an expansion acts, left when `OnTurns` has its turns: schedules wait here."""


def at_most(width: int) -> Gate:
    """A gate that lets this many expansions act at the same time."""
    room = asyncio.Semaphore(require_integer(width, "width"))
    return lambda job, expansion: room


async def play(
    game: Game,
    agents: Mapping[str, Agent],
    job: Job,
    *,
    seed: int,
    journal: Journal | None = None,
    on_turns: OnTurns | None = None,
    gate: Gate = lambda job, expansion: nullcontext(),
) -> Tree:
    """Play one tree to its end; if an agent could not act, it has a fault, which says why, and no answer."""
    stored = journal.turns_of(job.tree_id) if journal is not None else {}
    player = _Player(game, agents, job, seed, journal, on_turns, gate, stored)
    grower = game.grower(game.rules, job.problem, job.tree_id, seed)
    under_way: dict[asyncio.Task[list[TreeNode] | None], Expansion] = {}
    try:
        while True:
            expansions = grower.ask(_WIDTH - len(under_way))
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
    except (ContextError, ServerDown):
        await end_tasks(under_way)
        if journal is not None:  # so that a resumed run plays it last
            journal.write_tree(player.tree(), {})
        raise
    finally:
        await end_tasks(under_way)
    tree, team_rewards = await conclude(game, player.tree(), grower.final(), seed)
    if journal is not None:
        journal.write_tree(tree, team_rewards)
    return with_rewards(tree, team_rewards)


async def play_all(
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

    Closing the iterator early cancels whatever is under way, and so does an error of the machinery around the
    agents (the store cannot be written, a game's rules raised).
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
        await asyncio.gather(all_done, return_exceptions=True)  # retrieves its exception


async def collect(
    game: Game,
    agents: Mapping[str, Agent],
    jobs: Sequence[Job],
    *,
    seed: int,
    concurrency: int = 64,
    journal: Journal | None = None,
) -> list[Tree]:
    """Play the jobs as `play_all` does, and return their trees, in the order of the jobs."""
    playing = play_all(game, agents, jobs, seed=seed, concurrency=concurrency, journal=journal)
    async with aclosing(playing) as played:
        trees = {tree.id: tree async for tree in played}
    return [trees[job.tree_id] for job in jobs]


def add_turns(turns_by_id: dict[str, Turn], turns: Iterable[Turn]) -> None:
    """Add turns of a tree by id; one that was played again replaces the earlier one and what grew from it."""
    for turn in turns:
        if turn.id in turns_by_id:
            for later in [id for id in turns_by_id if id.startswith(f"{turn.id}.")]:
                del turns_by_id[later]
        turns_by_id[turn.id] = turn


@dataclass(slots=True)
class _Player:
    game: Game
    agents: Mapping[str, Agent]
    job: Job
    seed: int
    journal: Journal | None
    on_turns: OnTurns | None
    gate: Gate
    stored: Mapping[str, Turn]
    turns: dict[str, Turn] = field(default_factory=dict)
    replayed: set[str] = field(default_factory=lambda: {""})  # ids, the root's included
    fault: str = ""

    def tree(self) -> Tree:
        turns = tuple(sorted(self.turns.values(), key=lambda turn: turn_path(turn.id)))
        left_out = sorted(self.stored.keys() - self.turns.keys())
        info = {LEFT_OUT: left_out} if left_out else {}
        return Tree(self.job.tree_id, self.job.problem, turns, None, self.fault, info)

    async def expand(self, expansion: Expansion) -> list[TreeNode] | None:
        """The nodes of an expansion: as they were played before, or played now; None if the agent failed."""
        if self._is_stored(expansion):
            self.replayed |= {*expansion.turn_ids}
            stored = [self.stored[turn_id] for turn_id in expansion.turn_ids]
            return self._finish([self._replay(expansion.parent, turn) for turn in stored])
        async with self.gate(self.job, expansion):
            acts = await self._act(expansion)
            return None if acts is None else self._finish(await self._judge(expansion, acts))

    def _is_stored(self, expansion: Expansion) -> bool:
        """Whether its turns were played before: on the same parent, by this agent, with this note.

        A search that decides as results come may ask for others when it is resumed.
        """
        turns = [self.stored.get(turn_id) for turn_id in expansion.turn_ids]
        return expansion.parent.id in self.replayed and all(
            turn is not None
            and turn.agent == expansion.agent
            and all(turn.info.get(name, value) == value for name, value in expansion.note.items())
            for turn in turns
        )

    def _replay(self, parent: TreeNode, turn: Turn) -> TreeNode:
        return parent.child(turn, next_state(self.game.rules, self.game.visibility, parent.state, turn))

    def _finish(self, nodes: list[TreeNode]) -> list[TreeNode]:
        """Add the new turns to the tree, and pass them to `on_turns`; gives the nodes that were not lost."""
        turns = _turns(nodes)
        self.turns |= {turn.id: turn for turn in turns}
        if self.on_turns is not None:
            self.on_turns(turns)
        return [node for node in nodes if node.turn is None or not node.turn.action.fault]

    async def _act(self, expansion: Expansion) -> list[Act] | None:
        """What the agent does; None if it failed, and the tree then has a fault."""
        name, parent, rules = expansion.agent, expansion.parent, self.game.rules
        agent = self.agents.get(name)
        if agent is None:
            raise ConfigError(f"the rules let {brief(name)} act, but the agents are {', '.join(self.agents)}")
        observation, n = rules.observe(parent.state, name), len(expansion.turn_ids)
        seed = derive_seed(self.seed, self.job.tree_id, expansion.id)
        began = perf_counter()
        try:
            with only_own_cancellation():
                async with turn_limit(self.game.turn_timeout):
                    actions = await self._request(agent, observation, n, seed)
            actions = self._checked(expansion, actions)
        except (ContextError, ServerDown) as error:  # what ends a run
            self.fault = f"{name} at turn {expansion.id}: {raised(error)}"
            raise
        except Exception as error:  # a user's agent may raise anything; that must not end the run
            self.fault = f"{name} at turn {expansion.id}: {raised(error)}"
            log.warning("tree %s is discarded: %s", self.job.tree_id, self.fault)
            log.debug("it was discarded because of this error", exc_info=True)
            return None
        seconds = perf_counter() - began
        return [Act(action, agent.policy, seconds) for action in actions]

    def _checked(self, expansion: Expansion, actions: Sequence[Action]) -> list[Action]:
        """The samples of a turn; those that cannot be stored are lost, and if all are, an error is raised."""
        n, name = len(expansion.turn_ids), expansion.agent
        if len(actions) != n:
            raise ModelError(f"{name} returned {len(actions)} actions where {n} were asked for")
        checked = [_storable(action) for action in actions]
        faults = {id: action.fault for id, action in zip(expansion.turn_ids, checked, strict=True)}
        if all(faults.values()):
            raise ModelError(next(iter(faults.values())))
        for turn_id, fault in faults.items():
            if fault:
                log.warning("turn %s of tree %s is lost: %s: %s", turn_id, self.job.tree_id, name, fault)
        return checked

    async def _request(self, agent: Agent, observation: Observation, n: int, seed: int) -> list[Action]:
        progress = self.job.progress
        if progress is None or not isinstance(agent, TrainingAgent):
            return await awaitable(agent.act(observation, n, seed), f"{type(agent).__name__}.act()")
        return await agent.act_in_training(observation, n, seed, TrainingAsk(self.job.problem, progress))

    async def _judge(self, expansion: Expansion, acts: Sequence[Act]) -> list[TreeNode]:
        tree, problem = self.job.tree_id, self.job.problem
        judging = [play_turn(self.game, problem, tree, expansion, i, act) for i, act in enumerate(acts)]
        nodes = [await judging[0]] if len(acts) == 1 else await gather_all(judging)
        if self.journal is not None:
            self.journal.write_turns(_turns(nodes))
        return nodes


def _storable(action: Action) -> Action:
    """The action, or a lost one where it cannot be stored: a user's agent may return anything."""
    try:
        return valid_action(action)
    except (TypeError, ValueError) as error:
        return Action("", (Completion("", "fault", fault=describe_error(error)),))


def _turns(nodes: Iterable[TreeNode]) -> list[Turn]:
    return [node.turn for node in nodes if node.turn is not None]
