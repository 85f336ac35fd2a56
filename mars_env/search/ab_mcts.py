"""AB-MCTS-A: adaptive branching by Thompson sampling, with node aggregation.

At every node the search samples whether to go wider (GEN: a new child of this node) or deeper (CONT: into an
existing child), and which agent acts. Source: Inoue et al., "Wider or Deeper?" (arXiv 2503.04412), as
TreeQuest 0.3.3 implements it; the depth-guided form is MARS2-T+ (arXiv 2602.07848).

GEN has observed the scores of this node's children, CONT those of everything below these, a child its own and
those below it, an agent those of all its nodes in the tree (``stack``: in this node's subtree). A pending
expansion counts as an observation of 0 along its path until its result arrives.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from pydantic import Field

from mars_env.search.algorithm import Algorithm, Ask, Options
from mars_env.search.posteriors import BetaPrior, GaussianPrior


class ABMCTSASettings(Options):
    """Options of AB-MCTS-A."""

    prior: BetaPrior | GaussianPrior = Field(default=BetaPrior(), discriminator="kind")
    """The belief about every arm before its first score; Gaussian is what MARS2's release runs."""
    choice: Literal["thompson", "ucb", "stack"] = "thompson"
    """How the agent is chosen: after GEN, by Thompson sampling or by UCB over all that each agent did in the
    tree (TreeQuest's ``multiarm_bandit_*``); or first, at each node, where each agent has its own GEN and
    CONT arms (TreeQuest's ``stack``)."""
    depth_decay: float | None = Field(default=None, gt=0.0, le=1.0)
    """MARS2-T+ takes 0.98: the draw of GEN is weighted by ``g(d) ** c``, where c is how often GEN was taken
    at this node and d its depth, so that the tree grows deeper. The papers say that g shrinks with depth, but
    not how; here ``g(d) = depth_decay ** (d + 1)``, and the root has depth 0. A draw below 0, which a
    Gaussian prior may give, is divided by the weight: the weight never raises a draw. None: off."""


@dataclass(slots=True)
class _Sums:
    n: int = 0
    total: float = 0.0
    squares: float = 0.0

    def add(self, n: int, score: float) -> None:
        self.n += n
        self.total += score
        self.squares += score * score


Rows: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]
"""n, total and squares of each child."""

_NO_ROWS: Rows = np.empty((0, 3))


class _Arms:
    __slots__ = ("_table", "children", "cont", "gen")

    def __init__(self) -> None:
        self.gen, self.cont = _Sums(), _Sums()
        self.children: list[_Node] = []
        self._table = _NO_ROWS  # grows by doubling: a node may have thousands of children

    @property
    def rows(self) -> Rows:
        """n, total and squares of each child."""
        return self._table[: len(self.children)]

    def append(self, child: "_Node") -> None:
        size = len(self.children)
        if size == len(self._table):
            self._table = np.concatenate([self._table, np.zeros((max(4, size), 3))])
        self.children.append(child)

    def add(self, place: int, n: int, score: float) -> None:
        self.rows[place] += n, score, score * score


class _Node:
    """A node: the child `place` of the parent's arms `group`; the root has no id."""

    __slots__ = ("arms", "depth", "group", "id", "parent", "place")

    def __init__(self, id: int | None, parent: "_Node | None", group: int, groups: int) -> None:
        self.id, self.parent, self.group = id, parent, group
        self.depth: int = 0 if parent is None else parent.depth + 1
        self.place = 0 if parent is None else len(parent.arms[group].children)
        self.arms: list[_Arms] = [_Arms() for _ in range(groups)]


