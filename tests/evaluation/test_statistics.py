"""The statistics: hand-computed values, brute force, and the coverage of the intervals by simulation."""

import itertools
import math
import warnings
from collections import Counter
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from mars_env.evaluation import statistics
from mars_env.evaluation.statistics import Estimate, difference, intervals, maj_at_k, mean, pass_at_k, ratio

RUNS, PROBLEMS = 2000, 30


@given(st.integers(1, 8), st.data())
def test_pass_at_k_is_the_share_of_subsets_with_a_correct_one(n, data):
    correct = data.draw(st.lists(st.booleans(), min_size=n, max_size=n))
    k = data.draw(st.integers(1, n))
    subsets = list(itertools.combinations(correct, k))
    assert pass_at_k(n, sum(correct), k) == pytest.approx(sum(map(any, subsets)) / len(subsets))


def majority(answers, correct, k):
    """How right the leading answers of k samples are, each by all who gave it: the mean over all choices."""
    right = {a: np.mean([c for b, c in zip(answers, correct, strict=True) if a == b]) for a in {*answers}}
    results = []
    for chosen in itertools.combinations(answers, k):
        votes = Counter(answer for answer in chosen if answer is not None)
        leaders = [answer for answer in votes if votes[answer] == max(votes.values())]
        results.append(np.mean([right[answer] for answer in leaders]) if leaders else 0.0)
    return np.mean(results)


@given(st.lists(st.tuples(st.sampled_from([None, *"abbbcd"]), st.booleans()), min_size=1, max_size=9))
def test_maj_at_k_is_the_mean_over_subsets(samples):
    answers, correct = zip(*samples, strict=True)
    for k in range(1, len(samples) + 1):
        assert maj_at_k(answers, correct, k) == pytest.approx(majority(answers, correct, k), abs=1e-13)


@pytest.mark.parametrize("n", [1100, 5000])
def test_maj_at_k_of_thousands_of_samples_is_exact(n):
    """One right and one wrong sample vote: both are among half of all in about a quarter of the draws."""
    k = n // 2
    both, right_alone = k * (k - 1) / (n * (n - 1)), k * (n - k) / (n * (n - 1))
    value = maj_at_k([None] * (n - 2) + ["a", "b"], [False] * (n - 2) + [True, False], k)
    assert value == pytest.approx(both / 2 + right_alone, rel=1e-9)
    assert maj_at_k([None] * (n - 1) + ["a"], [False] * (n - 1) + [True], n) == 1.0


def test_problems_that_say_nothing_do_not_count():
    assert ratio([1, 0, 2], [2, 0, 4]).problems == 2
    assert mean([0.5, math.nan, 1.0]).value == 0.75
    empty = ratio([0, 0], [0, 0])
    assert (empty.value, empty.low, empty.high, empty.problems) == (None, None, None, 0)
    assert mean([]) == Estimate(None, None, None, 0)
    with warnings.catch_warnings(action="error"):
        assert mean([math.inf], "value").value is None


def by_hand(value, draws, problems, scale, least=None, most=None):
    """The ends of an interval as the module's text defines them, one number after the other."""
    if problems < 2:
        return least, most
    error = np.std(draws, ddof=1) * math.sqrt(problems / (problems - 1))
    t = stats.t.ppf(0.975, problems - 1)
    if error <= 1e-9 * max(abs(value), 1e-3):
        if least is None:
            return value, value
        u = t**2 / (problems + t**2)
        return (1 - u) * value + u * least, (1 - u) * value + u * most
    if scale == "amount":
        factor = math.exp(min(50, t * error / value))
        return value / factor, value * factor
    if scale in ("difference", "value"):
        return tuple(np.clip([value - t * error, value + t * error], least, most))
    n = value * (1 - value) / error**2
    half = t * math.sqrt(value * (1 - value) / n + t**2 / (4 * n**2))
    return tuple(np.clip([(value + t**2 / (2 * n) + side * half) / (1 + t**2 / n) for side in (-1, 1)], 0, 1))


ROWS = st.lists(st.tuples(*[st.integers(0, 4)] * 4), min_size=1, max_size=6)


