"""Claims about arms, judged by an interval over seeds: a claim holds, is refuted, or is not shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from scipy import stats

from studies.common.ledger import LedgerRow, SeedEstimate, over_seeds, seed_differences, seed_text, table

Verdict = Literal["holds", "not shown", "refuted", "one seed only"]

NO_WIDTH = 1e-9
"""Intervals narrower than this have no width, apart from rounding."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim that one figure exceeds another on the same seeds, or, not `above`, that it does not.

    `other_arm` and `other_figure` (by default the same figure) are what is subtracted.
    """

    text: str
    arm: str
    figure: str
    other_arm: str
    other_figure: str | None = None
    above: bool = True


def judge(difference: SeedEstimate, above: bool = True) -> Verdict:
    """Whether an interval shows a claim, or its opposite; one that contains 0, or has no width, neither.

    "Above 0" holds if the whole interval lies above 0, and is refuted if all of it lies at 0 or below. For
    "0 or less" it is the reverse.
    """
    if difference.low is None or difference.high is None:
        return "one seed only"
    if difference.high - difference.low < NO_WIDTH:
        return "not shown"
    if difference.low > 0:
        return "holds" if above else "refuted"
    if difference.high <= 0:
        return "refuted" if above else "holds"
    return "not shown"


@dataclass(frozen=True, slots=True)
class Judged:
    """A claim, its difference for each seed as a share, and their mean with its 95% t-interval."""

    claim: Claim
    by_seed: Mapping[int, float]
    difference: SeedEstimate

    @property
    def verdict(self) -> Verdict:
        """Whether the claim holds."""
        return judge(self.difference, self.claim.above)


def judge_all(rows: Sequence[LedgerRow], claims: Sequence[Claim]) -> list[Judged]:
    """Judge claims on the rows of one settings hash; a claim whose arms have no row is left out."""
    arms = {row.arm for row in rows}
    judged = []
    for claim in claims:
        if claim.arm in arms and claim.other_arm in arms:
            by_seed = seed_differences(
                rows, claim.other_arm, claim.arm, claim.other_figure or claim.figure, claim.figure
            )
            judged.append(Judged(claim, by_seed, over_seeds(list(by_seed.values()))))
    return judged


def p_value(differences: Sequence[float]) -> float:
    """The two-sided p-value of a t-test that a mean over seeds is 0; 1 of fewer than two, or of equal ones.

    Example:
        >>> round(p_value([1.0, 2.0, 3.0]), 3)
        0.074
    """
    if len(differences) < 2 or max(differences) - min(differences) < NO_WIDTH:
        return 1.0
    return float(stats.ttest_1samp(differences, 0.0).pvalue)


def holm(p_values: Sequence[float]) -> list[float]:
    """P-values corrected for their number, in the same order, by Holm's step-down method.

    Source: Holm (1979), A simple sequentially rejective multiple test procedure.

    Example:
        >>> [round(p, 3) for p in holm([0.04, 0.01, 0.03])]
        [0.06, 0.03, 0.06]
    """
    corrected, largest = [0.0] * len(p_values), 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=lambda place: p_values[place])):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[place]))
        corrected[place] = largest
    return corrected


def claims_table(rows: Sequence[LedgerRow], claims: Sequence[Claim]) -> str:
    """A Markdown table: each claim, its difference in points by seed, its verdict, and every seed."""
    lines = [
        (
            found.claim.text,
            seed_text(found.difference, signed=True),
            found.verdict,
            ", ".join(f"{100 * value:+.1f}" for value in found.by_seed.values()),
        )
        for found in judge_all(rows, claims)
    ]
    return table(("claim", "difference", "", "seed by seed"), lines)
