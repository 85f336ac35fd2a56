"""Claims: what an interval over seeds shows, by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from studies.common.claims import holm, judge, p_value
from studies.common.ledger import SeedEstimate


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
    assert (
        p_value([1.0, 2.0, 3.0])
        == pytest.approx(p_value([-1.0, -2.0, -3.0]))
        == pytest.approx(0.07418, abs=1e-5)
    )
    assert p_value([0.5]) == p_value([0.1, 0.1, 0.1]) == 1.0


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_lies_between_no_correction_and_bonferronis_and_keeps_the_order(p_values):
    corrected = holm(p_values)
    assert all(
        p <= c <= min(1.0, len(p_values) * p) + 1e-12 for p, c in zip(p_values, corrected, strict=True)
    )
    assert corrected[p_values.index(min(p_values))] == pytest.approx(min(1.0, len(p_values) * min(p_values)))
    pairs = sorted(zip(p_values, corrected, strict=True))
    assert [c for _, c in pairs] == sorted(corrected)
