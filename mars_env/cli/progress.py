"""What a command shows of a run while it plays: a line of progress, and each kind of fault once."""

import logging
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from rich.live import Live

from mars_env.cli.live import run_view
from mars_env.cli.screen import Screen
from mars_env.evaluation.costs import money
from mars_env.evaluation.counters import Counters, Snapshot

T = TypeVar("T")

EVERY = 10.0  # seconds between two lines of progress where there is no terminal


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
        """Show the first of its kind."""
        text = self.format(record)
        kind = re.sub(r"[0-9]+(\.[0-9]+)*", "N", re.sub(r"\b(tree|turn) \S+", r"\1", text))
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


@contextmanager
def show_progress(counters: Counters, screen: Screen) -> Iterator[None]:
    """While this is open, the run's progress, faults and retries are shown; in lines without a terminal."""
    library, retries = logging.getLogger("mars_env"), logging.getLogger("mars_env.models.http")
    merged, before = MergedLog(screen), retries.level
    library.addHandler(merged)
    retries.setLevel(logging.INFO)
    over = threading.Event()

    def drawn(draw: Callable[[Snapshot], T]) -> T | str:
        """Empty in the first seconds: a run that fails at once, by a wrong setting say, has no progress."""
        snapshot = counters.snapshot()
        return draw(snapshot) if snapshot.turns or snapshot.seconds >= EVERY or over.is_set() else ""

    live = Live(get_renderable=lambda: drawn(run_view), console=screen, refresh_per_second=2)
    try:
        with live if screen.is_terminal else _lines(lambda: drawn(progress_line), screen):
            yield
            over.set()
    finally:
        library.removeHandler(merged)
        retries.setLevel(before)
        merged.close()


@contextmanager
def _lines(line: Callable[[], str], screen: Screen) -> Iterator[None]:
    ended = threading.Event()

    def print_line() -> None:
        if text := line():
            screen.print(text, soft_wrap=True)

    def print_often() -> None:
        while not ended.wait(EVERY):
            print_line()

    thread = threading.Thread(target=print_often, name="mars-env-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        print_line()


def progress_line(snapshot: Snapshot) -> str:
    """What a run has done so far, as one line.

    Example:
        >>> progress_line(Counters(total=4, clock=lambda: 0.0).snapshot())
        '0/4 episodes, 0.0 turns/s, 0 tokens/s, 0 s'
    """
    of_total = "" if snapshot.total is None else f"/{snapshot.total:,}"
    items = [f"{snapshot.episodes:,}{of_total} episodes"]
    if snapshot.accuracy is not None:
        low, high = snapshot.accuracy.interval
        items.append(f"{snapshot.accuracy.value:.1%} right ({low:.1%} to {high:.1%})")
    items += [f"{snapshot.turns_per_second:,.1f} turns/s", f"{snapshot.tokens_per_second:,.0f} tokens/s"]
    items.append(f"{snapshot.seconds:,.0f} s")
    if snapshot.seconds_left:
        items.append(f"about {snapshot.seconds_left:,.0f} s left")
    if snapshot.cost is not None:
        items.append(f"cost ${money(snapshot.cost)}")
    if snapshot.faults:
        items.append(f"{sum(snapshot.faults.values()):,} discarded")
    if snapshot.unknown:
        items.append(f"{sum(snapshot.unknown.values()):,} grades UNKNOWN")
    return ", ".join(items)
