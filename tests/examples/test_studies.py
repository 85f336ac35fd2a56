"""What the programs of studies share."""

import pytest
import typer
from studies import chosen, play_owed, rendered, repeats, seed_by_seed

from mars_env.errors import ConfigError
from mars_env.evaluation import Ledger, LedgerRow


def row(arm, seed, **figures):
    return LedgerRow(
        arm=arm, seed=seed, settings="s", versions={"python": "3"}, seconds=1, figures=figures or {"x": seed}
    )


def played(arm, seed):
    return row(arm, seed)


def test_arms_keep_their_order_and_unknown_ones_are_named():
    assert chosen(None, ["none", "all"]) == chosen([], ["none", "all"]) == ["none", "all"]
    assert chosen(["all", "none"], ["none", "solver", "all"]) == ["none", "all"]
    with pytest.raises(typer.BadParameter, match="unknown: al, nobody; there are none; all"):
        chosen(["nobody", "al", "none"], ["none", "all"])


def test_owed_rows_are_played_seed_by_seed_and_kept(tmp_path):
    ledger = Ledger(tmp_path / "rows.jsonl")
    ledger.append(row("none", 1))
    owed = seed_by_seed(ledger.missing(["none", "all"], [0, 1], "s"))
    assert owed == [("none", 0), ("all", 0), ("all", 1)]
    assert [(r.arm, r.seed) for r in play_owed(played, owed, ledger, jobs=1)] == owed
    assert ledger.missing(["none", "all"], [0, 1], "s") == []


def test_rows_that_do_not_repeat_are_named(capsys):
    stored = [row("none", 0, x=1.0, seconds=3.0), row("all", 0, x=2.0, y=0.1), row("none", 1, x=9.0)]
    again = {"none": row("none", 0, x=1.0, seconds=5.0, new=1.0), "all": row("all", 0, x=2.0)}
    assert repeats(stored, 0, ["none"], lambda arm, seed: again[arm], measured=["seconds"])
    assert not repeats(stored, 0, ["none", "all"], lambda arm, seed: again[arm])
    assert capsys.readouterr().out.splitlines() == [
        "none, seed 0: the same",
        "none, seed 0: differs in seconds",
        "all, seed 0: differs in y",
    ]
    with pytest.raises(ConfigError, match="no row for 'all', seed 1"):
        repeats(stored, 1, ["none", "all"], lambda arm, seed: again[arm])


def test_pages_are_rendered_from_templates_that_lack_nothing():
    with pytest.raises(Exception, match="undefined"):
        rendered("openrlhf_results.md.jinja")
