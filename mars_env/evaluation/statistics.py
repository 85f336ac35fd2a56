"""Estimates over problems: avg@n, pass@k, maj@k, ratios and paired differences, with 95% intervals.

The unit is the *problem*, and every metric is a ratio of sums over problems. A clustered bootstrap draws
whole problems and gives the standard error; the interval is then

* for a rate, Wilson's score interval at the effective number of samples that this error implies
  (Franco, Little, Louis & Slud 2019, Journal of Survey Statistics and Methodology 7(3)), with Student's t;
* for a difference or a value, value ± Student's quantile × standard error;
* for an amount (tokens, rounds), the same on the scale of logarithms.

Where all problems agree the bootstrap sees no error. Then up to a share u = t²/(n + t²) of the problems may
behave in any way: all zeros give [0, u], all ones [1 - u, 1], no difference ±u. An amount gets itself.
"""

import math
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from mars_env.seeds import derive_seed

Array = NDArray[np.float64]
Scale = Literal["rate", "difference", "amount", "value"]

LEVEL = 0.95
RESAMPLES = 2000
_BLOCK = 1 << 22  # counts that are turned into floats at a time: 32 MiB


@dataclass(frozen=True, slots=True)
class Estimate:
    """A metric with its 95% interval over so many problems.

    The value is None where there is nothing to compute it from, low and high where one problem alone leaves
    them open. The scale is ``"rate"`` (in [0, 1]), ``"difference"`` (of rates), ``"amount"`` (never negative)
    or ``"value"`` (any number).
    """

    value: float | None
    low: float | None
    high: float | None
    problems: int
    scale: Scale = "rate"


@lru_cache(maxsize=4)
def _counts(problems: int) -> NDArray[np.uint16]:
    """How often each problem is drawn in each resample, the same in every report: (RESAMPLES, problems)."""
    generator = np.random.default_rng(derive_seed("clustered bootstrap", problems))
    counts: NDArray[np.uint16] = np.empty((RESAMPLES, problems), dtype=np.uint16)
    for row in counts:
        row[:] = np.bincount(generator.integers(problems, size=problems), minlength=problems)
    return counts


