"""The live views of commands on a terminal: a run while it plays, a training while it learns."""

import time
from collections import defaultdict
from collections.abc import Mapping
from datetime import timedelta

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from mars_env.evaluation.costs import money
from mars_env.evaluation.counters import Share, Snapshot
from mars_env.loggers import Logger

_BAR = 28
_REASONS = 3
_LEVELS = "▁▂▃▄▅▆▇█"


def run_view(snapshot: Snapshot) -> RenderableType:
    """What a run has done so far: progress, accuracy with its interval, rates, and faults by reason."""
    grid = Table.grid(padding=(0, 2))
    done, total = snapshot.episodes, snapshot.total
    episodes = f"{done:,} of {total:,} episodes" if total is not None else f"{done:,} episodes"
    grid.add_row("progress", ProgressBar(total or None, done, width=_BAR), episodes)
    grid.add_row("time", "", _times(snapshot.seconds, snapshot.seconds_left))
    if snapshot.accuracy is not None:
        low, high = snapshot.accuracy.interval
        right = f"{snapshot.accuracy.value:.1%} right [{100 * low:.1f}, {100 * high:.1f}]"
        grid.add_row("accuracy", _interval_bar(snapshot.accuracy), right)
    for role, share in snapshot.correct.items():
        grid.add_row(role, _share_bar(share), f"{share.value:.1%} of {share.cases:,} turns right")
    for role, share in snapshot.accepts.items():
        grid.add_row(role, _share_bar(share), f"{share.value:.1%} of {share.cases:,} verdicts accept")
    turns = f"{snapshot.turns:,} turns, {snapshot.turns_per_second:,.1f}/s"
    tokens = f"{snapshot.sampled_tokens:,} tokens, {snapshot.tokens_per_second:,.0f}/s"
    cost = "" if snapshot.cost is None else f", cost ${money(snapshot.cost)}"
    reasons = [Text(line, "yellow", overflow="ellipsis", no_wrap=True) for line in _reasons(snapshot)]
    return Group(grid, Text(f"{turns}, {tokens}{cost}"), *reasons)


def _times(seconds: float, left: float | None) -> str:
    return _clock(seconds) + (f", about {_clock(left)} left" if left else "")


def _clock(seconds: float) -> str:
    return str(timedelta(seconds=int(seconds)))


def _share_bar(share: Share) -> Text:
    size = round(_BAR * share.value)
    return Text.assemble(("━" * size, "cyan"), ("━" * (_BAR - size), "bright_black"))


def _interval_bar(share: Share) -> Text:
    low, at, high = (round((_BAR - 1) * x) for x in (share.interval[0], share.value, share.interval[1]))
    styles = ["green" if low <= place <= high else "bright_black" for place in range(_BAR)]
    return Text.assemble(*(("●" if place == at else "━", style) for place, style in enumerate(styles)))


def _reasons(snapshot: Snapshot) -> list[str]:
    lines = []
    for word, reasons in (("discarded", snapshot.faults), ("UNKNOWN", snapshot.unknown)):
        ranked = sorted(reasons.items(), key=lambda item: -item[1])
        lines += [f"{word} {count:,}: {reason}" for reason, count in ranked[:_REASONS]]
    return lines


class TrainingView(Logger):
    """A logger that a live display shows: the steps, the reward of each role over them, and the time left."""

    def __init__(self, steps: int) -> None:
        self._steps = steps
        self._first = self._step = 0
        self._start = time.monotonic()
        self._rewards: defaultdict[str, list[float]] = defaultdict(list)

    def start(self, step: int) -> None:
        """Count from the step that a resumed run continues after."""
        self._first = self._step = step
        self._start = time.monotonic()

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Take the rewards of a step."""
        self._step = step
        for name, value in values.items():
            kind, _, rest = name.partition("/")
            role, _, metric = rest.rpartition("/")
            if kind == "role" and metric == "reward":
                self._rewards[role].append(value)

    def __rich__(self) -> RenderableType:
        seconds, done = time.monotonic() - self._start, self._step - self._first
        grid = Table.grid(padding=(0, 2))
        left = (self._steps - self._step) * seconds / done if done else None
        words = f"step {self._step:,} of {self._steps:,}"
        grid.add_row("progress", ProgressBar(self._steps, self._step, width=_BAR), words)
        grid.add_row("time", "", _times(seconds, left))
        for role, rewards in self._rewards.items():
            grid.add_row(role, Text(_sparkline(rewards[-_BAR:]), "cyan"), f"reward {rewards[-1]:.3f}")
        return grid


def _sparkline(values: list[float]) -> str:
    """A character for each value, from the lowest to the highest of them.

    Example:
        >>> _sparkline([0.0, 0.5, 1.0])
        '▁▄█'
    """
    low, high = min(values), max(values)
    width = (high - low) or 1.0
    return "".join(_LEVELS[int((len(_LEVELS) - 1) * (value - low) / width)] for value in values)
