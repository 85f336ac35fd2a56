"""Growers decide which turn of a tree comes next; the engine asks them and tells them the results.

    while expansions := grower.ask(k):
        for each: act n times on its parent's state, grade, reward; grower.tell(expansion, nodes)

`Linear` plays an episode, `Chains` several of one problem, `Levels` a group on every turn, `Grouped` grows
MarsRL's grouped agentic rollouts, `SearchGrower` (in its own module) a tree search. A grower is used for one
tree only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, Protocol

import numpy as np
from pydantic import BaseModel, ConfigDict, PositiveInt

from mars_env.envs.rules import Rules
from mars_env.errors import ConfigError
from mars_env.seeds import derive_seed
from mars_env.text import shown
from mars_env.types import Problem, Turn, role_of


@dataclass(frozen=True, slots=True)
class Node:
    """A turn and the state after it; the root has no turn."""

    turn: Turn | None
    state: Any

    @property
    def id(self) -> str:
        """The turn's id; the empty text for the root."""
        return self.turn.id if self.turn else ""


@dataclass(frozen=True, slots=True)
class Expansion:
    """A request that an agent act ``len(turn_ids)`` times on the state of the parent.

    Attributes:
        parent: The node that gets the new turns.
        agent: Who acts.
        turn_ids: Ids of the new turns; the first one names the expansion.
        group: Id of the group that they are compared in.
        note: Plain data to record with the new turns.
    """

    parent: Node
    agent: str
    turn_ids: tuple[str, ...]
    group: str
    note: Mapping[str, Any] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """Unique within the tree."""
        return self.turn_ids[0]


class Grower(Protocol):
    """Grows one tree, in the order of the expansions that it returns."""

    def ask(self, k: int) -> list[Expansion]:
        """At most k expansions that can be made now; none while it waits for results, or at the end."""
        ...

    def tell(self, expansion: Expansion, nodes: Sequence[Node] | None) -> None:
        """The new nodes of an expansion; None if it was lost."""
        ...

    def final(self) -> str | None:
        """Id of the turn that is the team's answer; None where there is none (yet)."""
        ...


class MakeGrower(Protocol):
    """Makes the grower of one tree."""

    def __call__(self, rules: Rules[Any], problem: Problem, tree: str, seed: int) -> Grower:
        """A fresh grower; all its random choices derive from `seed` and the tree's id."""
        ...


def child_ids(parent: Node, start: int, n: int) -> tuple[str, ...]:
    """Ids of n children of a node: paths of indices.

    Example:
        >>> child_ids(Node(None, None), 0, 2)
        ('0', '1')
    """
    prefix = f"{parent.id}." if parent.turn else ""
    return tuple(f"{prefix}{i}" for i in range(start, start + n))


class Linear:
    """An episode: every turn has one child. Turns are grouped by tree and agent.

    Example:
        >>> from mars_env.envs.solve import Solve
        >>> grower = Linear(Solve(), Problem("p", "2 + 2?", "4"), "p#0", seed=0)
        >>> [order] = grower.ask(1)
        >>> order.agent, order.turn_ids, grower.ask(1)
        ('solver_0', ('0',), [])
    """

    def __init__(self, rules: Rules[Any], problem: Problem, tree: str, seed: int) -> None:
        self._rules = rules
        self._tree = tree
        self._leaf = Node(None, rules.start(problem))
        self._submitted: list[str] = []
        self._waiting = False

    def ask(self, k: int) -> list[Expansion]:
        """The next turn, once the result of the last one has arrived."""
        agent = None if self._waiting else self._rules.current_agent(self._leaf.state)
        if agent is None:
            return []
        self._waiting = True
        return [Expansion(self._leaf, agent, child_ids(self._leaf, 0, 1), f"{self._tree}/{agent}")]

    def tell(self, expansion: Expansion, nodes: Sequence[Node] | None) -> None:
        """Continue from the new node; a lost turn ends the episode without an answer."""
        if nodes is None:
            return
        self._waiting = False
        (self._leaf,) = nodes
        turn = self._leaf.turn
        if turn and self._rules.submission(expansion.parent.state, turn.action) is not None:
            self._submitted.append(turn.id)

    def final(self) -> str | None:
        """The rules' choice among the submissions, once the episode is over."""
        if self._waiting or self._rules.current_agent(self._leaf.state) is not None:
            return None
        index: Any = self._rules.final(self._leaf.state)
        if index is None:
            return None
        if not isinstance(index, int) or not 0 <= index < len(self._submitted):
            raise ConfigError(
                f"final() of the rules gives the place of the answer among the graded turns, 0 to "
                f"{len(self._submitted) - 1}, or None, not {shown(index)}"
            )
        return self._submitted[index]


