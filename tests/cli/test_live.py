"""The live view of `evaluate`, at 80 and 120 columns."""

import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mars_env.cli.live import run_view
from mars_env.cli.screen import Screen
from mars_env.evaluation.counters import Share, Snapshot

SHARES = st.integers(1, 10**6).flatmap(lambda n: st.builds(Share, st.integers(0, n), st.just(n)))
REASONS = st.dictionaries(st.text("ab[\x1b", min_size=1, max_size=200), st.integers(1, 10**6), max_size=5)


def shown(view, width):
    file = io.StringIO()
    Screen(file=file, width=width, color_system=None).print(view)
    return file.getvalue()


@settings(max_examples=25)
@given(SHARES, REASONS, st.integers(0, 10**4), st.integers(0, 10**6))
@pytest.mark.parametrize("width", [80, 120])
def test_a_run_is_shown_within_the_columns_of_a_terminal(width, share, reasons, cost, number):
    snapshot = Snapshot(
        episodes=number, total=10**6, turns=number, read_tokens=number, sampled_tokens=number, cost=cost,
        accuracy=share, correct={"solver": share}, accepts={"verifier": share}, faults=reasons,
        unknown=reasons, seconds=100.0, turns_per_second=12.5, tokens_per_second=4000.0, seconds_left=3600.0,
    )  # fmt: skip
    text = shown(run_view(snapshot), width)
    assert all(len(line) <= width for line in text.splitlines()) and "1:00:00 left" in text
    assert f"{share.value:.1%} right" in text and "accept" in text and "cost $" in text
    assert text.count("discarded") == text.count("UNKNOWN") == min(3, len(reasons))
