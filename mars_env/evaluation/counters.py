"""What a run has done so far: `Counters` count, and progress lines, live views and loggers read snapshots."""

import asyncio
import re
import time
from collections import Counter, defaultdict, deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import NamedTuple

from mars_env.evaluation.costs import Prices, price_of
from mars_env.evaluation.statistics import student_t
from mars_env.evaluation.trees import is_right, prompt_tokens, sampled_tokens, system_right
from mars_env.loggers import Logger
from mars_env.sync import end_tasks
from mars_env.text import describe_error, logger, one_line
from mars_env.types import Tree, Turn, Verdict

log = logger(__name__)

WINDOW = 30.0
"""Rates are averages over this many seconds."""


class Share(NamedTuple):
    """How many of a number of cases are true."""

    true: int
    cases: int

    @property
    def value(self) -> float:
        """The share itself."""
        return self.true / self.cases

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's 95% interval with Student's t: a report's, if each case is a problem of its own.

        Example:
            >>> [round(bound, 3) for bound in Share(0, 10).interval]
            [0.0, 0.339]
        """
        n, p = self.cases, self.value
        t = float(student_t(n))
        middle = (p + t**2 / (2 * n)) / (1 + t**2 / n)
        half = t / (1 + t**2 / n) * (p * (1 - p) / n + t**2 / (4 * n**2)) ** 0.5
        return max(0.0, middle - half), min(1.0, middle + half)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a run has done so far; None where something is not known.

    `episodes` are finished trees, those of an earlier run that this one continues included. `accuracy` is the
    share of them whose answer is right; `correct` that of right graded turns and `accepts` that of verdicts
    "Correct", by role; `faults` are discarded trees and `unknown` grades UNKNOWN, by reason. Rates are over
    the last `WINDOW` seconds.
    """

    episodes: int
    total: int | None
    turns: int
    read_tokens: int
    sampled_tokens: int
    cost: float | None
    accuracy: Share | None
    correct: Mapping[str, Share]
    accepts: Mapping[str, Share]
    faults: Mapping[str, int]
    unknown: Mapping[str, int]
    seconds: float
    turns_per_second: float
    tokens_per_second: float
    seconds_left: float | None

    def metrics(self) -> dict[str, float]:
        """All of it by name, as loggers take it: ``rollout/episodes``, ``rollout/correct/solver`` ...

        Example:
            >>> Counters(total=4).snapshot().metrics()["rollout/total"]
            4.0
        """
        values: dict[str, float] = {}
        for name in self.__slots__:
            value = getattr(self, name)
            entries = value if isinstance(value, Mapping) else {"": value}
            for key, entry in entries.items():
                number = entry.value if isinstance(entry, Share) else entry
                if number is not None:
                    values[f"rollout/{name}/{key}".removesuffix("/")] = float(number)
        return values


