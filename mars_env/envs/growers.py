"""Growers decide which turn of a tree comes next; the engine asks them and tells them the results."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import itemgetter
from typing import Any, Literal, Protocol

import numpy as np
from pydantic import BaseModel, PositiveInt

from mars_env.envs.rules import Rules, State
from mars_env.errors import ConfigError
from mars_env.seeds import derive_seed
from mars_env.types import Problem, Turn, role_of


@dataclass(frozen=True, slots=True)
class TreeNode:
    """A turn, the state after it, and the turns from the root to it, both included; the root has no turn."""

    turn: Turn | None
    state: State
    path: tuple[Turn, ...] = ()

    @property
    def id(self) -> str:
        """The turn's id; empty for the root."""
        return self.turn.id if self.turn else ""

    def child(self, turn: Turn, state: State) -> "TreeNode":
        """The node of a turn on this one, with the state after it."""
        return TreeNode(turn, state, (*self.path, turn))


@dataclass(frozen=True, slots=True)
class Expansion:
    """A request that an agent act ``len(turn_ids)`` times on the parent; turns of a `group` are compared."""

    parent: TreeNode
    agent: str
    turn_ids: tuple[str, ...]
    group: str
    note: Mapping[str, Any] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """Unique within the tree: that of the first turn."""
        return self.turn_ids[0]


class Grower(Protocol):
    """Grows one tree, in the order of the expansions that it returns."""

    def ask(self, k: int) -> list[Expansion]:
        """At most k expansions that can be made now; none while it waits for results, or at the end."""

    def tell(self, expansion: Expansion, nodes: Sequence[TreeNode] | None) -> None:
        """The new nodes of an expansion, without samples that were lost; None if all were."""

    def final(self) -> str | None:
        """Id of the turn that is the team's answer; None where there is none (yet)."""


class MakeGrower(Protocol):
    """Makes the grower of one tree, which is used for that tree only."""

    def __call__(self, rules: Rules, problem: Problem, tree: str, seed: int) -> Grower:
        """A fresh grower; all its random choices derive from `seed` and the tree's id."""


def child_ids(parent: TreeNode, start: int, n: int) -> tuple[str, ...]:
    """Ids of n children of a node, from index `start` on: paths of indices."""
    prefix = f"{parent.id}." if parent.turn else ""
    return tuple(f"{prefix}{i}" for i in range(start, start + n))


def turn_path(turn_id: str) -> tuple[int, ...]:
    """The indices of an id, which sort turns by their place in the tree, parents before children."""
    return tuple(int(number) for number in turn_id.split("."))


class Linear:
    """An episode: every turn has one child.

    The first turns of all episodes of a problem are a group; each later turn has an input of its own.
    """

    def __init__(self, rules: Rules, problem: Problem, tree: str, seed: int) -> None:
        self._rules, self._tree, self._first = rules, tree, f"{problem.id}/0"
        self._leaf = TreeNode(None, rules.start(problem))
        self._submitted: list[str] = []
        self._under_way = False

    def ask(self, k: int) -> list[Expansion]:
        """The next turn, once the result of the last one has arrived."""
        agent = None if self._under_way else self._rules.current_agent(self._leaf.state)
        if agent is None:
            return []
        self._under_way = True
        ids = child_ids(self._leaf, 0, 1)
        group = f"{self._tree}/{ids[0]}" if self._leaf.turn else self._first
        return [Expansion(self._leaf, agent, ids, group)]

    def tell(self, expansion: Expansion, nodes: Sequence[TreeNode] | None) -> None:
        """Continue from the new node; a lost turn ends the episode without an answer."""
        if nodes is None:
            return
        self._under_way = False
        (self._leaf,) = nodes
        turn = self._leaf.turn
        if turn and self._rules.submission(expansion.parent.state, turn.action) is not None:
            self._submitted.append(turn.id)

    def final(self) -> str | None:
        """The game's choice among the submissions, once the episode is over."""
        if self._under_way or self._rules.current_agent(self._leaf.state) is not None:
            return None
        index = self._rules.final(self._leaf.state)
        return None if index is None else self._submitted[index]


class _Rollout:
    """Grows a training tree: what is ready is given out in its order, and no turn is the team's answer."""

    _ready: list[Expansion]

    def ask(self, k: int) -> list[Expansion]:
        """The turns that can be made now."""
        orders, self._ready = self._ready[:k], self._ready[k:]
        return orders

    def final(self) -> str | None:
        """A training tree has no answer."""
        return None


class Levels(_Rollout):
    """So many turns on every turn of the level above, all of them continued.

    The last one of `sizes` holds for all deeper levels, too. The turns on one turn are a group; with
    `chains`, all turns of one agent at one depth are.
    """

    def __init__(
        self, rules: Rules, problem: Problem, tree: str, seed: int, sizes: Sequence[int], chains: bool = False
    ) -> None:
        self._rules, self._tree = rules, tree
        self._sizes, self._chains = sizes, chains
        self._ready = self._orders(TreeNode(None, rules.start(problem)))

    def tell(self, expansion: Expansion, nodes: Sequence[TreeNode] | None) -> None:
        """Continue each new node; below a lost turn nothing grows."""
        for node in nodes or ():
            self._ready += self._orders(node)

    def _orders(self, parent: TreeNode) -> list[Expansion]:
        agent, depth = self._rules.current_agent(parent.state), len(parent.path)
        if agent is None:
            return []
        ids = child_ids(parent, 0, self._sizes[min(depth, len(self._sizes) - 1)])
        group = f"{agent}/{depth}" if self._chains else ids[0]
        return [Expansion(parent, agent, ids, f"{self._tree}/{group}")]


