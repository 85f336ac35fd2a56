"""Rubrics: criteria on a problem, and graders, aggregators and checks for them (docs/rubrics.md)."""

from mars_env.grading.rubrics.aggregators import Aggregator, Interaction, Saturate, Shape, Veto, WeightedSum
from mars_env.grading.rubrics.grader import RubricGrader
from mars_env.grading.rubrics.rubric import Criterion, Rubric, Tier

__all__ = [
    "Aggregator",
    "Criterion",
    "Interaction",
    "Rubric",
    "RubricGrader",
    "Saturate",
    "Shape",
    "Tier",
    "Veto",
    "WeightedSum",
]
