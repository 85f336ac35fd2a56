"""Claims: what an interval over seeds shows, by hand."""

import pytest

from studies.common.claims import Claim, claims_table, judge
from studies.common.ledger import LedgerRow, SeedEstimate


def estimate(low, high):
    return SeedEstimate(mean=0.0, low=low, high=high, seeds=5, sd=0.1)


@pytest.mark.parametrize(
    ("low", "high", "above", "not_above"),
    [
        (0.02, 0.10, "holds", "refuted"),
        (-0.01, 0.21, "not shown", "not shown"),  # +10 [-1, +21] is not "adds nothing"
        (-0.21, 0.01, "not shown", "not shown"),
        (-0.005, -0.001, "refuted", "holds"),
        (-0.10, 0.0, "refuted", "holds"),
        (0.0, 0.10, "not shown", "not shown"),
        (0.0, 0.0, "not shown", "not shown"),  # the seeds agree, so nothing is known of their spread
        (None, None, "one seed only", "one seed only"),
    ],
)
def test_a_claim_holds_only_if_its_whole_interval_says_so(low, high, above, not_above):
    assert judge(estimate(low, high)) == above
    assert judge(estimate(low, high), above=False) == not_above


def row(arm, seed, **figures):
    return LedgerRow(arm=arm, seed=seed, settings="s", seconds=1, figures=figures)


def test_the_table_shows_each_seed_so_that_one_outlier_is_seen():
    rows = [row("all", s, system=x, solver=0.4) for s, x in enumerate((0.80, 0.81, 0.82))]
    rows += [row("part", s, system=x) for s, x in enumerate((0.79, 0.81, 0.50))]
    claims = [
        Claim("joint above part", "all", "system", "part"),
        Claim("joint adds nothing to part", "all", "system", "part", above=False),
        Claim("System above Solver", "all", "system", "all", "solver"),
        Claim("above an arm that was not run", "all", "system", "absent"),
    ]
    assert claims_table(rows, claims).splitlines() == [
        "| claim | difference |  | seed by seed |",
        "|---|---|---|---|",
        "| joint above part | +11.0 [-34.2, +56.2] | not shown | +1.0, +0.0, +32.0 |",
        "| joint adds nothing to part | +11.0 [-34.2, +56.2] | not shown | +1.0, +0.0, +32.0 |",
        "| System above Solver | +41.0 [+38.5, +43.5] | holds | +40.0, +41.0, +42.0 |",
    ]
