"""Sight of a run while it plays: figures, a live view, metrics for dashboards, a trace of every turn.

    sight = Sight(total=len(jobs))
    async with reporting(sight, logger=TensorBoardLogger("logs"), port=9400):
        async for tree in play_all(game, sight.watch(agents), jobs, seed=0):
            sight.tell(tree)

It looks on from outside: at the agents as they act, and at the trees as they are finished. The engine
knows nothing of it, and a run without it costs nothing.
"""

from __future__ import annotations

import asyncio
import heapq
import json
import re
import time
from collections import Counter, defaultdict, deque
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Protocol, runtime_checkable

from rich.console import Group as Lines
from rich.console import RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from mars_env.types import Action, Agent, Observation, Tree, Turn, Verdict

if TYPE_CHECKING:
    from aiohttp import web

_SAMPLE_SECONDS = 0.1
WINDOW = 30
"""Seconds that rates are taken over."""


class Logger(Protocol):
    """Where figures go; `mars_env.trainers.metrics` has loggers for TensorBoard and others."""

    def start(self, step: int) -> None:
        """Begin."""
        ...

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Take the figures of a moment."""
        ...

    def close(self) -> None:
        """Write what is not yet written."""
        ...


@runtime_checkable
class Measured(Protocol):
    """Something with places and a queue before them: an engine, its `Slots`, a pool of graders."""

    @property
    def capacity(self) -> int:
        """Number of places."""
        ...

    @property
    def under_way(self) -> int:
        """Requests that have a place or wait for one."""
        ...


class Sight:
    """Counts what a run does.

    Args:
        total: How many trees are to be played; without it no time left is told.
        finished: How many of them an earlier, interrupted run has finished.
        trace: Where every turn is noted, besides.

    Example:
        >>> from mars_env.types import Grade, Problem, Turn
        >>> sight = Sight(total=4)
        >>> turn = Turn("p#0", "0", None, "g", "solver_0", "", "p", Action("4"), Grade.unknown("lost"))
        >>> sight.tell(Tree("p#0", Problem("p", "2 + 2?", "4"), (turn,)))
        >>> sight.figures()["trees/finished"], sight.figures()["unknown/lost"]
        (1.0, 1.0)
    """

    def __init__(self, total: int | None = None, *, finished: int = 0, trace: Trace | None = None) -> None:
        self.total, self._trace = total, trace
        self._began, self._before, self._trees = time.monotonic(), finished, 0
        self._acts: dict[str, int] = {}
        self._elsewhere: dict[int, Mapping[str, int]] = {}
        self._measured: dict[str, Measured] = {}
        self._free: defaultdict[str, float] = defaultdict(float)  # places times seconds
        self._sampled = self._began
        self._turns = self._tokens = self._now = 0
        self._rates: deque[tuple[int, int, int]] = deque(maxlen=WINDOW)  # second, turns, tokens
        self._idle, self._idle_since = 0.0, self._began
        self._unknown: Counter[str] = Counter()
        self._faults: Counter[str] = Counter()
        self._judged: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])  # said Correct, said anything
        self._correct: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])

    def watch(self, agents: Mapping[str, Agent]) -> dict[str, Agent]:
        """The same agents, looked at while they act."""
        self._acts |= dict.fromkeys(agents, 0)
        return {name: _Watched(name, agent, self) for name, agent in agents.items()}

    def measure(self, name: str, measured: Measured) -> None:
        """Look at the queue and the free places of something from now on.

        Example:
            >>> from mars_env.rollout.slots import Slots
            >>> sight = Sight()
            >>> sight.measure("engine", Slots(4))
            >>> figures = sight.figures()
            >>> figures["queue/engine"], round(figures["idle/engine"], 6)
            (0.0, 1.0)
        """
        self.sample()
        self._measured[name] = measured
        self._free[name] = (self._sampled - self._began) * measured.capacity  # nobody used it so far

    def measure_models(self, agents: Mapping[str, Agent]) -> None:
        """Look at the models of some agents, under their names, as far as they tell what they do."""
        models = {id(m): m for agent in agents.values() if (m := getattr(agent, "model", None)) is not None}
        for model in models.values():
            if isinstance(model, Measured):
                self.measure(getattr(model, "name", "") or "model", model)

    def sample(self) -> None:
        """Look at the free places now; shares of idle time are as exact as this is often."""
        now = time.monotonic()
        for name, measured in self._measured.copy().items():
            free = max(0, measured.capacity - measured.under_way)
            self._free[name] += free * (now - self._sampled)
        self._sampled = now

    def tell(self, tree: Tree) -> None:
        """Take note of a tree that is finished, or given up."""
        self._trees += 1
        if tree.fault:
            self._faults[_kind_of(tree.fault)] += 1
        for turn in tree.turns:
            if turn.grade is not None and turn.grade.verdict is Verdict.UNKNOWN:
                self._unknown[_short(turn.grade.reason)] += 1
            elif turn.grade is not None:
                _add(self._correct[turn.role], turn.grade.verdict is Verdict.CORRECT)
            if "verdict" in turn.info and not turn.action.interrupted:
                _add(self._judged[turn.role], turn.info["verdict"] == "Correct")
        if self._trace is not None:
            self._trace.moment(tree.id, tree.fault)

    def hear(self, turns: Sequence[Turn]) -> None:
        """Take note of the turns of one expansion that were played by another process."""
        if not turns:
            return
        self._count(len(turns), sum(_tokens(turn.action) for turn in turns))
        if self._trace is not None:
            now, first = time.perf_counter(), turns[0]
            tokens = sum(_tokens(turn.action) for turn in turns)
            self._trace.turn(first.agent, now - first.seconds, now, n=len(turns), tokens=tokens)

    def elsewhere(self, process: int, acting: Mapping[str, int]) -> None:
        """Take note of how many acts of each agent are under way in another process."""
        before = self._elsewhere.get(process, {})
        for agent in {*before, *acting}:
            self._under_way(agent, acting.get(agent, 0) - before.get(agent, 0))
        self._elsewhere[process] = acting

    def figures(self) -> dict[str, float]:
        """All figures of this moment under one name each, as loggers want them.

        ``trees/...`` (finished, faulty, total), ``turns/...`` (finished, per_second, in_flight),
        ``in_flight/<agent>``, ``tokens/per_second``, ``accepted/<role>`` (share of its verdicts that say
        Correct), ``correct/<role>`` (share of its turns with a known grade), ``unknown/<reason>`` and
        ``fault/<error>`` (counts), ``seconds/elapsed``, ``seconds/left`` and ``idle_share`` (the part of
        the time in which no agent acted). Of what is measured: ``queue/<name>`` (requests that wait for a
        place), ``busy/<name>`` (places in use), ``idle/<name>`` (share of the places unused so far).
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
            **{f"accepted/{role}": a / b for role, (a, b) in self._judged.copy().items()},
            **{f"correct/{role}": a / b for role, (a, b) in self._correct.copy().items()},
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
        """The live view: one line of progress, one of rates, one a kind of trouble."""
        return live_view(self.figures())

    @contextmanager
    def _act(self, agent: str, n: int) -> Iterator[list[Action]]:
        """Around an agent's act; what is put into the list are the actions that came of it."""
        self._under_way(agent, 1)
        began, error, actions = time.perf_counter(), "", list[Action]()
        try:
            yield actions
        except BaseException as raised:
            error = type(raised).__name__
            raise
        finally:
            self._under_way(agent, -1)
            tokens = sum(map(_tokens, actions))
            self._count(len(actions), tokens)
            if self._trace is not None:
                self._trace.turn(agent, began, time.perf_counter(), n=n, tokens=tokens, error=error)

    def _queues(self) -> dict[str, float]:
        values, elapsed = {}, max(self._sampled - self._began, 1e-9)
        for name, measured in self._measured.copy().items():
            capacity, under_way = measured.capacity, measured.under_way
            values[f"queue/{name}"] = float(max(0, under_way - capacity))
            values[f"busy/{name}"] = float(min(under_way, capacity))
            values[f"idle/{name}"] = min(1.0, self._free[name] / (capacity * elapsed))
        return values

    def _under_way(self, agent: str, more: int) -> None:
        """So many more acts of an agent are under way, or fewer."""
        now = time.monotonic()
        if not self._now:
            self._idle += now - self._idle_since
        self._now += more
        self._acts[agent] = self._acts.get(agent, 0) + more
        if not self._now:
            self._idle_since = now

    def _count(self, turns: int, tokens: int) -> None:
        self._turns += turns
        self._tokens += tokens
        second = int(time.monotonic())
        if self._rates and self._rates[-1][0] == second:
            _, before, tokens_before = self._rates.pop()
            turns, tokens = turns + before, tokens + tokens_before
        self._rates.append((second, turns, tokens))

    def _recent(self, second: int, elapsed: float) -> tuple[float, float]:
        """Turns and tokens a second, over the window or since the beginning."""
        rows = [row for row in self._rates.copy() if row[0] > second - WINDOW]
        over = max(1.0, min(elapsed, float(WINDOW)))
        return sum(row[1] for row in rows) / over, sum(row[2] for row in rows) / over


