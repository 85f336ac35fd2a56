"""What counts as time asleep."""

from hypothesis import given
from hypothesis import strategies as st

from mars_env.sandbox.inside.watch import idle_time

seconds = st.floats(min_value=0, max_value=1e6)


@given(seconds, st.floats(min_value=1, max_value=20))
def test_a_box_that_was_kept_waiting_counts_no_more_than_it_has_seen(passed, wait):
    counted = idle_time(passed, wait)
    assert 0 <= counted <= passed and counted <= 2 * wait / 1000
    assert counted == passed or passed > 2 * wait / 1000
