"""Rewards from a rubric's verdicts, which the grade of a turn keeps: another aggregator needs no judge."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from mars_env.grading.rubrics.aggregators import Aggregator, WeightedSum
from mars_env.grading.rubrics.grader import FRACTIONS
from mars_env.grading.rubrics.rubric import Rubric
from mars_env.types import Problem, Turn, Verdict


@dataclass(frozen=True)
class RubricReward:
    """The value, which may be negative, of an aggregator on the verdicts that a `RubricGrader` has stored.

    It may be another aggregator than the grader's; the rubric is None if each problem has its own.
    """

    aggregate: Aggregator = field(default_factory=WeightedSum)
    rubric: Rubric | None = None

    def __call__(self, turn: Turn, path: Sequence[Turn], problem: Problem) -> float | None:
        """The reward of a turn; None if its grade is UNKNOWN, a ValueError if no rubric graded it."""
        if turn.grade is None or turn.grade.verdict is Verdict.UNKNOWN:
            return None
        fractions = turn.grade.details.get(FRACTIONS)
        rubric = self.rubric or Rubric.of(problem)
        if not fractions or rubric is None:
            raise ValueError("the turn was not graded by a rubric: use a RubricGrader")
        judged = Rubric(tuple(c for c in rubric.criteria if c.id in fractions))  # a stage judges some alone
        return self.aggregate(judged, fractions)