@settings(max_examples=150, deadline=None)
@given(ROWS, st.sampled_from(["rate", "difference", "amount", "value", "paired"]), st.sampled_from([1, 1e-9]))
def test_intervals_are_those_of_the_text(rows, scale, unit):
    xa, wa, xb, wb = np.array(rows, dtype=float).T
    xa, xb, counts = np.minimum(xa, wa), np.minimum(xb, wb), statistics._counts(len(rows))
    with np.errstate(invalid="ignore"):
        if scale == "paired":
            found, problems = difference(xa, wa, xb, wb), min((wa > 0).sum(), (wb > 0).sum())
            value = xb.sum() / wb.sum() - xa.sum() / wa.sum()
            draws = (counts @ xb) / (counts @ wb) - (counts @ xa) / (counts @ wa)
        else:
            xa = xa - xb if scale in ("difference", "value") else unit * xa
            xa = np.clip(xa, -wa, wa)
            found, problems = ratio(xa, wa, scale), (wa > 0).sum()
            value, draws = xa.sum() / wa.sum(), (counts @ xa) / (counts @ wa)
    assert found.problems == problems
    if math.isnan(value):
        assert (found.value, found.low, found.high) == (None, None, None)
        return
    ends = {"rate": (0, 1), "difference": (-1, 1), "paired": (-1, 1)}.get(scale, (None, None))
    low, high = by_hand(
        value, draws[~np.isnan(draws)], problems, scale.replace("paired", "difference"), *ends
    )
    close = [given if given is None else pytest.approx(given, rel=1e-6, abs=1e-12) for given in (low, high)]
    assert [found.value, found.low, found.high] == [pytest.approx(value), *close]


# Coverage: 2,000 simulated runs of 30 problems whose difficulties come from a beta distribution.
# The truth is the figure of the whole population of problems.

DIFFICULTIES = [(0.5, 0.5), (2.0, 2.0), (1.0, 4.0)]
"""Split into easy and hard; all middling; mostly hard."""


@cache
def population(a, b):
    return np.random.default_rng(99).beta(a, b, size=400_000)


def covered(truth, low, high):
    return float(np.mean((low <= truth) & (truth <= high)))


def accuracies(rng, skill, p, samples):
    return rng.binomial(samples, skill) / samples, np.ones_like(skill), np.mean(p)


def precisions(rng, skill, p, samples):
    """A Verifier that rejects 80% of the wrong and 20% of the right solutions."""
    right = rng.binomial(samples, skill)
    hits, alarms = rng.binomial(samples - right, 0.8), rng.binomial(right, 0.2)
    wrong = np.mean(1 - p)
    return hits, hits + alarms, 0.8 * wrong / (0.8 * wrong + 0.2 * (1 - wrong))


@pytest.mark.parametrize("difficulty", DIFFICULTIES)
@pytest.mark.parametrize("metric", [accuracies, precisions])
def test_coverage_of_rates(metric, difficulty, samples=4):
    rng = np.random.default_rng([accuracies, precisions].index(metric))
    skill = rng.beta(*difficulty, size=(PROBLEMS, RUNS))
    numerators, denominators, truth = metric(rng, skill, population(*difficulty), samples)
    _, low, high = intervals(numerators, denominators)
    assert 0.93 <= covered(truth, low, high) <= 0.97


@pytest.mark.parametrize("difficulty", DIFFICULTIES)
def test_coverage_of_paired_gains(difficulty, samples=4):
    """The System repairs some of the Solver's wrong answers and breaks some of the right ones."""
    rng = np.random.default_rng(3)
    skill = rng.beta(*difficulty, size=(PROBLEMS, RUNS))
    solver = rng.binomial(samples, skill)
    system = solver - rng.binomial(solver, 0.05) + rng.binomial(samples - solver, 0.5 * np.sqrt(skill))
    p, one = population(*difficulty), np.ones((PROBLEMS, RUNS))
    truth = np.mean(0.5 * np.sqrt(p) * (1 - p) - 0.05 * p)
    _, low, high = intervals((system - solver) / samples, one, "difference")
    assert 0.93 <= covered(truth, low, high) <= 0.97
    for run in range(10):
        paired = difference(solver[:, run] / samples, one[:, run], system[:, run] / samples, one[:, run])
        assert (paired.low, paired.high) == pytest.approx((low[run], high[run]))


def test_coverage_of_amounts():
    tokens = np.exp(np.random.default_rng(4).normal(0, 0.5, size=(PROBLEMS, RUNS)))
    _, low, high = intervals(tokens, np.ones_like(tokens), "amount")
    assert 0.93 <= covered(math.exp(0.125), low, high) <= 0.97