class _Watched:
    """An agent that is looked at."""

    def __init__(self, name: str, agent: Agent, sight: Sight) -> None:
        self._name, self._agent, self._sight = name, agent, sight

    @property
    def policy(self) -> str:
        return self._agent.policy

    async def act(self, observation: Observation, n: int, seed: int) -> list[Action]:
        with self._sight._act(self._name, n) as seen:
            actions = await self._agent.act(observation, n, seed)
            seen += actions
        return actions


def live_view(figures: Mapping[str, float]) -> RenderableType:
    """Figures of a `Sight` as a few lines for a terminal.

    Example:
        >>> from rich.console import Console
        >>> seen = Sight(total=10).figures() | {"trees/finished": 5.0, "unknown/lost": 2.0}
        >>> console = Console(width=80, color_system=None)
        >>> with console.capture() as shown:
        ...     console.print(live_view(seen))
        >>> "5/10 episodes" in shown.get(), "UNKNOWN 2: lost" in shown.get()
        (True, True)
    """
    done, total = figures["trees/finished"], figures.get("trees/total")
    bar = Table.grid(padding=(0, 2))
    left = figures.get("seconds/left")
    bar.add_row(
        ProgressBar(total, done, width=30),
        f"{done:,.0f}/{total:,.0f} episodes" if total is not None else f"{done:,.0f} episodes",
        f"{_clock(figures['seconds/elapsed'])} elapsed",
        f"{_clock(left)} left" if left is not None else "",
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
    for kind, sign in (("unknown", "UNKNOWN"), ("fault", "given up")):
        for what, count in sorted(_under(kind, figures), key=lambda row: -row[1])[:3]:
            lines.append(Text(f"{sign} {count:,.0f}: {what}", style="yellow"))
    return Lines(*lines)


@asynccontextmanager
async def reporting(
    sight: Sight, *, logger: Logger | None = None, every: float = 10.0, port: int | None = None
) -> AsyncIterator[int | None]:
    """While it is open, figures go to a logger and to whoever asks on a port of this machine.

    Args:
        sight: What is reported.
        logger: Gets the figures every so many seconds and at the end; the step is the turns finished.
        every: Seconds.
        port: Serve the figures at ``http://127.0.0.1:<port>/metrics`` in Prometheus' text format; 0 for
            any free port.

    Yields:
        The port that is served.
    """
    if logger is not None:
        logger.start(0)
    sampling = asyncio.create_task(_sample_often(sight))
    task = asyncio.create_task(_log_often(sight, logger, every)) if logger is not None else None
    runner = await _served(sight, port) if port is not None else None
    try:
        yield runner.addresses[0][1] if runner is not None else None
    finally:
        sampling.cancel()
        if runner is not None:
            await runner.cleanup()
        if task is not None and logger is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            _log(sight, logger)
            logger.close()


def prometheus_text(figures: Mapping[str, float]) -> str:
    r"""Figures in Prometheus' text format (version 0.0.4).

    Example:
        >>> print(prometheus_text({"unknown/lost a \"worker\"": 2.0, "idle_share": 0.5}), end="")
        # TYPE mars_env_unknown gauge
        mars_env_unknown{of="lost a \"worker\""} 2.0
        # TYPE mars_env_idle_share gauge
        mars_env_idle_share 0.5
    """
    lines, named = [], set()
    for figure, value in figures.items():
        name, slash, of = figure.partition("/")
        name = "mars_env_" + re.sub(r"\W", "_", name, flags=re.ASCII)
        if name not in named:
            named.add(name)
            lines.append(f"# TYPE {name} gauge\n")
        of = of.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
        lines.append(f'{name}{{of="{of}"}} {value}\n' if slash else f"{name} {value}\n")
    return "".join(lines)


class Trace:
    """A file of every turn that Chrome (``chrome://tracing``) and Perfetto (ui.perfetto.dev) show.

    A row of the picture is a place among the turns under way of one agent. The file can be read even if
    the run was killed. Use it as a context manager.

    Args:
        path: The file, written anew.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with Trace(f"{folder}/trace.json") as trace:
        ...         trace.turn("solver_0", 1.0, 1.5, n=8)
        ...     events = json.loads(Path(f"{folder}/trace.json").read_text())
        >>> [(event["name"], event.get("dur")) for event in events]
        [('process_name', None), ('solver_0', 500000.0)]
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._file: IO[str] = self.path.open("w", encoding="utf-8")
        self._separator = "[\n"
        self._agents: dict[str, int] = {}
        self._lanes: defaultdict[str, list[tuple[float, int]]] = defaultdict(list)  # free from, number

    def __enter__(self) -> Trace:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the file."""
        self._file.write("[]\n" if self._separator == "[\n" else "\n]\n")
        self._file.close()

    def turn(self, agent: str, began: float, ended: float, **args: object) -> None:
        """Note an act of an agent, from and to in seconds of one and the same clock."""
        lanes = self._lanes[agent]
        place = heapq.heappop(lanes) if lanes and lanes[0][0] <= began else (0.0, len(lanes))
        heapq.heappush(lanes, (ended, place[1]))
        self._event(
            name=agent, ph="X", pid=self._pid(agent), tid=place[1], ts=1e6 * began,
            dur=1e6 * (ended - began), args={key: value for key, value in args.items() if value != ""},
        )  # fmt: skip

    def moment(self, tree: str, fault: str = "") -> None:
        """Note that a tree is finished."""
        now = 1e6 * time.perf_counter()
        self._event(name=tree, ph="i", s="g", pid=self._pid("trees"), tid=0, ts=now, args={"fault": fault})

    def _pid(self, agent: str) -> int:
        if agent not in self._agents:
            self._agents[agent] = len(self._agents)
            self._event(name="process_name", ph="M", pid=self._agents[agent], args={"name": agent})
        return self._agents[agent]

    def _event(self, **event: object) -> None:
        self._file.write(self._separator + json.dumps(event, allow_nan=False))
        self._separator = ",\n"


async def _sample_often(sight: Sight) -> None:
    while True:
        await asyncio.sleep(_SAMPLE_SECONDS)
        sight.sample()


async def _log_often(sight: Sight, logger: Logger, every: float) -> None:
    while True:
        await asyncio.sleep(every)
        _log(sight, logger)


def _log(sight: Sight, logger: Logger) -> None:
    figures = sight.figures()
    logger.log(int(figures["turns/finished"]), {f"rollout/{name}": v for name, v in figures.items()})


async def _served(sight: Sight, port: int) -> web.AppRunner:
    from aiohttp import web  # only for those who ask for it

    async def metrics(request: web.Request) -> web.Response:
        text = prometheus_text(sight.figures())
        return web.Response(text=text, content_type="text/plain", charset="utf-8")

    app = web.Application()
    app.router.add_get("/metrics", metrics)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    return runner


def _tokens(action: Action) -> int:
    """Tokens that were sampled for an action."""
    return sum(len(c.token_ids) or c.completion_tokens for c in action.completions)


def _add(pair: list[int], yes: bool) -> None:
    pair[0] += yes
    pair[1] += 1


def _kind_of(fault: str) -> str:
    """The error's name in a tree's fault, ``"<agent> at turn <id>: <error>: <words>"``."""
    parts = fault.split(": ", 2)
    return _short(parts[1] if len(parts) > 1 else fault)


def _short(reason: str) -> str:
    """A reason as the name of a count: one line, numbers left out, so that there are few of them.

    Example:
        >>> _short("a worker was lost (signal 9)")
        'a worker was lost (signal N)'
    """
    return re.sub(r"\d+(\.\d+)?", "N", " ".join(reason.split()))[:80] or "no reason given"


def _under(kind: str, figures: Mapping[str, float]) -> list[tuple[str, float]]:
    return [(name.partition("/")[2], value) for name, value in figures.items() if name.startswith(f"{kind}/")]


def _clock(seconds: float) -> str:
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}"
