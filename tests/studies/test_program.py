"""What the programs of studies share."""

import time
from contextlib import nullcontext
from functools import partial

import pytest
import typer
from pydantic import BaseModel

from mars_env.errors import ConfigError, StoreError
from mars_env.evaluation import Provenance
from mars_env.trainers import RunSettings
from studies.common.ledger import Ledger, LedgerRow, settings_hash
from studies.common.program import (
    chosen,
    new_row,
    play_owed,
    play_seeds,
    present_rows,
    refuse_mixed_seeds,
    rendered,
    repeats,
    seed_repeats,
    settings_of,
    show,
    still_owed,
    varied_run,
    with_recipe,
    write,
)


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
def test_owed_rows_are_played_seed_by_seed_kept_and_shown(tmp_path, jobs, capsys):
    ledger = Ledger(tmp_path / "rows.jsonl")
    ledger.append(row("none", 1))
    owed = ledger.missing(["none", "all"], [0, 1], "s")
    assert owed == [("none", 0), ("all", 0), ("all", 1)]
    play_owed(played, reversed(owed), ledger, {"x": "why"}, jobs)
    assert [(r.arm, r.seed) for r in ledger.rows()[1:]] == [("all", 0), ("none", 0), ("all", 1)]
    assert "all, seed 1: why 1.000; 1 s" in capsys.readouterr().out


def noted(folder, arm, seed):
    (folder / f"{arm}-{seed}").touch()
    if arm == "all":
        time.sleep(0.3)
    return row(arm, seed)


@pytest.mark.parametrize("kept", [True, False])
def test_after_a_row_that_fails_no_other_is_begun(tmp_path, kept):
    """Whether it cannot be played, or cannot be kept (as another run has written it meanwhile)."""
    ledger, play = Ledger(tmp_path / "rows.jsonl"), partial(noted, tmp_path)
    if not kept:
        ledger.append(row("none", 0))
    owed = [("none", 0), *(("all", seed) for seed in range(1, 40))]
    with pytest.raises(FileNotFoundError if kept else StoreError, match=r"none-0|none.*0"):
        play_owed(partial(noted, tmp_path / "missing") if kept else play, owed, ledger, None, 1)
    assert len(list(tmp_path.glob("all-*"))) < 39, "a few were handed to the process already"


def test_whole_seeds_are_played_and_only_what_the_ledger_lacks_is_kept(tmp_path, capsys):
    ledger, asked = Ledger(tmp_path / "rows.jsonl"), []
    for arm, seed in (("none", 0), ("all", 0), ("none", 1)):
        ledger.append(row(arm, seed))

    def play(seed, done):
        asked.append((seed, done))
        return [row("none", seed, x=9), row("all", seed, x=9)]

    play_seeds(play, [0, 1, 2], ["none", "all"], ledger, "s")
    assert asked == [(1, {"none"}), (2, set())]
    shown = [line.split(":")[0] for line in capsys.readouterr().out.splitlines()]
    assert shown == ["none, seed 1", "all, seed 1", "none, seed 2", "all, seed 2"]
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
    assert settings_of(Recipe(), {"t": 1}) == settings_hash({"recipe": {"steps": 3}, "t": 1})
    assert with_recipe(row("none", 0), Recipe()).detail == {"recipe": {"steps": 3}}
    show(row("none", 0, x=0.5, y=0.25))
    show(row("none", 0, x=0.5, y=0.25), {"y": "why", "z": "absent"})
    assert capsys.readouterr().out.splitlines() == [
        "none, seed 0: x 0.500, y 0.250; 1 s",
        "none, seed 0: why 0.250; 1 s",
    ]


def test_a_new_row_says_where_it_comes_from_and_leaves_out_what_has_no_value():
    made = new_row("all", 3, Provenance("a1", {"python": "3"}), "s", 1.26, {"x": 0.5, "y": None}, {"n": 2})
    assert made == LedgerRow(
        arm="all", seed=3, commit="a1", versions={"python": "3"}, settings="s", seconds=1.3,
        figures={"x": 0.5}, detail={"n": 2},
    )  # fmt: skip


def test_a_page_needs_rows_and_says_how_many_are_owed(tmp_path):
    ledger = Ledger(tmp_path / "rows.jsonl")
    ledger.append(row("none", 0))
    assert present_rows(ledger, "s") == ledger.rows()
    with pytest.raises(ConfigError, match="no row of the present settings; run a seed"):
        present_rows(ledger, "other")
    assert still_owed(3, ledger.rows()) == "**2 rows of the plan have not been run yet.**\n\n"
    assert still_owed(1, ledger.rows()) == ""


def test_a_part_of_a_page_is_replaced_between_its_marks(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# Page\n\n<!-- begin a -->\nold\n<!-- end a -->\nrest\n")
    write(page, "a", "new\n\n")
    assert page.read_text() == "# Page\n\n<!-- begin a -->\nnew\n<!-- end a -->\nrest\n"


@pytest.mark.parametrize(
    "text", ["", "begin", "end", "end begin", "begin begin end", "begin end begin end", "begin end end"]
)
def test_a_page_without_its_marks_once_each_stays_as_it_is(tmp_path, text):
    page = tmp_path / "page.md"
    before = "".join(f"<!-- {mark} a -->\nold\n" for mark in text.split())
    page.write_text(before)
    with pytest.raises(ConfigError, match="once each"):
        write(page, "a", "new")
    assert page.read_text() == before


def test_only_the_named_numbers_of_a_run_vary():
    run = RunSettings(steps=5)
    assert varied_run(run, None, None) == run
    varied = varied_run(run, 0, 0.5)
    assert (varied.steps, varied.train.learning_rate) == (0, 0.5)
    assert varied_run(varied, 5, run.train.learning_rate) == run


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
