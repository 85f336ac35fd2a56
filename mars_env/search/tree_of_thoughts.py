"""Tree of thoughts, breadth first (Yao et al., arXiv 2305.10601, algorithm 1)."""

from collections.abc import Sequence

import numpy as np
from pydantic import PositiveInt

from mars_env.search.algorithm import Algorithm, Ask, Options


class TreeOfThoughtsSettings(Options):
    """Options of breadth-first tree of thoughts; the defaults are the paper's for its hardest task."""

    samples: PositiveInt = 5
    """Children of every node that is kept; the agents take turns."""
    keep: PositiveInt = 5
    """Nodes of a level that get children: those with the highest scores, the first asked for among equals."""


class TreeOfThoughts(Algorithm):
    """Level by level: the best nodes of the last level get children, the others get none.

    Example:
        >>> algorithm = TreeOfThoughts(("coder_0",), TreeOfThoughtsSettings(samples=2, keep=1))
        >>> for id, score in enumerate((0.2, 0.7)):
        ...     algorithm.add(Ask(id, None, "coder_0"))
        ...     algorithm.score(Ask(id, None, "coder_0"), score)
        >>> algorithm.choose(np.random.default_rng(0))
        (1, 'coder_0')
    """

    Settings = TreeOfThoughtsSettings

    def __init__(self, agents: Sequence[str], settings: TreeOfThoughtsSettings) -> None:
        self._agents = tuple(agents)
        self._settings = settings
        self._start_level([None])

    def choose(self, rng: np.random.Generator) -> tuple[int | None, str] | None:
        """The next child of the level; None until all results of the level have arrived."""
        return self._orders[self._asked] if self._asked < len(self._orders) else None

    def add(self, ask: Ask) -> None:
        """One more node of the level is pending."""
        self._asked += 1

    def score(self, ask: Ask, score: float) -> None:
        """One more node of the level exists."""
        self._level.append((-score, ask.id))
        self._settle()

    def drop(self, ask: Ask) -> None:
        """The level goes on without it."""
        self._settle()

    def _start_level(self, parents: Sequence[int | None]) -> None:
        self._parents = parents
        turns = [self._agents[i % len(self._agents)] for i in range(self._settings.samples)]
        self._orders = [(parent, agent) for parent in parents for agent in turns]
        self._asked = 0
        self._settled = 0
        self._level: list[tuple[float, int]] = []

    def _settle(self) -> None:
        self._settled += 1
        if self._settled == len(self._orders):
            best = [id for _, id in sorted(self._level)[: self._settings.keep]]
            self._start_level(best or self._parents)  # a level that is lost as a whole is tried again