class Levels:
    """So many turns on every turn of the level above, all of them continued; those on one turn are a group.

    Example:
        >>> from mars_env.envs.solve import Solve
        >>> grower = Levels(Solve(revisions=1), Problem("p", "2 + 2?", "4"), "p#0", seed=0, sizes=(2, 3))
        >>> [order] = grower.ask(8)
        >>> order.turn_ids, order.group
        (('0', '1'), 'p#0/0')
    """

    def __init__(
        self, rules: Rules[Any], problem: Problem, tree: str, seed: int, sizes: Sequence[int]
    ) -> None:
        self._rules = rules
        self._tree = tree
        self._sizes = sizes
        self._ready = self._orders(Node(None, rules.start(problem)))

    def ask(self, k: int) -> list[Expansion]:
        """The turns that can be made now."""
        orders, self._ready = self._ready[:k], self._ready[k:]
        return orders

    def tell(self, expansion: Expansion, nodes: Sequence[Node] | None) -> None:
        """Continue each new node; below a lost turn nothing grows."""
        for node in nodes or ():
            self._ready += self._orders(node)

    def final(self) -> str | None:
        """A training tree has no answer."""
        return None

    def _orders(self, parent: Node) -> list[Expansion]:
        agent = self._rules.current_agent(parent.state)
        if agent is None:
            return []
        depth = parent.id.count(".") + 1 if parent.turn else 0
        ids = child_ids(parent, 0, self._sizes[min(depth, len(self._sizes) - 1)])
        return [Expansion(parent, agent, ids, self._group(agent, depth, ids))]

    def _group(self, agent: str, depth: int, ids: Sequence[str]) -> str:
        return f"{self._tree}/{ids[0]}"


def levels(sizes: Sequence[int]) -> MakeGrower:
    """A function that makes `Levels` growers; the last size holds for all deeper levels, too.

    Raises:
        ConfigError: There is no size, or one below 1.
    """
    if not sizes or min(sizes) < 1:
        raise ConfigError(f"levels need at least one turn each, got {', '.join(map(str, sizes)) or 'none'}")
    return partial(Levels, sizes=sizes)


class Chains(Levels):
    """Independent episodes of one problem in one tree; a group is all turns of one agent at one depth.

    The simplest way to train a team by groups, and the one that MarsRL argues against (arXiv 2511.11373): the
    turns of a group answer different inputs, except for the first agent's.

    Example:
        >>> from mars_env.envs.solve import Solve
        >>> grower = Chains(Solve(), Problem("p", "2 + 2?", "4"), "p#0", seed=0, n=3)
        >>> [order] = grower.ask(1)
        >>> order.turn_ids, order.group
        (('0', '1', '2'), 'p#0/solver_0/0')
    """

    def __init__(self, rules: Rules[Any], problem: Problem, tree: str, seed: int, n: int) -> None:
        super().__init__(rules, problem, tree, seed, (n, 1))

    def _group(self, agent: str, depth: int, ids: Sequence[str]) -> str:
        return f"{self._tree}/{agent}/{depth}"


def chains(n: int) -> MakeGrower:
    """A function that makes `Chains` growers of n episodes; a run that trains on them has no ``rollouts``.

    Raises:
        ConfigError: n is below 2, and nothing could be compared.
    """
    if n < 2:
        raise ConfigError(f"chains need at least 2 episodes of a problem to compare, got {n}")
    return partial(Chains, n=n)


