"""Rubrics: criteria on a problem, and graders, aggregators and checks for them (docs/rubrics.md)."""

from mars_env.grading.rubrics.aggregators import Aggregator as Aggregator
from mars_env.grading.rubrics.aggregators import Interaction as Interaction
from mars_env.grading.rubrics.aggregators import Saturate as Saturate
from mars_env.grading.rubrics.aggregators import Shape as Shape
from mars_env.grading.rubrics.aggregators import Veto as Veto
from mars_env.grading.rubrics.aggregators import WeightedSum as WeightedSum
from mars_env.grading.rubrics.grader import RubricGrader as RubricGrader
from mars_env.grading.rubrics.rubric import Criterion as Criterion
from mars_env.grading.rubrics.rubric import Rubric as Rubric
from mars_env.grading.rubrics.rubric import Tier as Tier
