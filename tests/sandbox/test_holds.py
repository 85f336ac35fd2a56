"""The table of limits: shown by the page as it is, and each row proven by the suite."""

from pathlib import Path

import pytest

from mars_env.sandbox import BACKENDS, How, holds
from mars_env.testing import sandbox_suite

PAGE = Path(__file__).parents[2] / "docs/sandbox.md"


def test_the_page_shows_the_table():
    assert holds.table() in PAGE.read_text(encoding="utf-8"), "put sandbox.holds.table() into docs/sandbox.md"


@pytest.mark.parametrize("name", ["bubblewrap", "landlock"])
def test_each_limit_that_holds_is_proven_by_a_check_of_the_suite(name):
    checks = {check.name for check in sandbox_suite.checks_for(BACKENDS[name]())}
    for row in holds.ROWS:
        assert set(row.checks) <= checks, row.limit
        assert row.checks or How.SHARED in row.how, f"nothing proves {row.limit!r}"


def test_who_asks_sees_the_own_column(monkeypatch):
    monkeypatch.setattr(holds, "is_root", lambda: True)
    as_root = holds.held_here("bubblewrap")
    monkeypatch.setattr(holds, "is_root", lambda: False)
    differing = {limit for limit, how in holds.held_here("bubblewrap").items() if how is not as_root[limit]}
    assert differing == {"memory of pipes, entries of epoll, as the kernel counts them by user"}