def levels(sizes: Sequence[int]) -> MakeGrower:
    """A function that makes `Levels` growers."""
    if not sizes or min(sizes) < 1:
        raise ConfigError(f"levels need at least one turn each, got {', '.join(map(str, sizes)) or 'none'}")
    return partial(Levels, sizes=sizes)


def chains(n: int) -> MakeGrower:
    """A function that makes growers of n independent episodes of one problem in one tree.

    A group is all turns of one agent at one depth, though they answer different inputs, which MarsRL argues
    against (arXiv 2511.11373). A run that trains on them has no ``rollouts``.

    Example:
        >>> from mars_env.envs import solve
        >>> [order] = chains(3)(solve(), Problem("p", "2 + 2?", "4"), "p#0", seed=0).ask(1)
        >>> order.turn_ids, order.group
        (('0', '1', '2'), 'p#0/solver_0/0')
    """
    if n < 2:
        raise ConfigError(f"chains need at least 2 episodes of a problem to compare, got {n}")
    return partial(Levels, sizes=(n, 1), chains=True)


class GroupedSettings(BaseModel, frozen=True, extra="forbid", use_attribute_docstrings=True):
    """MarsRL's grouped agentic rollouts (arXiv 2511.11373, training)."""

    group: PositiveInt = 8
    """Samples of one agent on one and the same input."""
    branches: PositiveInt = 2
    """Outputs of an agent that the next one continues."""
    sampling: Literal["random", "balanced", "adaptive"] = "adaptive"
    """How they are chosen. Adaptive prefers the reward that `prefer` names (how is our reading of the paper),
    then takes others at random; balanced takes equally many of reward 1 and of reward 0, as far as it can."""
    prefer: Mapping[str, float] = {"verifier": 0.0, "corrector": 1.0}
    """The reward that adaptive sampling prefers, by the role that reads the output."""


class Grouped(_Rollout):
    """Groups of `group` turns on each input; the next stage continues `branches` of every stage's outputs.

    The Solver makes one group for the problem; each later agent takes two outputs of the agent before it and
    makes a group for each: at most 9 groups, 72 samples a problem under the paper's training chain. A turn
    that ends the episode is not continued, so the Corrector only gets reports of an error.
    """

    def __init__(
        self,
        rules: Rules,
        problem: Problem,
        tree: str,
        seed: int,
        settings: GroupedSettings = GroupedSettings(),  # noqa: B008 (frozen)
    ) -> None:
        self._rules, self._tree, self._seed, self._settings = rules, tree, seed, settings
        self._stage: dict[str, Sequence[TreeNode]] = {}
        self._start_stage([TreeNode(None, rules.start(problem))])

    def tell(self, expansion: Expansion, nodes: Sequence[TreeNode] | None) -> None:
        """Take a finished group; after the last one of the stage, choose the outputs to continue."""
        self._stage[expansion.id] = nodes or ()
        if len(self._stage) < self._groups:
            return
        # In the order of asking, whatever finishes first: the choice is reproducible.
        outputs = [node for key in sorted(self._stage, key=turn_path) for node in self._stage[key]]
        self._start_stage(self._choose(outputs, len(expansion.parent.path) + 1))

    def _start_stage(self, parents: Sequence[TreeNode]) -> None:
        self._stage, self._ready = {}, []
        for parent in parents:
            agent = self._rules.current_agent(parent.state)
            if agent is not None:
                ids = child_ids(parent, 0, self._settings.group)
                self._ready.append(Expansion(parent, agent, ids, f"{self._tree}/{ids[0]}"))
        self._groups = len(self._ready)

    def _choose(self, outputs: Sequence[TreeNode], depth: int) -> list[TreeNode]:
        """At most `branches` of the outputs that can be continued, in the order of their ids."""
        continuing = [node for node in outputs if self._rules.current_agent(node.state) is not None]
        rewarded = [node for node in continuing if node.turn is None or node.turn.reward is not None]
        candidates = rewarded or continuing
        rng = np.random.default_rng(derive_seed(self._seed, self._tree, "carry on", depth))
        shuffled = [candidates[i] for i in rng.permutation(len(candidates))]
        ranked = sorted(zip(self._ranks(shuffled), shuffled, strict=True), key=itemgetter(0))  # stable
        chosen = [node for _, node in ranked[: self._settings.branches]]
        return sorted(chosen, key=lambda node: turn_path(node.id))

    def _ranks(self, nodes: Sequence[TreeNode]) -> list[float]:
        """What the sampling strategy wants first has the lowest rank."""
        if self._settings.sampling == "adaptive":
            return [self._distance_from_preference(node) for node in nodes]
        if self._settings.sampling == "random":
            return [0.0] * len(nodes)
        # Balanced: high and low rewards alternate, as far as there are both.
        high = [node.turn is not None and (node.turn.reward or 0.0) > 0.5 for node in nodes]
        return [high[:i].count(is_high) + (is_high != high[0]) / 2 for i, is_high in enumerate(high)]

    def _distance_from_preference(self, node: TreeNode) -> float:
        agent = self._rules.current_agent(node.state)
        preferred = self._settings.prefer.get(role_of(agent)) if agent else None
        reward = node.turn.reward if node.turn else None
        return 0.0 if preferred is None or reward is None else abs(reward - preferred)


def grouped(settings: GroupedSettings) -> MakeGrower:
    """A function that makes `Grouped` growers with these settings."""
    return partial(Grouped, settings=settings)
