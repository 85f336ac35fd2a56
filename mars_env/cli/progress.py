"""What a command shows of a run while it plays: a live view on a terminal, else lines; each fault once."""

import logging
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Group, RenderableType
from rich.live import Live

from mars_env.cli.screen import Screen
from mars_env.rollout.monitor import Monitor

EVERY = 10.0
"""Seconds between two lines of progress where there is no terminal."""


class MergedLog(logging.Handler):
    """Shows the first of several records that differ only in names and numbers, and counts the others.

    Example:
        >>> import io
        >>> screen = Screen(file=io.StringIO(), width=80)
        >>> merged = MergedLog(screen)
        >>> for number in range(3):
        ...     _ = merged.handle(logging.makeLogRecord({"msg": f"tree p/{number}#0 is discarded: lost"}))
        >>> merged.close()
        >>> print(screen.file.getvalue(), end="")
        tree p/0#0 is discarded: lost
        and 2 more like: tree p/0#0 is discarded: lost
    """

    def __init__(self, screen: Screen) -> None:
        super().__init__()
        self._screen = screen
        self._first: dict[str, str] = {}
        self._more: Counter[str] = Counter()

    def emit(self, record: logging.LogRecord) -> None:
        """Show a record, or count it."""
        text = self.format(record)
        kind = _kind(text)
        if kind in self._first:
            self._more[kind] += 1
            return
        self._first[kind] = text.partition("\n")[0]
        self._screen.print(text, style="yellow")

    def close(self) -> None:
        """Say how many records were merged."""
        for kind, number in self._more.items():
            self._screen.print(f"and {number:,} more like: {self._first[kind]}", style="yellow")
        self._more.clear()
        super().close()


def _kind(text: str) -> str:
    """A message without the names and numbers in which those of one kind differ."""
    return re.sub(r"[0-9]+(\.[0-9]+)*", "N", re.sub(r"\b(tree|turn) \S+", r"\1", text))


@contextmanager
def shown_progress(monitor: Monitor, screen: Screen, *, every: float = EVERY) -> Iterator[None]:
    """While this is open, the run's metrics, faults and retries are shown; in lines without a terminal."""
    library, retries = logging.getLogger("mars_env"), logging.getLogger("mars_env.models.http")
    merged, before = MergedLog(screen), retries.level
    library.addHandler(merged)
    retries.setLevel(logging.INFO)
    over = threading.Event()

    def ready() -> bool:
        """A run that fails before its first turn, by a wrong setting say, shows no progress."""
        return monitor.begun or over.is_set()

    def view() -> RenderableType:
        return monitor.__rich__() if ready() else Group()

    try:
        with (
            Live(get_renderable=view, console=screen, refresh_per_second=2)
            if screen.is_terminal
            else _lines(monitor, screen, every, ready)
        ):
            yield
            over.set()
    finally:
        library.removeHandler(merged)
        retries.setLevel(before)
        merged.close()


@contextmanager
def _lines(monitor: Monitor, screen: Screen, every: float, ready: Callable[[], bool]) -> Iterator[None]:
    ended = threading.Event()

    def show() -> None:
        if ready():
            screen.print(_line(monitor), soft_wrap=True)

    def show_often() -> None:
        while not ended.wait(every):
            show()

    thread = threading.Thread(target=show_often, name="mars-env-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        show()


def _line(monitor: Monitor) -> str:
    """The metrics of a run as one line.

    Example:
        >>> _line(Monitor(total=4)).startswith("0/4 episodes, 0.0 turns/s, 0 tokens/s, ")
        True
    """
    figures = monitor.figures()
    done, total = figures["trees/finished"], figures.get("trees/total")
    parts = [f"{done:,.0f}/{total:,.0f} episodes" if total is not None else f"{done:,.0f} episodes"]
    parts += [f"{figures['turns/per_second']:,.1f} turns/s", f"{figures['tokens/per_second']:,.0f} tokens/s"]
    parts += [f"{figures['turns/in_flight']:,.0f} in flight", f"{figures['seconds/elapsed']:,.0f} s"]
    if figures.get("seconds/left"):
        parts.append(f"about {figures['seconds/left']:,.0f} s left")
    if figures["trees/faulty"]:
        parts.append(f"{figures['trees/faulty']:,.0f} discarded")
    return ", ".join(parts)
