"""Two runs on the same problems, compared metric by metric, paired by problem."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from pydantic import BaseModel

from mars_env.errors import ConfigError
from mars_env.evaluation.metrics import Metric, estimates, informative, measure
from mars_env.evaluation.problems import require_same_problems
from mars_env.evaluation.statistics import Estimate, difference
from mars_env.evaluation.tables import Table, Tabled, interval, number_text
from mars_env.evaluation.trees import AnswerOf, by_problem
from mars_env.text import counted
from mars_env.types import Tree


class MetricDifference(BaseModel, frozen=True, extra="forbid"):
    """One metric of two runs and their paired difference, b - a, without what only one run knows."""

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

    @property
    def difference_text(self) -> str:
        """The difference with its interval, in the unit of the metric."""
        if self.scale not in ("amount", "value"):  # in percentage points
            return f"{number_text(self.difference.value, 'difference')} {interval(self.difference)}".strip()
        ends = (self.difference.value, self.difference.low, self.difference.high)
        value, low, high = (
            "–" if x is None else f"{'-' if x < 0 else '+'}{number_text(abs(x), self.scale)}" for x in ends
        )
        return value if "–" in (low, high) else f"{value} [{low}, {high}]"


class Comparison(Tabled, frozen=True):
    """Run B against run A; metrics that one of the runs lacks are absent."""

    names: tuple[str, str]
    problems: int
    rows: dict[str, MetricDifference]

    @property
    def headline(self) -> str:
        """One line: which runs, how many problems."""
        return f"{self.names[1]} against {self.names[0]}, {counted(self.problems, 'problem')}"

    def heading(self) -> tuple[str, ...]:
        """The headline."""
        return (self.headline,)

    def tables(self) -> list[Table]:
        """One table: each metric of the two runs, and the difference."""
        marks = {name: " *" if row.clear else "" for name, row in self.rows.items()}
        rows = ((r.title, r.a, r.b, r.difference_text + marks[name]) for name, r in self.rows.items())
        caption = " ".join([f"{self.headline}.", *self.remarks()])
        return [Table(("", *self.names, "Difference"), tuple(rows), caption=caption)]

    def remarks(self) -> tuple[str, ...]:
        """How to read the differences."""
        lost = max((row.left_out for row in self.rows.values()), default=0)
        partly = f"Differences leave out problems that only one run knows: up to {lost} a metric."
        few = f"With {counted(self.problems, 'problem')} the intervals say little: take 20 or more."
        notes = (_READING, partly) if lost else (_READING,)
        return (*notes, few) if self.problems < FEW else notes


FEW = 10
"""Of fewer problems an interval says little: of rates it is nearly all that is possible."""

_READING = "Paired by problem. * the interval excludes 0. Not corrected for multiple comparisons."


def compare_trees(
    a: Sequence[Tree],
    b: Sequence[Tree],
    names: tuple[str, str] = ("A", "B"),
    answer_of: AnswerOf | None = None,
) -> Comparison:
    """Compare two runs on the same problems, metric by metric, paired by problem and resampled together.

    The numbers of samples may differ. A mean over problems is compared over those that both runs know. A
    share of what occurred, such as a precision, leaves out the problems of which one run knows nothing.
    Without `answer_of` (what a turn votes for) there is no maj@k. A `ConfigError` if a run is empty, or their
    problems, statements or references differ.

    Example:
        >>> from mars_env.types import Action, Grade, Problem, Turn
        >>> def run(grade):
        ...     turn = Turn("p#0", "0", None, "", "solver_0", "solver", "p", Action("4"), grade)
        ...     return [Tree("p#0", Problem("p", "2 + 2?", "4"), (turn,), final="0")]
        >>> wrong, right = run(Grade.wrong("no")), run(Grade.correct())
        >>> compare_trees(wrong, right).rows["solver_accuracy"].difference.value
        1.0
    """
    if not a or not b:
        raise ConfigError("a run without episodes cannot be compared; run it first")
    require_same_problems(a, b, names)
    problems = list(by_problem(a))
    left, right = measure(a, answer_of), measure(b, answer_of)
    values = estimates(left, problems), estimates(right, problems)
    names_of_interest = {*informative(left), *informative(right)}
    unknown = _known(left) ^ _known(right)
    rows = {
        name: MetricDifference(
            title=metric.title,
            a=values[0][name],
            b=values[1][name],
            difference=_difference(metric, right[name], [p for p in problems if p not in lost]),
            scale=metric.scale,
            left_out=len(lost),
        )
        for name, metric in left.items()
        if name in right and name in names_of_interest
        for lost in [metric.pairs.keys() ^ right[name].pairs.keys() if metric.averaged else unknown]
    }
    return Comparison(names=names, problems=len(problems), rows=rows)


_BOUNDS = {"rate": (-1.0, 1.0), "difference": (-2.0, 2.0)}


def _known(metrics: Mapping[str, Metric]) -> set[str]:
    named = [metrics[name] for name in ("solver_accuracy", "system_accuracy") if name in metrics]
    return {problem for metric in named for problem in metric.pairs}


def _difference(a: Metric, b: Metric, problems: Sequence[str]) -> Estimate:
    pairs = np.array([[*a.pairs.get(p, (0, 0)), *b.pairs.get(p, (0, 0))] for p in problems], dtype=np.float64)
    xa, wa, xb, wb = pairs.reshape(-1, 4).T
    return difference(xa, wa, xb, wb, _BOUNDS.get(a.scale, (-math.inf, math.inf)))
