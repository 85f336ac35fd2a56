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
from scipy import special, stats

from mars_env.seeds import derive_seed

Array = NDArray[np.float64]
Scale = Literal["rate", "difference", "amount", "value"]

LEVEL = 0.95
RESAMPLES = 2000
_NEVER = 1e-17
"""A chance that changes no result."""
_BLOCK = 1 << 22  # counts that are turned into floats at a time: 32 MiB


@dataclass(frozen=True, slots=True)
class Estimate:
    """A metric with its 95% interval over problems.

    Attributes:
        value: None where there is nothing to compute it from.
        low: Lower end of the interval; None where one problem alone leaves it open; likewise `high`.
        high: Upper end.
        problems: Number of problems that the metric rests on.
        scale: ``"rate"`` (in [0, 1]), ``"difference"`` (of rates), ``"amount"`` (never negative) or
            ``"value"`` (any number).
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
    known = denominators > 0
    return np.where(known, numerators / np.where(known, denominators, 1.0), np.nan)


def _spread(draws: Array) -> Array:
    """Standard deviation of each column's resamples; those without a denominator (NaN) are left out."""
    return np.ma.masked_array(draws, np.isnan(draws)).std(axis=0, ddof=1).filled(0.0)


def intervals(
    numerators: ArrayLike, denominators: ArrayLike, scale: Scale = "rate"
) -> tuple[Array, Array, Array]:
    """Values and 95% intervals of k ratios of sums over the same problems.

    Args:
        numerators: Shape (problems, k).
        denominators: Shape (problems, k), not negative; 0 where a problem has nothing to say.
        scale: What they are; it decides the form of the interval.

    Returns:
        Value, low and high, each of shape (k,); NaN where a metric is not defined.

    Example:
        >>> value, low, high = intervals([[1.0], [0.0], [1.0], [0.5]], [[1.0]] * 4)
        >>> float(value[0]), bool(low[0] < 0.625 < high[0])
        (0.625, True)
    """
    bounds = {"rate": (0.0, 1.0), "difference": (-1.0, 1.0)}.get(scale, (-math.inf, math.inf))
    columns = [np.asarray(each, dtype=np.float64) for each in (numerators, denominators)]
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


def _interval(
    value: Array, error: Array, problems: NDArray[np.int64], scale: Scale, bounds: tuple[float, float]
) -> tuple[Array, Array]:
    """The interval around a value with a bootstrap standard error (see the module's text)."""
    # A resample of n problems spreads by (n - 1) / n too little.
    error = error * np.sqrt(problems / np.maximum(problems - 1, 1))
    t = np.asarray(stats.t.ppf(0.5 + LEVEL / 2, np.maximum(problems - 1, 1)), dtype=np.float64)
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
    known = ~np.isnan(array)
    return ratio(np.where(known, array, 0.0), known.astype(np.float64), scale)


def difference(
    numerators_a: ArrayLike,
    denominators_a: ArrayLike,
    numerators_b: ArrayLike,
    denominators_b: ArrayLike,
    bounds: tuple[float, float] = (-1.0, 1.0),
) -> Estimate:
    """The paired difference b - a of two ratios over the same problems, with its 95% interval.

    Both are resampled together; `bounds` are the least and the greatest difference.

    Example:
        >>> difference([1, 0], [2, 2], [2, 1], [2, 2]).value
        0.5
    """
    columns = [_column(each) for each in (numerators_a, denominators_a, numerators_b, denominators_b)]
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

    Exact, over all subsets of size k. A tie is broken evenly among the answers that lead. A sample without an
    answer (None) does not vote; without any vote the result is wrong. Where equal answers were judged
    differently, the winner counts as correct in the proportion of its judgements.

    Args:
        answers: One a sample: what it voted for.
        correct: One a sample: whether it was judged correct.
        k: Number of votes, between 1 and the number of samples.

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
    rights = Counter[int]()
    for answer, size in counts.items():
        rights[size] += right[answer]
    alike = sorted(Counter(counts.values()).items())
    return _majority(n, k, tuple((size, many, rights[size] / (size * many)) for size, many in alike))


@lru_cache(maxsize=4096)
def _majority(n: int, k: int, groups: tuple[tuple[int, int, float], ...]) -> float:
    """maj@k of n samples, by how often answers were given: size, number of answers, share that is right.

    Each answer's votes are drawn as if alone, by a binomial of chance k / n; the condition that all votes
    are k gives the draws without replacement.
    """
    if not groups:
        return 0.0
    sizes, many, good = (np.array(column) for column in zip(*groups, strict=True))
    votes = np.arange(k + 1)
    own = stats.binom.pmf(votes, sizes[:, None], k / n)
    whole = float(stats.binom.pmf(k, n, k / n))
    drawn = own * stats.binom.pmf(k - votes, n - sizes[:, None], k / n) / whole
    second = int(sizes[-1] if many[-1] > 1 else sizes[-2] if len(sizes) > 1 else 0)
    alone = min(k // 2, second) + 1  # whoever has so many votes leads alone
    total = float(((many * good) @ drawn)[alone:].sum())
    # With fewer votes than `first` or more than `last` none leads, but for a chance that no float shows.
    first = int(np.searchsorted(drawn[-1].cumsum(), _NEVER))
    reached = (many @ drawn)[::-1].cumsum()[::-1]
    last = min(alone - 1, int((reached > _NEVER).sum()) - 1)
    if max(first, 1) <= last:
        total += _tied(n, k, (sizes, many, good), own, range(max(first, 1), last + 1)) / whole
    return min(1.0, total)


def _tied(
    n: int, k: int, groups: tuple[NDArray[np.int64], NDArray[np.int64], Array], own: Array, tops: range
) -> float:
    """The chance that k samples are drawn whose leaders have one of `tops` votes, times their correctness.

    It is the coefficient of z^k in a sum of products, one factor for each answer, which is evaluated at roots
    of unity. A leader with r equals wins in 1 of r + 1 cases: the integral of x^r from 0 to 1.
    """
    sizes, many, good = groups
    points = max(k, n - k) + 1  # as many as keep z^k apart from all other powers
    z = np.exp(-2j * np.pi * np.arange(points // 2 + 1) / points)
    drawn = 1 - k / n + k / n * z
    fewer = np.zeros((len(sizes), len(z)), dtype=complex)  # by group: an answer has fewer than `top` votes
    result = np.zeros_like(z)
    for top in range(tops.stop):
        exactly = own[:, top, None] * z**top
        if top >= tops.start:
            leaders = range(int(np.searchsorted(sizes, top)), len(sizes))
            x, weights = _quadrature((min(k // top, int(many[leaders.start :].sum())) + 1) // 2)
            every, won = np.ones((len(x), len(z)), dtype=complex), np.zeros((len(x), len(z)), dtype=complex)
            for i in leaders:
                factor = fewer[i] + x[:, None] * exactly[i]
                others = factor ** (many[i] - 1)
                won = (won * factor + every * (many[i] * good[i] * exactly[i])) * others
                every = every * factor * others
            others = drawn ** (n - int((sizes * many)[leaders.start :].sum()))
            result += weights @ won * others
        fewer += exactly
    return float(np.fft.irfft(result, points)[k])


@lru_cache(maxsize=256)
def _quadrature(nodes: int) -> tuple[Array, Array]:
    """Places and weights that integrate polynomials of degree 2 * nodes - 1 from 0 to 1 exactly (Gauss)."""
    x, weights = special.roots_legendre(nodes)
    return (x + 1) / 2, weights / 2
