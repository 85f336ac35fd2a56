"""A search by ask and tell: waves, budgets and early stop, around any algorithm.

It does not see what a node holds: only ids, names of agents and scores.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Self

import numpy as np
from pydantic import Field, JsonValue, PositiveInt, model_validator

from mars_env.errors import ConfigError
from mars_env.search.algorithm import Ask, Options
from mars_env.search.registry import make_algorithm


class SearchSettings(Options):
    """How to search: the algorithm, its budget, how many expansions run at once."""

    algorithm: str = "ab-mcts-a"
    """A name of `mars_env.search.ALGORITHMS`, ``treequest:<class>``, or ``my_module:MyAlgorithm``."""
    options: Mapping[str, JsonValue] = Field(default_factory=dict)
    """The algorithm's own settings."""
    calls: PositiveInt = 60
    """Expansions in all, lost ones included: a dead model cannot keep a search going (60: the paper's
    evaluation; it trains on 8)."""
    tokens: PositiveInt | None = None
    """The search stops once this many tokens were spent."""
    stop_at: float | None = Field(default=1.0, ge=0.0, le=1.0)
    """The search stops once a node has this score; None searches to the end of the budget."""
    wave: PositiveInt | None = None
    """Expansions that are decided together and run in parallel. None: as many as the `ask` that
    starts the wave requests."""
    as_completed: bool = False
    """Decide each expansion as soon as a worker is free. No worker waits for a slower one, but the tree
    depends on which finishes first."""

    @model_validator(mode="after")
    def _one_schedule(self) -> Self:
        if self.as_completed and self.wave is not None:
            raise ValueError("a search runs in waves or as completed: leave out `wave` or `as_completed`")
        return self


class Search:
    """One search of one tree. Each agent is a separate arm; the seed is the only source of randomness.

    By default it runs in waves: all asks of a wave are decided before any of its results arrives, and scores
    enter the tree in the order of asking, so the same seed and scores give the same tree. Early stop and the
    token budget take effect between waves.

    Raises:
        ConfigError: An unknown algorithm or option, or no agents.

    Example:
        >>> search = Search(SearchSettings(calls=6), agents=("coder_0", "coder_1"), seed=0)
        >>> [(ask.id, ask.parent) for ask in search.ask(2)], search.ask(2)
        ([(0, None), (1, None)], [])
        >>> search.tell(1, 0.5)
        >>> search.tell(0, None)  # lost: a fault of the machinery
        >>> while asks := search.ask(2):
        ...     for ask in asks:
        ...         search.tell(ask.id, 0.25, tokens=100)
        >>> search.best(), search.reason, search.tokens
        (1, 'calls', 400)
    """

    def __init__(self, settings: SearchSettings, agents: Sequence[str], seed: int) -> None:
        if not agents or len(set(agents)) != len(agents):
            names = ", ".join(agents) or "none"
            raise ConfigError(f"a search needs at least one agent and no name twice, got {names}")
        self.settings = settings
        self.agents = tuple(agents)
        self._rng = np.random.default_rng(seed)
        self._algorithm = make_algorithm(settings.algorithm, settings.options, self.agents, seed)
        self._asks: list[Ask] = []
        self._scores: dict[int, float | None] = {}
        self._results: dict[int, tuple[float | None, int]] = {}  # results that are not yet in the tree
        self._queue: list[int] = []  # decided, but not yet returned by `ask`
        self._tokens = 0
        self._solved = False
        self._exhausted = False

    @property
    def asks(self) -> Sequence[Ask]:
        """Everything asked for so far, by id: with `scores`, the whole tree."""
        return self._asks

    @property
    def scores(self) -> Mapping[int, float | None]:
        """Score by id, of the nodes in the tree; None for lost ones. Pending ids are missing."""
        return self._scores

    @property
    def tokens(self) -> int:
        """Tokens spent so far."""
        return self._tokens

    @property
    def reason(self) -> str:
        """Why it has stopped: solved, tokens, calls or exhausted; empty while it continues."""
        if self._solved:
            return "solved"
        if self.settings.tokens is not None and self._tokens >= self.settings.tokens:
            return "tokens"
        if len(self._asks) >= self.settings.calls:
            return "calls"
        return "exhausted" if self._exhausted else ""

    @property
    def done(self) -> bool:
        """Whether the search has stopped and every result has arrived."""
        return not self._open and self.reason != ""

    @property
    def _open(self) -> int:
        return len(self._asks) - len(self._scores)

    def ask(self, k: int) -> list[Ask]:
        """At most k > 0 expansions that can be made now; none while the wave waits, or at the end."""
        if k < 1:
            raise ConfigError(f"ask for at least one expansion, got k = {k}")
        if self.settings.as_completed:
            self._decide(k)  # nothing is queued: all that is decided is handed out
        elif not self._open:
            self._decide(self.settings.wave or k)
        handed, self._queue = self._queue[:k], self._queue[k:]
        return [self._asks[id] for id in handed]

    def tell(self, id: int, score: float | None, tokens: int = 0) -> None:
        """Give the score of an expansion, in [0, 1] (None if it was lost or is unknown), and its cost."""
        if not 0 <= id < len(self._asks) or id in self._queue:
            raise ConfigError(f"node {id} was never asked for: use the ids that ask() returned")
        if id in self._scores or id in self._results:
            raise ConfigError(f"node {id} already has a result: tell each id once")
        if score is not None and not (math.isfinite(score) and 0.0 <= score <= 1.0):
            raise ConfigError(f"the score of node {id} is in [0, 1], or None if unknown: got {score!r}")
        if tokens < 0:
            raise ConfigError(f"node {id} cannot have cost {tokens} tokens")
        self._results[id] = (score, tokens)
        if self.settings.as_completed:
            self._settle(id)
        else:
            # Every ask before the first one that is missing is settled, so this loop costs one pass in all.
            while len(self._scores) in self._results:
                self._settle(len(self._scores))

    def best(self) -> int | None:
        """Id of the node with the highest score, the first asked for among equals; None without nodes."""
        return next(iter(self.candidates()), None)

    def candidates(self) -> list[int]:
        """Ids of all nodes with the highest score, in the order of asking; a vote may choose among them.

        Example:
            >>> search = Search(SearchSettings(algorithm="best-of-n", calls=3), ("coder_0",), seed=0)
            >>> for ask in search.ask(3):
            ...     search.tell(ask.id, 0.5 if ask.id else 0.0)
            >>> search.candidates()
            [1, 2]
        """
        scores = {id: score for id, score in self._scores.items() if score is not None}
        top = max(scores.values(), default=None)
        return sorted(id for id, score in scores.items() if score == top)

    def _decide(self, n: int) -> None:
        """Draw up to n expansions; each sees those before it as pending."""
        for _ in range(n):
            if self.reason:
                return
            choice = self._algorithm.choose(self._rng)
            if choice is None:
                self._exhausted = not self._open  # with nothing pending, nothing can change any more
                return
            ask = Ask(len(self._asks), *choice)
            self._asks.append(ask)
            self._algorithm.add(ask)
            self._queue.append(ask.id)

    def _settle(self, id: int) -> None:
        score, tokens = self._results.pop(id)
        self._scores[id] = score
        self._tokens += tokens
        if score is None:
            self._algorithm.drop(self._asks[id])
        else:
            self._algorithm.score(self._asks[id], score)
            self._solved |= self.settings.stop_at is not None and score >= self.settings.stop_at
