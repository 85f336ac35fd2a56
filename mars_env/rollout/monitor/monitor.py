"""`Monitor` counts what a run does: turns, verdicts, faults, queues, idle time."""

import re
import time
from collections import Counter, defaultdict, deque
from collections.abc import Awaitable, Mapping, Sequence
from datetime import timedelta
from typing import Protocol, runtime_checkable

from rich.console import Group as Lines
from rich.console import RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from mars_env.rollout.monitor.trace import Trace
from mars_env.types import Action, Agent, Observation, Tree, Turn, Verdict

WINDOW = 30
"""Rates are averages over this many seconds."""


@runtime_checkable
class Measured(Protocol):
    """Something with places and a queue for them: an engine, its `Slots`, a pool of graders."""

    @property
    def capacity(self) -> int:
        """Number of places."""

    @property
    def under_way(self) -> int:
        """Requests that have a place or wait for one."""


class Monitor:
    """Counts what a run does.

    Args:
        total: How many trees are to be played; without it the time left is not estimated.
        finished: How many of them an earlier, interrupted run has finished.
        trace: Records every turn as well.
    """

    def __init__(self, total: int | None = None, *, finished: int = 0, trace: Trace | None = None) -> None:
        self.total, self._trace = total, trace
        self._began, self._before, self._trees = time.monotonic(), finished, 0
        self._acts: dict[str, int] = {}
        self._remote_acting: dict[int, Mapping[str, int]] = {}
        self._measured: dict[str, Measured] = {}
        self._free: defaultdict[str, float] = defaultdict(float)  # places times seconds
        self._sampled = self._began
        self._turns = self._now = 0
        self._rates: deque[tuple[int, int, int]] = deque(maxlen=WINDOW)  # second, turns, tokens
        self._idle, self._idle_since = 0.0, self._began
        self._known: defaultdict[str, set[str]] = defaultdict(set)  # turns of unfinished trees, counted
        self._unknown: Counter[str] = Counter()
        self._faults: Counter[str] = Counter()
        self._judged: defaultdict[str, Counter[str]] = defaultdict(Counter)  # verdicts: those Correct, all
        self._correct: defaultdict[str, Counter[str]] = defaultdict(Counter)

    def watch(self, agents: Mapping[str, Agent]) -> dict[str, Agent]:
        """The same agents, observed while they act."""
        self._acts |= dict.fromkeys(agents, 0)
        return {name: _WatchedAgent(name, agent, self) for name, agent in agents.items()}

    def measure(self, name: str, measured: Measured) -> None:
        """Observe the queue and the free places of something from now on."""
        self.sample()
        self._measured[name] = measured
        self._free[name] = (self._sampled - self._began) * measured.capacity  # unused so far

    def measure_models(self, agents: Mapping[str, Agent]) -> None:
        """Observe the models of these agents, by name, if they report their places and requests.

        Further models of the same name, on other servers say, get a number.
        """
        models = {id(m): m for agent in agents.values() if (m := getattr(agent, "model", None)) is not None}
        for model in models.values():
            if isinstance(model, Measured):
                name = getattr(model, "name", "") or "model"
                alike = sum(known == name or known.startswith(f"{name} ") for known in self._measured)
                self.measure(f"{name} {alike + 1}" if alike else name, model)

    def sample(self) -> None:
        """Count the free places now; the more often this is called, the more exact are the idle shares."""
        now = time.monotonic()
        for name, measured in self._measured.copy().items():
            free = max(0, measured.capacity - measured.under_way)
            self._free[name] += free * (now - self._sampled)
        self._sampled = now

    @property
    def acting(self) -> dict[str, int]:
        """How many acts of each agent are under way."""
        return {name: count for name, count in self._acts.copy().items() if count}

    @property
    def begun(self) -> bool:
        """Whether anything has been played, or is being played."""
        return bool(self._now or self._turns or self._trees)

    def record_turns(self, turns: Sequence[Turn]) -> None:
        """Count the grades and verdicts of turns, each once; those of unfinished trees count, too."""
        for turn in turns:
            if turn.id in self._known[turn.tree_id]:
                continue
            self._known[turn.tree_id].add(turn.id)
            if turn.grade is not None and turn.grade.verdict is Verdict.UNKNOWN:
                self._unknown[_short(turn.grade.reason)] += 1
            elif turn.grade is not None:
                self._correct[turn.role].update(yes=turn.grade.verdict is Verdict.CORRECT, all=1)
            if "verdict" in turn.info and not turn.action.interrupted:
                self._judged[turn.role].update(yes=turn.info["verdict"] == "Correct", all=1)

    def record_tree(self, tree: Tree) -> None:
        """Count a tree that is finished or discarded, and its turns that are not counted yet."""
        self._trees += 1
        if tree.fault:
            _, *named = tree.fault.split(": ", 2)  # "<agent> at turn <id>: <error>: <words>"
            self._faults[_short(named[0] if named else tree.fault)] += 1
        self.record_turns(tree.turns)
        self._known.pop(tree.id, None)
        if self._trace is not None:
            self._trace.tree_ended(tree.id, tree.fault)

    def record_remote_turns(self, turns: Sequence[Turn]) -> None:
        """Count the turns of one expansion that another process has played."""
        if not turns:
            return
        self.record_turns(turns)
        first = turns[0]
        self._acted(first.agent, first.seconds, len(turns), [turn.action for turn in turns])

    def record_remote_acting(self, process: int, acting: Mapping[str, int]) -> None:
        """Update how many acts of each agent are under way in another process."""
        before = self._remote_acting.get(process, {})
        for agent in {*before, *acting}:
            self._under_way(agent, acting.get(agent, 0) - before.get(agent, 0))
        self._remote_acting[process] = acting

    def figures(self) -> dict[str, float]:
        """All present metrics by name, as loggers take them.

        ``trees/...`` (finished, faulty, total), ``turns/...`` (finished, per_second, in_flight),
        ``in_flight/<agent>``, ``tokens/per_second``, ``accepted/<role>`` (share of its verdicts that say
        Correct), ``correct/<role>`` (share of its graded turns so far), ``unknown/<reason>`` and
        ``fault/<error>`` (counts), ``seconds/elapsed``, ``seconds/left`` and ``idle_share`` (the part of
        the time in which no agent acted). For what is measured: ``queue/<name>`` (requests that wait
        for a place), ``busy/<name>`` (places in use), ``idle/<name>`` (share of the places unused so far).
        """
        self.sample()
        now = time.monotonic()
        elapsed = max(now - self._began, 1e-9)
        turns, tokens = self._recent(int(now), elapsed)
        idle = self._idle + (0.0 if self._now else now - self._idle_since)
        values = {
            "trees/finished": float(self._before + self._trees),
            "trees/faulty": float(self._faults.total()),
            "turns/finished": float(self._turns),
            "turns/per_second": turns,
            "turns/in_flight": float(self._now),
            **{f"in_flight/{name}": float(count) for name, count in self._acts.copy().items()},
            "tokens/per_second": tokens,
            **{f"accepted/{role}": n["yes"] / n["all"] for role, n in self._judged.copy().items()},
            **{f"correct/{role}": n["yes"] / n["all"] for role, n in self._correct.copy().items()},
            **{f"unknown/{reason}": float(count) for reason, count in self._unknown.copy().items()},
            **{f"fault/{kind}": float(count) for kind, count in self._faults.copy().items()},
            "idle_share": idle / elapsed,
            **self._queues(),
            "seconds/elapsed": elapsed,
        }
        if self.total is not None:
            values["trees/total"] = float(self.total)
            if self._trees:
                left = self.total - self._before - self._trees
                values["seconds/left"] = max(0, left) * elapsed / self._trees
        return values

    def __rich__(self) -> RenderableType:
        """The live view: a line of progress, a line of rates, a line for each kind of problem."""
        return live_view(self.figures())

    async def _observed(self, agent: str, n: int, acting: Awaitable[list[Action]]) -> list[Action]:
        """What an agent's act gives."""
        self._under_way(agent, 1)
        began, error, known = time.perf_counter(), "", list[Action]()
        try:
            actions = await acting
            if isinstance(actions, list | tuple):  # the engine says what is wrong
                known = [each for each in actions if isinstance(each, Action)]
            return actions
        except BaseException as raised:
            error = type(raised).__name__
            raise
        finally:
            self._under_way(agent, -1)
            self._acted(agent, time.perf_counter() - began, n, known, error)

    def _queues(self) -> dict[str, float]:
        values, elapsed = {}, max(self._sampled - self._began, 1e-9)
        for name, measured in self._measured.copy().items():
            capacity, under_way = measured.capacity, measured.under_way
            values[f"queue/{name}"] = float(max(0, under_way - capacity))
            values[f"busy/{name}"] = float(min(under_way, capacity))
            values[f"idle/{name}"] = min(1.0, self._free[name] / (capacity * elapsed))
        return values

    def _under_way(self, agent: str, more: int) -> None:
        """Add to the number of acts of an agent that are under way."""
        now = time.monotonic()
        if not self._now:
            self._idle += now - self._idle_since
        self._now += more
        self._acts[agent] = self._acts.get(agent, 0) + more
        if not self._now:
            self._idle_since = now

    def _acted(self, agent: str, seconds: float, n: int, actions: Sequence[Action], error: str = "") -> None:
        """Count an act that has ended."""
        tokens = sum(each.sampled_tokens for action in actions for each in action.completions)
        self._turns += len(actions)
        if self._trace is not None:
            now = time.perf_counter()
            self._trace.turn(agent, now - seconds, now, n=n, tokens=tokens, error=error)
        second, turns = int(time.monotonic()), len(actions)
        if self._rates and self._rates[-1][0] == second:
            _, before, tokens_before = self._rates.pop()
            turns, tokens = turns + before, tokens + tokens_before
        self._rates.append((second, turns, tokens))

    def _recent(self, second: int, elapsed: float) -> tuple[float, float]:
        """Turns and tokens per second, over the window or since the start."""
        rows = [row for row in self._rates.copy() if row[0] > second - WINDOW]
        over = max(1.0, min(elapsed, float(WINDOW)))
        return sum(row[1] for row in rows) / over, sum(row[2] for row in rows) / over


