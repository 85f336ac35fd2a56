"""The metrics of a run as a few lines for a terminal."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Group as Lines
from rich.console import RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text


def live_view(figures: Mapping[str, float]) -> RenderableType:
    """Metrics of a `Monitor` as a few lines for a terminal."""
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
    for kind, sign in (("unknown", "UNKNOWN"), ("fault", "discarded")):
        for what, count in sorted(_under(kind, figures), key=lambda row: -row[1])[:3]:
            lines.append(Text(f"{sign} {count:,.0f}: {what}", style="yellow"))
    return Lines(*lines)


def _under(kind: str, figures: Mapping[str, float]) -> list[tuple[str, float]]:
    return [(name.partition("/")[2], value) for name, value in figures.items() if name.startswith(f"{kind}/")]


def _clock(seconds: float) -> str:
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}"
