"""What the programs of studies share."""

from contextlib import nullcontext

import pytest
import typer
from pydantic import BaseModel
from studies import (
    chosen,
    play_owed,
    play_seeds,
    refuse_mixed_seeds,
    rendered,
    repeats,
    seed_by_seed,
    seed_repeats,
    settings_of,
    show,
    with_recipe,
)

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


@pytest.mark.parametrize("jobs", [0, 1])
def test_owed_rows_are_played_seed_by_seed_and_kept(tmp_path, jobs):
    ledger = Ledger(tmp_path / "rows.jsonl")
    ledger.append(row("none", 1))
    owed = seed_by_seed(ledger.missing(["none", "all"], [0, 1], "s"))
    assert owed == [("none", 0), ("all", 0), ("all", 1)]
    assert [(r.arm, r.seed) for r in play_owed(played, owed, ledger, jobs)] == owed
    assert ledger.missing(["none", "all"], [0, 1], "s") == []


def test_whole_seeds_are_played_and_only_what_the_ledger_lacks_is_kept(tmp_path):
    ledger, asked = Ledger(tmp_path / "rows.jsonl"), []
    for arm, seed in (("none", 0), ("all", 0), ("none", 1)):
        ledger.append(row(arm, seed))

    def play(seed, done):
        asked.append((seed, done))
        return [row("none", seed, x=9), row("all", seed, x=9)]

    shown = list(play_seeds(play, [0, 1, 2], ["none", "all"], ledger, "s"))
    assert asked == [(1, {"none"}), (2, set())]
    assert [(r.arm, r.seed) for r in shown] == [("none", 1), ("all", 1), ("none", 2), ("all", 2)]
    assert [(r.arm, r.seed, r.figures["x"]) for r in ledger.rows()] == [
        ("none", 0, 0), ("all", 0, 0), ("none", 1, 1), ("all", 1, 9), ("none", 2, 9), ("all", 2, 9),
    ]  # fmt: skip


def test_a_seed_that_was_played_together_is_compared_row_by_row(capsys):
    stored = [row("none", 0, x=1.0), row("all", 0, x=2.0)]
    assert seed_repeats(stored, 0, [row("all", 0, x=2.0), row("none", 0, x=1.0)])
    assert not seed_repeats(stored, 0, [row("none", 0, x=1.0), row("all", 0, x=2.5)])
    assert capsys.readouterr().out.splitlines()[-1] == "all, seed 0: differs in x"


@pytest.mark.parametrize(
    ("seeds", "tuning", "numbers", "refused"),
    [
        ([0, 99], False, [None], False),
        ([100], True, [3, None], False),
        ([], False, [None], False),
        ([99, 100], False, [], True),
        ([99, 100], True, [], True),
        ([0], False, [None, 3], True),
    ],
)
def test_tuning_seeds_and_numbers_stay_apart(seeds, tuning, numbers, refused):
    with pytest.raises(typer.BadParameter) if refused else nullcontext():
        refuse_mixed_seeds(seeds, tuning, numbers)


def test_a_row_says_its_figures_and_a_tuning_row_its_numbers(capsys):
    class Recipe(BaseModel):
        steps: int = 3

    assert settings_of(Recipe()) == settings_of(Recipe(steps=3)) != settings_of(Recipe(steps=4))
    assert with_recipe(row("none", 0), Recipe()).detail == {"recipe": {"steps": 3}}
    show(row("none", 0, x=0.5, y=0.25))
    show(row("none", 0, x=0.5, y=0.25), {"y": "why", "z": "absent"})
    assert capsys.readouterr().out.splitlines() == [
        "none, seed 0: x 0.500, y 0.250; 1 s",
        "none, seed 0: why 0.250; 1 s",
    ]


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