class _WatchedAgent:
    """An agent that is observed."""

    def __init__(self, name: str, agent: Agent, monitor: Monitor) -> None:
        self._name, self._agent, self._monitor = name, agent, monitor

    @property
    def policy(self) -> str:
        return self._agent.policy

    async def act(self, observation: Observation, n: int, seed: int) -> list[Action]:
        return await self._monitor._observed(self._name, n, self._agent.act(observation, n, seed))


def _short(reason: str) -> str:
    """A reason as the name of a counter: one line without numbers, so that there are few different ones."""
    return re.sub(r"[0-9]+(\.[0-9]+)?", "N", " ".join(reason.split()))[:80] or "no reason given"


def live_view(figures: Mapping[str, float]) -> RenderableType:
    """Metrics of a `Monitor` as a few lines for a terminal."""
    done, total = figures["trees/finished"], figures.get("trees/total")
    bar = Table.grid(padding=(0, 2))
    left = figures.get("seconds/left")
    bar.add_row(
        ProgressBar(total, done, width=30),
        f"{done:,.0f}/{total:,.0f} episodes" if total is not None else f"{done:,.0f} episodes",
        f"{timedelta(seconds=int(figures['seconds/elapsed']))} elapsed",
        f"{timedelta(seconds=int(left))} left" if left is not None else "",
    )
    rates = [f"{figures['turns/per_second']:,.1f} turns/s", f"{figures['tokens/per_second']:,.0f} tokens/s"]
    rates.append(f"{figures['turns/in_flight']:,.0f} in flight")
    rates.append(f"idle {figures['idle_share']:.0%}")
    rates += [f"{role} correct {share:.0%}" for role, share in _under("correct", figures)]
    rates += [f"{role} accepts {share:.0%}" for role, share in _under("accepted", figures)]
    lines: list[RenderableType] = [bar, Text("  ".join(rates))]
    if queues := _under("queue", figures):
        parts = (f"{name}: {n:,.0f} wait, idle {figures[f'idle/{name}']:.0%}" for name, n in queues)
        lines.append(Text("  ".join(parts)))
    for kind, sign in (("unknown", "UNKNOWN"), ("fault", "discarded")):
        for what, count in sorted(_under(kind, figures), key=lambda row: -row[1])[:3]:
            lines.append(Text(f"{sign} {count:,.0f}: {what}", style="yellow"))
    return Lines(*lines)


def _under(kind: str, figures: Mapping[str, float]) -> list[tuple[str, float]]:
    return [(name.partition("/")[2], value) for name, value in figures.items() if name.startswith(f"{kind}/")]
