"""Two runs on the same problems, compared figure by figure, paired by problem."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from html import escape

import numpy as np
from pydantic import BaseModel, ConfigDict
from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.text import Text

from mars_env.errors import ConfigError
from mars_env.evaluation.metrics import Metric, estimates, measure, telling
from mars_env.evaluation.problems import require_same_problems
from mars_env.evaluation.report import console_text, interval, markdown_table, number, shown
from mars_env.evaluation.statistics import Estimate, difference
from mars_env.evaluation.tables import html_table, latex_table, table
from mars_env.evaluation.trees import AnswerOf, by_problem
from mars_env.text import counted, one_line
from mars_env.types import Tree

WIDE = 120
"""Columns of a console that has room for all intervals."""


class Row(BaseModel):
    """One figure of two runs and their paired difference, b minus a.

    Attributes:
        title: The metric's.
        a: Of the first run, over the problems that it knows.
        b: Of the second, likewise.
        difference: Over the problems that both know.
        scale: Of the metric.
        left_out: How many problems the difference leaves out, because only one run knows them.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    title: str
    a: Estimate
    b: Estimate
    difference: Estimate
    scale: str
    left_out: int = 0

    @property
    def clear(self) -> bool:
        """Whether the interval of the difference excludes 0."""
        low, high = self.difference.low, self.difference.high
        return low is not None and high is not None and (low > 0 or high < 0)


class Comparison(BaseModel):
    """Run B against run A.

    Attributes:
        names: Of the two runs.
        problems: How many problems both were played on.
        rows: By metric name; metrics that one of the runs lacks are absent.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    names: tuple[str, str]
    problems: int
    rows: dict[str, Row]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """For a console: `rich.print(comparison)`. A narrow one shows no intervals of the two runs."""
        of = shown if options.max_width >= WIDE else _plain
        names = self.names if options.max_width >= WIDE else tuple(one_line(n, 12) for n in self.names)
        heads = ("", *names, "Difference")
        rows = [
            (r.title, of(r.a), of(r.b), difference_text(r) + (" *" if r.clear else "  "))
            for r in self.rows.values()
        ]
        note = "Paired by problem. * the interval excludes 0. Not corrected for multiple comparisons."
        notes = [Text(line) for line in (note, self.left_out) if line]
        yield Group(Text(one_line(self.headline, 200), style="bold"), table(heads, rows), *notes)

    @property
    def headline(self) -> str:
        """One line: which runs, how many problems."""
        return f"{self.names[1]} against {self.names[0]}, {counted(self.problems, 'problem')}"

    @property
    def left_out(self) -> str:
        """A sentence on the problems that differences leave out; empty where there are none."""
        most = max((row.left_out for row in self.rows.values()), default=0)
        return (
            f"Differences leave out problems that only one run knows: up to {most} a figure." if most else ""
        )

    def __str__(self) -> str:
        """The table as plain text, 100 characters wide."""
        return console_text(self, 100).rstrip()

    def _repr_html_(self) -> str:
        """The table as HTML, for notebooks."""
        note = f"<p>{escape(self.left_out)}</p>" if self.left_out else ""
        return f"<p>{escape(one_line(self.headline, 200))}</p>" + html_table(*self._cells()) + note

    def _cells(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        heads: tuple[str, ...] = ("Figure", *self.names, "Difference", "95% interval")
        rows: list[tuple[str, ...]] = [
            (r.title, shown(r.a), shown(r.b), _number(r), _interval(r)) for r in self.rows.values()
        ]
        return heads, rows

    def markdown(self) -> str:
        """The comparison as a Markdown table, and what the differences leave out."""
        note = f"\n{self.left_out}\n" if self.left_out else ""
        return markdown_table(*self._cells()) + "\n" + note

    def latex(self) -> str:
        """The comparison as a LaTeX table; it needs the package booktabs."""
        return latex_table(*self._cells(), f"{self.headline}, paired by problem. {self.left_out}".rstrip())

    def json_text(self) -> str:
        """The comparison as JSON; `Comparison.model_validate_json` reads it back."""
        return json.dumps(self.model_dump(mode="json"), indent=2, allow_nan=False) + "\n"  # ASCII


def _plain(estimate: Estimate) -> str:
    """The value without its interval."""
    return shown(replace(estimate, low=None, high=None))


def difference_text(row: Row) -> str:
    """The difference of a row with its interval, in the unit of its figure."""
    return f"{_number(row)} {_interval(row)}".strip()


def _number(row: Row) -> str:
    if row.scale not in _PLAIN or row.difference.value is None:
        return number(row.difference.value, "difference")
    return _signed(row.difference.value, row.scale)


def _interval(row: Row) -> str:
    low, high = row.difference.low, row.difference.high
    if row.scale not in _PLAIN or low is None or high is None:
        return interval(row.difference)
    return f"[{_signed(low, row.scale)}, {_signed(high, row.scale)}]"


_PLAIN = ("amount", "value")
"""Scales whose differences are in the figure's own unit, not in percentage points."""