class ABMCTSA(Algorithm):
    """AB-MCTS-A over the given agents.

    Example:
        >>> ABMCTSA(("coder_0", "coder_1"), ABMCTSASettings()).choose(np.random.default_rng(0))
        (None, 'coder_1')
    """

    Settings = ABMCTSASettings

    def __init__(self, agents: Sequence[str], settings: ABMCTSASettings) -> None:
        self._agents = tuple(agents)
        self._settings = settings
        stack = settings.choice == "stack"
        self._group = {agent: i if stack else 0 for i, agent in enumerate(agents)}
        self._groups = len(agents) if stack else 1
        self._by_agent = {agent: _Sums() for agent in agents}
        self._root = _Node(None, None, 0, self._groups)
        self._nodes: dict[int | None, _Node] = {None: self._root}

    def choose(self, rng: np.random.Generator) -> tuple[int | None, str] | None:
        """Walk down from the root by Thompson sampling to the node that gets the new child."""
        node = self._root
        while True:
            group = self._draw_group(node, rng)
            arms = node.arms[group]
            if not arms.children or not self._goes_on(node, arms, rng):
                return node.id, self._agents[group] if self._groups > 1 else self._draw_agent(rng)
            node = self._draw_child(arms, rng)

    def add(self, ask: Ask) -> None:
        """Count the expansion as pending along its path."""
        self._update(ask, 1)

    def score(self, ask: Ask, score: float) -> None:
        """Add the node, and its score along its path."""
        parent = self._nodes[ask.parent]
        arms = parent.arms[self._group[ask.agent]]
        node = self._nodes[ask.id] = _Node(ask.id, parent, self._group[ask.agent], self._groups)
        arms.append(node)
        arms.add(node.place, 1, score)
        self._update(ask, 0, score)

    def drop(self, ask: Ask) -> None:
        """Undo the pending count."""
        self._update(ask, -1)

    def _update(self, ask: Ask, n: int, score: float = 0.0) -> None:
        node = self._nodes[ask.parent]
        node.arms[self._group[ask.agent]].gen.add(n, score)
        self._by_agent[ask.agent].add(n, score)
        while (above := node.parent) is not None:
            arms = above.arms[node.group]
            arms.cont.add(n, score)
            arms.add(node.place, n, score)
            node = above

    def _draw_group(self, node: _Node, rng: np.random.Generator) -> int:
        if self._groups == 1:
            return 0
        both = [
            (arms.gen.n + arms.cont.n, arms.gen.total + arms.cont.total, arms.gen.squares + arms.cont.squares)
            for arms in node.arms
        ]
        return int(np.argmax([self._settings.prior.draw(rng, *sums) for sums in both]))

    def _goes_on(self, node: _Node, arms: _Arms, rng: np.random.Generator) -> bool:
        gen = self._draw(arms.gen, rng)
        cont = self._draw(arms.cont, rng)
        if self._settings.depth_decay is None:
            return cont > gen
        return _exceeds(cont, gen, self._settings.depth_decay ** ((node.depth + 1) * arms.gen.n))

    def _draw_child(self, arms: _Arms, rng: np.random.Generator) -> _Node:
        if len(arms.children) == 1:
            return arms.children[0]
        return arms.children[int(self._settings.prior.draw(rng, *arms.rows.T).argmax())]

    def _draw_agent(self, rng: np.random.Generator) -> str:
        if len(self._agents) == 1:
            return self._agents[0]
        sums = self._by_agent.values()
        if self._settings.choice == "ucb":
            return self._agents[np.argmax(_upper_bounds(list(sums)))]
        return self._agents[np.argmax([self._draw(arm, rng) for arm in sums])]

    def _draw(self, sums: _Sums, rng: np.random.Generator) -> float:
        return float(self._settings.prior.draw(rng, sums.n, sums.total, sums.squares))


def _exceeds(cont: float, gen: float, weight: float) -> bool:
    """Whether CONT's draw exceeds GEN's, which is lowered by a weight in [0, 1].

    The weight multiplies a draw of 0 or more and divides one below 0, so it lowers both.

    Example:
        >>> _exceeds(0.5, 0.6, 1.0), _exceeds(0.5, 0.6, 0.8), _exceeds(-0.55, -0.5, 0.8)
        (False, True, True)
    """
    return cont * weight > gen if gen < 0 else cont > gen * weight  # no division: a weight may reach 0


def _upper_bounds(arms: Sequence[_Sums]) -> list[float]:
    logarithm = math.log(max(1, sum(arm.n for arm in arms)))
    return [arm.total / arm.n + math.sqrt(2 * logarithm / arm.n) if arm.n else math.inf for arm in arms]
