"""The table of limits, which the page shows as it is."""

from pathlib import Path

from mars_env.sandbox import holds

PAGE = Path(__file__).parents[2] / "docs/sandbox.md"


def test_the_page_shows_the_table():
    assert holds.table() in PAGE.read_text(encoding="utf-8"), "put sandbox.holds.table() into docs/sandbox.md"


def test_who_asks_sees_the_own_column(monkeypatch):
    monkeypatch.setattr(holds, "is_root", lambda: True)
    as_root = holds.held_here("bubblewrap")
    monkeypatch.setattr(holds, "is_root", lambda: False)
    differing = {limit for limit, how in holds.held_here("bubblewrap").items() if how is not as_root[limit]}
    assert differing == {"memory of pipes, entries of epoll, as the kernel counts them by user"}