class Counters:
    """Counts the turns and trees of a run as they are finished.

    Pass `count_turns` as `on_turns` and `count_tree` as `on_tree`. Snapshots may be taken in any thread.

    Example:
        >>> from mars_env.types import Action, Problem
        >>> counters = Counters(total=2)
        >>> turn = Turn("p#0", "0", None, "g", "solver_0", "", "p", Action("4"))
        >>> counters.count_tree(Tree("p#0", Problem("p", "2 + 2?", "4"), (turn,), final="0"))
        >>> counters.snapshot().episodes, counters.snapshot().turns
        (1, 1)
    """

    def __init__(
        self,
        total: int | None = None,
        *,
        finished: int = 0,
        prices: Prices | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._total, self._finished, self._prices, self._clock = total, finished, prices, clock
        self._start = clock()
        self._trees = self._turns = 0
        self._read: Counter[str] = Counter()  # tokens by policy
        self._sampled: Counter[str] = Counter()
        self._answers: Counter[bool] = Counter()
        self._grades: Counter[tuple[str, bool]] = Counter()  # by role and whether it is right
        self._verdicts: Counter[tuple[str, bool]] = Counter()  # by role and whether it accepts
        self._faults: Counter[str] = Counter()
        self._unknown: Counter[str] = Counter()
        self._counted: defaultdict[str, set[str]] = defaultdict(set)  # ids of turns of unfinished trees
        self._recent: deque[tuple[float, int, int]] = deque()  # when, turns, sampled tokens

    def count_turns(self, turns: Sequence[Turn]) -> None:
        """Count turns, each once, however often it comes."""
        now, before, tokens = self._clock(), self._turns, self._sampled.total()
        for turn in turns:
            if turn.id not in self._counted[turn.tree_id]:
                self._counted[turn.tree_id].add(turn.id)
                self._count(turn)
        self._recent.append((now, self._turns - before, self._sampled.total() - tokens))
        while self._recent[0][0] < now - WINDOW:
            self._recent.popleft()

    def count_tree(self, tree: Tree) -> None:
        """Count a tree that is finished or discarded, and its turns that are not counted yet."""
        self.count_turns(tree.turns)
        self._counted.pop(tree.id, None)
        self._trees += 1
        right = system_right(tree)
        if right is not None:
            self._answers[right] += 1
        if tree.fault:
            self._faults[_kind(tree.fault)] += 1

    def snapshot(self) -> Snapshot:
        """What has been counted until now."""
        now = self._clock()
        seconds, trees = now - self._start, self._trees
        recent = [row for row in self._recent.copy() if row[0] >= now - WINDOW]
        window = max(1.0, min(seconds, WINDOW))
        left = None if self._total is None else max(0, self._total - self._finished - trees)
        return Snapshot(
            episodes=self._finished + trees,
            total=self._total,
            turns=self._turns,
            read_tokens=self._read.total(),
            sampled_tokens=self._sampled.total(),
            cost=self._cost(),
            accuracy=Share(self._answers[True], self._answers.total()) if self._answers else None,
            correct=_shares(self._grades.copy()),
            accepts=_shares(self._verdicts.copy()),
            faults=self._faults.copy(),
            unknown=self._unknown.copy(),
            seconds=seconds,
            turns_per_second=sum(turns for _, turns, _ in recent) / window,
            tokens_per_second=sum(tokens for _, _, tokens in recent) / window,
            seconds_left=left * seconds / trees if left is not None and trees else None,
        )

    def _count(self, turn: Turn) -> None:
        self._turns += 1
        self._read[turn.policy] += prompt_tokens(turn)
        self._sampled[turn.policy] += sampled_tokens(turn)
        right = is_right(turn)
        if right is not None:
            self._grades[turn.role, right] += 1
        elif turn.grade is not None and turn.grade.verdict is Verdict.UNKNOWN:
            self._unknown[_kind(turn.grade.reason)] += 1
        if turn.accepts is not None and not turn.action.interrupted:
            self._verdicts[turn.role, turn.accepts] += 1

    def _cost(self) -> float | None:
        prices = self._prices
        if prices is None or not ("" in prices or self._read.keys() <= prices.keys()):
            return None
        amount = 0.0
        for policy, read in self._read.copy().items():
            of_read, of_sampled = price_of(policy, prices)
            amount += of_read * read + of_sampled * self._sampled[policy]
        return amount / 1e6


def _shares(counts: Mapping[tuple[str, bool], int]) -> dict[str, Share]:
    cases: Counter[str] = Counter()
    for (role, _), number in counts.items():
        cases[role] += number
    return {role: Share(counts.get((role, True), 0), number) for role, number in cases.items()}


def _kind(reason: str) -> str:
    """A reason without the place and the numbers in which those of one kind differ."""
    text = re.sub(r"^\S+ at turn \S+: ", "", " ".join(reason.split()))
    return one_line(re.sub(r"[0-9]+(\.[0-9]+)*", "N", text), 80) or "no reason given"


@asynccontextmanager
async def logged(counters: Counters, destination: Logger | None, every: float = 10.0) -> AsyncIterator[None]:
    """While this is open, snapshots go to a logger, whose errors are warnings; the step counts turns."""
    if destination is None:
        yield
        return
    destination.start(0)
    task = asyncio.create_task(_log_often(counters, destination, every))
    try:
        yield
    finally:
        await end_tasks([task])
        _log(counters, destination)
        _call(destination.close)


async def _log_often(counters: Counters, destination: Logger, every: float) -> None:
    while True:
        await asyncio.sleep(every)
        _log(counters, destination)


def _log(counters: Counters, destination: Logger) -> None:
    snapshot = counters.snapshot()
    _call(destination.log, snapshot.turns, snapshot.metrics())


def _call(function: Callable[..., None], *arguments: object) -> None:
    try:
        function(*arguments)
    except Exception as error:  # a user's logger may raise anything; it must not cost the run
        log.warning("the metrics of the run could not be logged: %s", describe_error(error))