def _signed(value: float, scale: str) -> str:
    return f"{'+' if value >= 0 else '-'}{number(abs(value), scale)}"


def compare(
    a: Sequence[Tree],
    b: Sequence[Tree],
    names: tuple[str, str] = ("A", "B"),
    answer_of: AnswerOf | None = None,
) -> Comparison:
    """Compare two runs that were played on the same problems.

    The numbers of samples may differ; problems are the unit, and both runs are resampled together. A mean
    over problems is compared over those that both runs know: what one of them has lost, its server gone,
    says nothing about the other. A share of what occurred, such as a precision, leaves out the problems of
    which one run knows nothing.

    Args:
        a: Trees of the first run.
        b: Trees of the second run.
        names: What to call them.
        answer_of: What a turn votes for; without it there is no maj@k.

    Raises:
        ConfigError: If a run is empty, or their problems, statements or references differ.

    Example:
        >>> from mars_env.types import Action, Grade, Problem, Turn
        >>> def run(grade):
        ...     turn = Turn("p#0", "0", None, "", "solver_0", "solver", "p", Action("4"), grade)
        ...     return [Tree("p#0", Problem("p", "2 + 2?", "4"), (turn,), final="0")]
        >>> compare(run(Grade.wrong("no")), run(Grade.correct())).rows["solver_accuracy"].difference.value
        1.0
    """
    if not a or not b:
        raise ConfigError("a run without episodes cannot be compared; run it first")
    require_same_problems(a, b, names)
    problems = list(by_problem(a))
    left, right = measure(a, answer_of), measure(b, answer_of)
    values = estimates(left, problems), estimates(right, problems)
    told = {*telling(left), *telling(right)}
    unknown = _known(left) ^ _known(right)
    rows = {
        name: Row(
            title=metric.title,
            a=values[0][name],
            b=values[1][name],
            difference=_difference(metric, right[name], [p for p in problems if p not in lost]),
            scale=metric.scale,
            left_out=len(lost),
        )
        for name, metric in left.items()
        if name in right and name in told
        for lost in [metric.pairs.keys() ^ right[name].pairs.keys() if metric.averaged else unknown]
    }
    return Comparison(names=names, problems=len(problems), rows=rows)


_BOUNDS = {"rate": (-1.0, 1.0), "difference": (-2.0, 2.0)}


def _known(metrics: Mapping[str, Metric]) -> set[str]:
    """The problems of which an attempt or an answer is known."""
    return {
        p for name in ("solver_accuracy", "system_accuracy") if name in metrics for p in metrics[name].pairs
    }


def _difference(a: Metric, b: Metric, problems: Sequence[str]) -> Estimate:
    pairs = np.array([[*a.pairs.get(p, (0, 0)), *b.pairs.get(p, (0, 0))] for p in problems], dtype=np.float64)
    xa, wa, xb, wb = pairs.reshape(-1, 4).T
    return difference(xa, wa, xb, wb, _BOUNDS.get(a.scale, (-math.inf, math.inf)))
