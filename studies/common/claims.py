"""Claims about arms, judged by an interval over seeds: a claim holds, is refuted, or is not shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from mars_env.evaluation.tables import Table, as_markdown
from studies.common.ledger import LedgerRow, SeedEstimate, over_seeds, seed_differences, seed_text

Verdict = Literal["holds", "not shown", "refuted", "one seed only"]

NO_WIDTH = 1e-9
"""Intervals narrower than this have no width, apart from rounding."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim that one figure exceeds another, or that it does not, on the same seeds.

    Attributes:
        text: In words.
        arm: Of the first figure.
        figure: Its name.
        other_arm: Arm of the figure that is subtracted.
        other_figure: Its name; by default the same.
        above: Whether the difference is claimed to be above 0; otherwise it is claimed to be 0 or less.
    """

    text: str
    arm: str
    figure: str
    other_arm: str
    other_figure: str | None = None
    above: bool = True


def judge(difference: SeedEstimate, above: bool = True) -> Verdict:
    """Whether an interval shows a claim, or its opposite.

    "Above 0" holds if the whole interval lies above 0, and is refuted if all of it lies at 0 or below. For
    "0 or less" it is the reverse. An interval that contains 0 shows neither: a difference that is not shown
    is not shown to be absent. If all seeds agree, the interval has no width, because nothing is known of how
    far seeds spread: that shows nothing either.

    Example:
        >>> from studies.common.ledger import SeedEstimate
        >>> wide = SeedEstimate(mean=0.1, low=-0.01, high=0.21, seeds=5, sd=0.1)
        >>> judge(wide), judge(wide, above=False)
        ('not shown', 'not shown')
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
    """A claim, its difference paired by seed, and the verdict.

    Attributes:
        claim: The claim.
        by_seed: The difference for each seed, as a share (0.1 is ten points).
        difference: Its mean and 95% t-interval over the seeds.
    """

    claim: Claim
    by_seed: Mapping[int, float]
    difference: SeedEstimate

    @property
    def verdict(self) -> Verdict:
        """Whether the claim holds."""
        return judge(self.difference, self.claim.above)


def judge_all(rows: Sequence[LedgerRow], claims: Sequence[Claim]) -> list[Judged]:
    """Judge claims on the rows of one settings hash; a claim whose arms have no row is left out.

    Raises:
        ConfigError: If the rows mix settings, or the arms of a claim share no seed.
    """
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
    """A Markdown table: each claim, its difference in points paired by seed, its verdict, and every seed.

    See `judge_all`.
    """
    lines = [
        (
            found.claim.text,
            seed_text(found.difference, signed=True),
            found.verdict,
            ", ".join(f"{100 * value:+.1f}" for value in found.by_seed.values()),
        )
        for found in judge_all(rows, claims)
    ]
    return as_markdown(Table(("claim", "difference", "", "seed by seed"), tuple(lines)), markup=True) + "\n"
