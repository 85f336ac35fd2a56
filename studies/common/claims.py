"""Claims about arms, judged by an interval over seeds: a claim holds, is refuted, or is not shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

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
