"""The two baselines of every search: only wider (best-of-n), and only deeper (sequential refinement)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from pydantic import PositiveInt

from mars_env.search.algorithm import Algorithm, Ask, Options


class BestOfNSettings(Options):
    """Best-of-N has no options: N is the budget in calls."""


class BestOfN(Algorithm):
    """Repeated sampling: every node is a fresh start; the agents take turns.

    Example:
        >>> BestOfN(("coder_0", "coder_1"), BestOfNSettings()).choose(np.random.default_rng(0))
        (None, 'coder_0')
    """

    Settings = BestOfNSettings

    def __init__(self, agents: Sequence[str], settings: BestOfNSettings) -> None:
        self._agents = tuple(agents)
        self._asked = 0

    def choose(self, rng: np.random.Generator) -> tuple[int | None, str] | None:
        """The next agent, at the root."""
        return None, self._agents[self._asked % len(self._agents)]

    def add(self, ask: Ask) -> None:
        """The next node goes to the next agent."""
        self._asked += 1


class RefinementSettings(Options):
    """Options of sequential refinement."""

    chains: PositiveInt = 1
    """Chains that are refined in turn; expansions of different chains can run in parallel."""


@dataclass(slots=True)
class _Chain:
    tip: int | None = None
    steps: int = 0
    pending: int | None = None


class Refinement(Algorithm):
    """Sequential refinement: every node refines the last one of its chain; the agents take turns.

    Example:
        >>> algorithm, ask = Refinement(("coder_0",), RefinementSettings()), Ask(0, None, "coder_0")
        >>> algorithm.add(ask)
        >>> algorithm.score(ask, 0.0)
        >>> algorithm.choose(np.random.default_rng(0))
        (0, 'coder_0')
    """

    Settings = RefinementSettings

    def __init__(self, agents: Sequence[str], settings: RefinementSettings) -> None:
        self._agents = tuple(agents)
        self._chains = [_Chain() for _ in range(settings.chains)]

    def choose(self, rng: np.random.Generator) -> tuple[int | None, str] | None:
        """The shortest chain that is not waiting; None if all are."""
        if (chain := self._shortest()) is None:
            return None
        turn = self._chains.index(chain) + chain.steps
        return chain.tip, self._agents[turn % len(self._agents)]

    def add(self, ask: Ask) -> None:
        """The chain waits."""
        chain = self._shortest()
        assert chain is not None
        chain.pending = ask.id
        chain.steps += 1

    def score(self, ask: Ask, score: float) -> None:
        """The chain continues from the new node."""
        chain = self._pending(ask)
        chain.tip, chain.pending = ask.id, None

    def drop(self, ask: Ask) -> None:
        """The chain tries again from its last node, with the next agent."""
        self._pending(ask).pending = None

    def _shortest(self) -> _Chain | None:
        idle = [chain for chain in self._chains if chain.pending is None]
        return min(idle, key=lambda chain: chain.steps, default=None)

    def _pending(self, ask: Ask) -> _Chain:
        return next(chain for chain in self._chains if chain.pending == ask.id)