class GroupedSettings(BaseModel):
    """MarsRL's grouped agentic rollouts (arXiv 2511.11373, training)."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    group: PositiveInt = 8
    """Samples of one agent on one and the same input."""
    branches: PositiveInt = 2
    """Outputs of an agent that the next one continues."""
    sampling: Literal["random", "balanced", "adaptive"] = "adaptive"
    """How they are chosen. Adaptive prefers the reward that `prefer` names and takes the remaining ones at
    random (the paper does not say how it does: this is our reading); balanced takes equally many of reward 1
    and of reward 0, as far as there are any."""
    prefer: Mapping[str, float] = {"verifier": 0.0, "corrector": 1.0}
    """By the role that will read the output, the reward of the outputs that adaptive sampling
    prefers: Verifiers read wrong solutions, Correctors truthful reports."""


class Grouped:
    """Groups of `group` turns on each input; the next stage continues `branches` of every stage's outputs.

    The Solver makes one group for the problem; each later agent takes two outputs of the agent
    before it and makes a group for each: at most 9 groups, 72 samples a problem under the
    paper's training chain. A turn that ends the episode is not continued, so the Corrector only gets
    reports of an error.
    """

    def __init__(
        self,
        rules: Rules[Any],
        problem: Problem,
        tree: str,
        seed: int,
        settings: GroupedSettings = GroupedSettings(),  # noqa: B008 (frozen)
    ) -> None:
        self._rules = rules
        self._tree = tree
        self._seed = seed
        self._settings = settings
        self._depth = 0
        self._ready = self._orders([Node(None, rules.start(problem))])
        self._open = len(self._ready)
        self._stage: dict[str, Sequence[Node]] = {}

    def ask(self, k: int) -> list[Expansion]:
        """The groups of the current stage."""
        orders, self._ready = self._ready[:k], self._ready[k:]
        return orders

    def tell(self, expansion: Expansion, nodes: Sequence[Node] | None) -> None:
        """Take a finished group; after the last one of the stage, choose the outputs to continue."""
        self._stage[expansion.id] = nodes or ()
        self._open -= 1
        if self._open:
            return
        # In the order of asking, whatever finishes first: the choice is reproducible.
        outputs = [node for key in sorted(self._stage, key=_path) for node in self._stage[key]]
        self._depth += 1
        self._stage = {}
        self._ready = self._orders(self._choose(outputs))
        self._open = len(self._ready)

    def final(self) -> str | None:
        """A training tree has no answer."""
        return None

    def _orders(self, parents: Sequence[Node]) -> list[Expansion]:
        orders = []
        for parent in parents:
            agent = self._rules.current_agent(parent.state)
            if agent is not None:
                ids = child_ids(parent, 0, self._settings.group)
                orders.append(Expansion(parent, agent, ids, f"{self._tree}/{ids[0]}"))
        return orders

    def _choose(self, outputs: Sequence[Node]) -> list[Node]:
        """At most `branches` of the outputs that can be continued, in the order of their ids."""
        continuing = [node for node in outputs if self._rules.current_agent(node.state) is not None]
        known = [node for node in continuing if node.turn is None or node.turn.reward is not None]
        candidates = known or continuing
        rng = np.random.default_rng(derive_seed(self._seed, self._tree, "carry on", self._depth))
        shuffled = [candidates[i] for i in rng.permutation(len(candidates))]
        ranked = sorted(shuffled, key=self._rank(shuffled))  # stable: equals stay shuffled
        return sorted(ranked[: self._settings.branches], key=lambda node: _path(node.id))

    def _rank(self, shuffled: Sequence[Node]) -> Callable[[Node], float]:
        """A key that puts first what the sampling strategy wants first."""
        if self._settings.sampling == "adaptive":
            return self._distance_from_preference
        if self._settings.sampling == "balanced":
            return _alternating(shuffled)
        return lambda node: 0.0

    def _distance_from_preference(self, node: Node) -> float:
        agent = self._rules.current_agent(node.state)
        preferred = self._settings.prefer.get(role_of(agent)) if agent else None
        reward = node.turn.reward if node.turn else None
        return 0.0 if preferred is None or reward is None else abs(reward - preferred)


def grouped(settings: GroupedSettings) -> MakeGrower:
    """A function that makes `Grouped` growers with these settings."""
    return partial(Grouped, settings=settings)


def _alternating(nodes: Sequence[Node]) -> Callable[[Node], float]:
    """Ranks nodes so that high and low rewards alternate, as far as there are both."""
    ranks: dict[int, float] = {}
    counts = {True: 0.0, False: 0.0}
    first_high = bool(nodes) and _is_high(nodes[0])
    for node in nodes:
        high = _is_high(node)
        ranks[id(node)] = counts[high] + (0.0 if high == first_high else 0.5)
        counts[high] += 1.0
    return lambda node: ranks[id(node)]


def _is_high(node: Node) -> bool:
    return node.turn is not None and node.turn.reward is not None and node.turn.reward > 0.5


def _path(turn_id: str) -> tuple[int, ...]:
    return tuple(int(part) for part in turn_id.split("."))