def _resampled(columns: Array) -> Array:
    """Sums over resampled problems: (problems, k) becomes (RESAMPLES, k)."""
    counts = _counts(len(columns))
    rows = max(1, _BLOCK // max(1, counts.shape[1]))
    result = np.empty((RESAMPLES, columns.shape[1]))
    for i in range(0, RESAMPLES, rows):
        result[i : i + rows] = counts[i : i + rows].astype(np.float64) @ columns
    return result


def _ratio(numerators: Array, denominators: Array) -> Array:
    """Their ratio; NaN where the denominator is 0."""
    defined = denominators > 0
    return np.where(defined, numerators / np.where(defined, denominators, 1.0), np.nan)


def _spread(draws: Array) -> Array:
    """Standard deviation of each column's resamples; those without a denominator (NaN) are left out."""
    return np.ma.masked_array(draws, np.isnan(draws)).std(axis=0, ddof=1).filled(0.0)


def intervals(
    numerators: ArrayLike, denominators: ArrayLike, scale: Scale = "rate"
) -> tuple[Array, Array, Array]:
    """Values and 95% intervals of k ratios of sums over the same problems.

    Numerators and denominators have the shape (problems, k); a denominator is 0 where a problem has nothing
    to say. The scale decides the form of the interval. Value, low and high are of shape (k,), NaN where a
    metric is not defined.

    Example:
        >>> value, low, high = intervals([[1.0], [0.0], [1.0], [0.5]], [[1.0]] * 4)
        >>> float(value[0]), bool(low[0] < 0.625 < high[0])
        (0.625, True)
    """
    bounds = {"rate": (0.0, 1.0), "difference": (-1.0, 1.0)}.get(scale, (-math.inf, math.inf))
    columns = [np.asarray(column, dtype=np.float64) for column in (numerators, denominators)]
    return _estimated(columns, _ratio, scale, bounds)


def _estimated(
    columns: Sequence[Array], statistic: Callable[..., Array], scale: Scale, bounds: tuple[float, float]
) -> tuple[Array, Array, Array]:
    """Value and interval of a statistic of sums; every other column is a denominator."""
    if not len(columns[0]):
        nan = np.full(columns[0].shape[1], np.nan)
        return nan, nan.copy(), nan.copy()
    value = statistic(*(column.sum(axis=0) for column in columns))
    draws = statistic(*np.split(_resampled(np.concatenate(columns, axis=1)), len(columns), axis=1))
    problems = np.min([(w > 0).sum(axis=0) for w in columns[1::2]], axis=0)
    low, high = _interval(value, _spread(draws), problems, scale, bounds)
    return value, low, high


def student_t(problems: ArrayLike) -> Array:
    """Student's quantile of the intervals, for so many problems."""
    return np.asarray(stats.t.ppf(0.5 + LEVEL / 2, np.maximum(np.asarray(problems) - 1, 1)), dtype=np.float64)


def _interval(
    value: Array, error: Array, problems: NDArray[np.int64], scale: Scale, bounds: tuple[float, float]
) -> tuple[Array, Array]:
    """The interval around a value with a bootstrap standard error (see the module's text)."""
    # A resample of n problems spreads by (n - 1) / n too little.
    error = error * np.sqrt(problems / np.maximum(problems - 1, 1))
    t = student_t(problems)
    constant = ~(error > 1e-9 * np.maximum(np.abs(value), 1e-3))
    safe = np.where(constant, 1.0, error)
    if scale == "rate":
        effective = value * (1 - value) / safe**2
        constant |= ~(effective > 0)
        effective = np.where(constant, 1.0, effective)
        middle = (value + t**2 / (2 * effective)) / (1 + t**2 / effective)
        radicand = np.maximum(value * (1 - value), 0) / effective + t**2 / (4 * effective**2)
        half = t / (1 + t**2 / effective) * np.sqrt(radicand)
        low, high = middle - half, middle + half
    elif scale in ("difference", "value"):
        low, high = value - t * safe, value + t * safe
    else:
        factor = np.exp(np.minimum(t * safe / np.where(value > 0, value, 1.0), 50.0))
        low, high = value / factor, value * factor
    finite = math.isfinite(bounds[0])
    share = t**2 / (problems + t**2)
    below, above = (value - bounds[0], bounds[1] - value) if finite else (0.0, 0.0)
    low = np.where(constant, value - share * below, low)
    high = np.where(constant, value + share * above, high)
    # One problem says nothing about the others.
    alone = bounds if finite else (math.nan, math.nan)
    few = (problems < 2) & ~np.isnan(value)
    low, high = np.where(few, alone[0], low), np.where(few, alone[1], high)
    return np.clip(low, *bounds), np.clip(high, *bounds)


def optional(x: Any) -> float | None:
    """A number, or None where it is not defined, or too large for one."""
    return float(x) if math.isfinite(x) else None


def _column(values: ArrayLike) -> Array:
    return np.asarray(values, dtype=np.float64).reshape(-1, 1)


def ratio(numerators: ArrayLike, denominators: ArrayLike, scale: Scale = "rate") -> Estimate:
    """A ratio of sums over problems, one each, with its 95% interval; 0 where a problem has nothing to say.

    Example:
        >>> e = ratio([8, 1, 3], [10, 2, 8])
        >>> e.value, e.problems
        (0.6, 3)
        >>> ratio([0] * 30, [1] * 30).low, round(ratio([0] * 30, [1] * 30).high, 3)
        (0.0, 0.122)
    """
    value, low, high = intervals(_column(numerators), _column(denominators), scale)
    problems = int((np.asarray(denominators, dtype=np.float64) > 0).sum())
    return Estimate(optional(value[0]), optional(low[0]), optional(high[0]), problems, scale)


def mean(values: ArrayLike, scale: Scale = "rate") -> Estimate:
    """The mean of one value a problem, with its 95% interval; NaN values are left out.

    Example:
        >>> mean([0.0, 0.5, 1.0]).value
        0.5
    """
    array = np.asarray(values, dtype=np.float64)
    defined = ~np.isnan(array)
    return ratio(np.where(defined, array, 0.0), defined.astype(np.float64), scale)


def difference(
    numerators_a: ArrayLike,
    denominators_a: ArrayLike,
    numerators_b: ArrayLike,
    denominators_b: ArrayLike,
    bounds: tuple[float, float] = (-1.0, 1.0),
) -> Estimate:
    """The paired difference b - a of two ratios over the same problems, with its 95% interval.

    `bounds` are the least and the greatest difference.

    Example:
        >>> difference([1, 0], [2, 2], [2, 1], [2, 2]).value
        0.5
    """
    columns = [_column(column) for column in (numerators_a, denominators_a, numerators_b, denominators_b)]
    value, low, high = _estimated(
        columns, lambda xa, wa, xb, wb: _ratio(xb, wb) - _ratio(xa, wa), "difference", bounds
    )
    problems = int(min((weights > 0).sum() for weights in columns[1::2]))
    return Estimate(optional(value[0]), optional(low[0]), optional(high[0]), problems, "difference")


def pass_at_k(samples: int, correct: int, k: int) -> float:
    """Unbiased pass@k of one problem with so many samples, of which so many are correct.

    1 - C(n - c, k) / C(n, k), computed exactly. Source: Chen et al. 2021, arXiv:2107.03374, eq. 1.

    Example:
        >>> pass_at_k(4, 1, 1), pass_at_k(4, 1, 2), pass_at_k(4, 3, 2)
        (0.25, 0.5, 1.0)
    """
    if not 0 <= correct <= samples or not 1 <= k <= samples:
        raise ValueError(f"pass@{k} is not defined for {correct} correct of {samples} samples")
    every = math.comb(samples, k)
    return (every - math.comb(samples - correct, k)) / every


def maj_at_k(answers: Sequence[Hashable | None], correct: Sequence[bool], k: int) -> float:
    """Expected accuracy of a majority vote among k of one problem's samples, drawn without replacement.

    Exact, over all subsets of size k. Each sample has an answer and whether it was judged correct. A tie is
    broken evenly among the answers that lead. A sample without an answer (None) does not vote; without any
    vote the result is wrong. Where equal answers were judged differently, the winner counts as correct in the
    proportion of its judgements.

    Example:
        >>> maj_at_k(["7", "7", "3"], [True, True, False], 3)
        1.0
        >>> maj_at_k(["7", "3"], [True, False], 2)  # a tie
        0.5
    """
    n = len(answers)
    if n != len(correct):
        raise ValueError(f"{n} answers but {len(correct)} judgements")
    if not 1 <= k <= n:
        raise ValueError(f"maj@{k} is not defined for {n} samples")
    right = Counter(answer for answer, judged in zip(answers, correct, strict=True) if judged)
    counts = Counter(answer for answer in answers if answer is not None)
    return _majority(n, k, tuple(sorted((size, right[answer] / size) for answer, size in counts.items())))


@lru_cache(maxsize=4096)
def _majority(n: int, k: int, votes: tuple[tuple[int, float], ...]) -> float:
    """maj@k of n samples, given how many samples give each answer, and the share of them that is right.

    Each sample is drawn with the chance k / n; given that k are drawn, these are draws without replacement.
    """
    silent = n - sum(size for size, _ in votes)
    drawn = [(stats.binom.pmf(np.arange(size + 1), size, k / n), good) for size, good in votes]
    rest = stats.binom.pmf(np.arange(k + 1), silent, k / n)
    total = 0.0
    for top in range(1, min(k, max((size for size, _ in votes), default=0)) + 1):
        correct = _leaders(drawn, top, k) @ rest[::-1]
        total += float((correct[1:] / np.arange(1, len(correct))).sum())
    return min(1.0, total / float(stats.binom.pmf(k, n, k / n)))


def _leaders(drawn: Sequence[tuple[Array, float]], top: int, k: int) -> Array:
    """The leaders' correctness, summed, times its chance: by the number of leaders and of all votes.

    An answer leads if it has `top` votes and none has more. Shape: (leaders + 1, k + 1).
    """
    shape = (min(len(drawn), k // top) + 1, k + 1)
    chances, correct = np.zeros(shape), np.zeros(shape)
    chances[0, 0] = 1.0
    for of_votes, good in drawn:
        fewer = of_votes[:top]
        more_chances, more_correct = _spread_votes(chances, fewer), _spread_votes(correct, fewer)
        if len(of_votes) > top:  # the answer may lead
            led = of_votes[top] * chances[:-1, : k + 1 - top]
            more_chances[1:, top:] += led
            more_correct[1:, top:] += of_votes[top] * correct[:-1, : k + 1 - top] + good * led
        chances, correct = more_chances, more_correct
    return correct


def _spread_votes(table: Array, of_votes: Array) -> Array:
    return np.array([np.convolve(row, of_votes)[: len(row)] for row in table])
