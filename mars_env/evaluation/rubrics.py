"""What stored grades of a rubric tell: how far repeats agree, which problems to keep, which turns to read."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations

import numpy as np

from mars_env.errors import ConfigError
from mars_env.evaluation.statistics import Estimate, ratio
from mars_env.grading.rubrics.grader import VOTES
from mars_env.types import Grade, Tree, Turn


def judge_agreement(trees: Iterable[Tree]) -> Estimate:
    """How often two repeats of a judge give a criterion the same verdict, with a 95% interval over problems.

    ``sum(equal pairs) / sum(pairs)`` over all graded turns. Repeats without a verdict are in no pair.
    """
    equal, pairs = Counter[str](), Counter[str]()
    for problem, grade in _grades(trees):
        for votes in grade.details.get(VOTES, {}).values():
            two = list(combinations([vote for vote in votes if vote is not None], 2))
            equal[problem] += sum(a == b for a, b in two)
            pairs[problem] += len(two)
    counted = [problem for problem, number in pairs.items() if number]
    return ratio([equal[p] for p in counted], [pairs[p] for p in counted])


def mean_scores(trees: Iterable[Tree]) -> dict[str, float]:
    """The mean score of the graded turns of each problem; UNKNOWN grades are left out."""
    scores: dict[str, list[float]] = {}
    for problem, grade in _grades(trees):
        if grade.score is not None:
            scores.setdefault(problem, []).append(grade.score)
    return {problem: math.fsum(of_problem) / len(of_problem) for problem, of_problem in scores.items()}


def quantile_band(scores: Mapping[str, float], low: float = 0.25, high: float = 0.75) -> list[str]:
    """The problems whose score lies between two quantiles of all scores: neither too hard nor too easy.

    Rubric Anchors (arXiv 2508.12790) keeps such a band; its numbers are not public. Both ends belong to it.
    """
    if not 0 <= low < high <= 1:
        raise ConfigError(f"quantiles must be 0 <= low < high <= 1, got {low} and {high}")
    if not scores:
        return []
    least, most = np.quantile(list(scores.values()), [low, high])
    return [problem for problem, score in scores.items() if least <= score <= most]


def highest_rewards(trees: Iterable[Tree], number: int = 20) -> list[Turn]:
    """The turns with the highest rewards, highest first, each text once: to read before a defence rubric."""
    turns = [turn for tree in trees for turn in tree.turns]
    rewarded = [(turn.reward, turn) for turn in turns if turn.reward is not None]
    by_text: dict[str, Turn] = {}
    for _, turn in sorted(rewarded, key=lambda pair: -pair[0]):
        by_text.setdefault(turn.text, turn)
    return list(by_text.values())[:number]


def _grades(trees: Iterable[Tree]) -> Iterator[tuple[str, Grade]]:
    return ((turn.problem_id, turn.grade) for tree in trees for turn in tree.turns if turn.grade is not None)
