"""The capacity rule, against the schedule that it was derived from."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from studies.echo.capacity import Capacity


def capacity(update, spread, rollout, bound):
    return Capacity(
        update_seconds=update, spread_seconds=spread, rollout_seconds=rollout, max_staleness=bound
    )


def played(update, spread, rollout, bound, steps=400):
    """Seconds between updates of the schedule itself: step s needs the weights after s - S updates."""
    known, played, trained = [0.0], 0.0, 0.0  # when version v is there; when step s is played; trained
    for step in range(steps):
        needs = max(0, step - bound)
        played = max(known[needs] + (spread if needs else 0.0), played) + rollout
        trained = max(trained, played) + update
        known.append(trained)
    return (known[steps] - known[steps // 2]) / (steps - steps // 2)


positive = st.floats(0.1, 10)


@given(positive, st.floats(0, 10), positive, st.integers(0, 8))
def test_the_formula_is_what_the_schedule_does(update, spread, rollout, bound):
    plan = capacity(update, spread, rollout, bound)
    assert played(update, spread, rollout, bound) == pytest.approx(plan.period(1), rel=0.02)


@given(positive, st.floats(0, 10), positive, st.integers(0, 8))
def test_so_many_samplers_and_no_fewer_keep_the_learner_busy(update, spread, rollout, bound):
    plan = capacity(update, spread, rollout, bound)
    if plan.samplers is None:
        assert plan.idle(10**9) >= 0 and bound * update <= spread
    else:
        assert plan.idle(plan.samplers) == pytest.approx(0, abs=1e-6)
        assert plan.samplers == 1 or plan.idle(plan.samplers - 1) > 0
