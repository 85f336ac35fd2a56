"""Standard MCTS: UCT with a fixed number of children per node (Kocsis and Szepesvári, 2006).

There is no rollout: a node is a complete solution, and its score its value. A pending expansion counts as a
visit of value 0 along its path.
"""

import math
from collections.abc import Sequence

import numpy as np
from pydantic import NonNegativeFloat, PositiveInt

from mars_env.search.algorithm import Algorithm, Ask, Options


class UCTSettings(Options):
    """Options of UCT."""

    samples: PositiveInt = 2
    """Children that a node gets from each agent."""
    exploration: NonNegativeFloat = math.sqrt(2)
    """Weight of ``sqrt(log(parent's visits) / visits)`` relative to the mean score."""


class _Node:
    __slots__ = ("by_agent", "children", "id", "parent", "total", "visits")

    def __init__(self, id: int | None, parent: "_Node | None", agents: Sequence[str]) -> None:
        self.id, self.parent = id, parent
        self.children: list[_Node] = []
        self.by_agent = dict.fromkeys(agents, 0)  # children asked for, pending ones included
        self.visits = 0
        self.total = 0.0


class UCT(Algorithm):
    """UCT over the given agents."""

    Settings = UCTSettings

    def __init__(self, agents: Sequence[str], settings: UCTSettings) -> None:
        self._agents = tuple(agents)
        self._settings = settings
        self._root = _Node(None, None, agents)
        self._nodes: dict[int | None, _Node] = {None: self._root}

    def choose(self, rng: np.random.Generator) -> tuple[int | None, str] | None:
        """The first node that lacks a child, on the way down by upper bounds.

        A subtree whose nodes are all pending is skipped for the next best; None if all are.
        """
        stack = [self._root]
        while stack:
            node = stack.pop()
            agent = min(self._agents, key=node.by_agent.__getitem__)
            if node.by_agent[agent] < self._settings.samples:
                return node.id, agent
            best_first = sorted(node.children, key=self._upper_bound, reverse=True)
            stack += best_first[::-1]
        return None

    def add(self, ask: Ask) -> None:
        """Count a visit of value 0 along the path."""
        self._nodes[ask.parent].by_agent[ask.agent] += 1
        self._visit(self._nodes[ask.parent], 1, 0.0)

    def score(self, ask: Ask, score: float) -> None:
        """Add the node, and its score along the path."""
        parent = self._nodes[ask.parent]
        node = _Node(ask.id, parent, self._agents)
        node.visits, node.total = 1, score
        parent.children.append(node)
        self._nodes[ask.id] = node
        self._visit(parent, 0, score)

    def drop(self, ask: Ask) -> None:
        """Undo the visit."""
        self._nodes[ask.parent].by_agent[ask.agent] -= 1
        self._visit(self._nodes[ask.parent], -1, 0.0)

    def _visit(self, node: _Node | None, visits: int, score: float) -> None:
        while node is not None:
            node.visits += visits
            node.total += score
            node = node.parent

    def _upper_bound(self, node: _Node) -> float:
        above = math.log(node.parent.visits if node.parent else 1)
        return node.total / node.visits + self._settings.exploration * math.sqrt(above / node.visits)
