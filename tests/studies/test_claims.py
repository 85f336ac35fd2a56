"""What seeds show: intervals and paired differences of the ledger, and the claims that they support."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from mars_env.errors import ConfigError
from studies.common.claims import holm, judge, p_value
from studies.common.ledger import LedgerRow, SeedEstimate, arm_difference, over_seeds, seed_text


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


def test_p_values_are_two_sided_and_corrected_by_holm():
    for sign in (1.0, -1.0):
        assert p_value([sign, 2 * sign, 3 * sign]) == pytest.approx(0.07418, abs=1e-5)
    assert p_value([0.5]) == p_value([0.1, 0.1, 0.1]) == 1.0


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_lies_between_no_correction_and_bonferronis_and_keeps_the_order(p_values):
    corrected = holm(p_values)
    for p, c in zip(p_values, corrected, strict=True):
        assert p <= c <= min(1.0, len(p_values) * p) + 1e-12
    assert corrected[p_values.index(min(p_values))] == pytest.approx(min(1.0, len(p_values) * min(p_values)))
    pairs = sorted(zip(p_values, corrected, strict=True))
    assert [c for _, c in pairs] == sorted(corrected)


def row(arm="all", seed=0, settings="s1", **figures):
    about = {"commit": "c0ffee", "versions": {"python": "3.12.3"}, "settings": settings, "seconds": 2.5}
    return LedgerRow(arm=arm, seed=seed, figures=figures or {"system": 0.7}, **about)


def test_the_interval_over_seeds_is_students():
    values = [0.61, 0.66, 0.7, 0.72, 0.75]
    estimate = over_seeds(values)
    low, high = stats.t.interval(0.95, 4, loc=np.mean(values), scale=stats.sem(values))
    assert (estimate.low, estimate.high) == (pytest.approx(low), pytest.approx(high))
    assert estimate.seeds == 5 and estimate.sd == pytest.approx(np.std(values, ddof=1))
    alone = over_seeds([0.5])
    assert (alone.mean, alone.low, alone.high, alone.sd) == (0.5, None, None, None)
    assert seed_text(alone) == "50.0"
    with pytest.raises(ConfigError):
        over_seeds([])


def test_differences_of_arms_are_paired_by_seed():
    a, b = [0.3, 0.5, 0.4], [0.6, 0.79, 0.7]
    rows = [row("none", s, system=x) for s, x in enumerate(a)]
    rows += [row("all", s, system=x) for s, x in enumerate(b)]
    rows += [row("all", 9, system=0.0)]  # has no partner
    estimate = arm_difference(rows, "none", "all", "system")
    test = stats.ttest_rel(b, a).confidence_interval(0.95)
    assert (estimate.low, estimate.high) == (pytest.approx(test.low), pytest.approx(test.high))
    assert estimate.seeds == 3
    with pytest.raises(ConfigError):
        arm_difference(rows, "none", "solver", "system")
