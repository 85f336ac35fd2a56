"""A study's contract: what is owed, run, kept, compared, tuned and shown."""

import asyncio
import json
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
import typer
from pydantic import BaseModel
from typer.testing import CliRunner

from mars_env.errors import ConfigError, StoreError
from mars_env.evaluation.provenance import Provenance
from studies.common import study as module
from studies.common.claims import Claim
from studies.common.episodes import made_once
from studies.common.ledger import LedgerRow, settings_hash
from studies.common.study import Result, Run, Study, arm_by_arm

CLAIM = Claim("all above none", "all", "x", "none")
ORIGIN = Provenance("c" * 40, {"python": "3"})


class Recipe(BaseModel):
    """Numbers, and a folder in which a row leaves a trace."""

    number: float = 1.0
    trace: str = ""


@arm_by_arm
async def play(arm, run):
    if run.recipe.trace:
        Path(run.recipe.trace, f"{arm}-{run.seed}").touch()
    if arm == "slow":
        await asyncio.sleep(0.3)
    return Result({"x": run.seed + run.recipe.number, "y": None, "seconds": float(id(run))}, {"n": arm})


async def play_together(arms, run):
    return {arm: Result({"x": float(len(arms))}, {}, 9.0) for arm in arms}


def shown(rows):
    return {"more": f"{len(rows)} rows"}


@pytest.fixture
def study(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "provenance", lambda: ORIGIN)
    return Study(
        name="one", task="a task", starts="1", arms=("none", "all"), recipe=Recipe(),
        quick=Recipe(number=9.0), play=play, shown=shown, claims=(CLAIM,),
        seeds="0-1", measured=("seconds",), plan_of=None, root=tmp_path,
    )  # fmt: skip


def run(study, *options):
    app = typer.Typer()
    app.command()(study.command)
    return CliRunner().invoke(app, list(map(str, options)))


def keys(ledger):
    return [(row.arm, row.seed) for row in ledger.rows()]


def test_the_plan_is_run_seed_by_seed_and_no_row_twice(study):
    assert run(study, "--seeds", "1", "--arm", "all").exit_code == 0
    done = run(study)
    assert done.exit_code == 0, done.output
    assert keys(study.ledger) == [("all", 1), ("none", 0), ("all", 0), ("none", 1)]
    row = study.ledger.rows()[0]
    assert (row.figures["x"], row.detail, row.commit) == (2.0, {"n": "all"}, "c" * 40)
    assert "y" not in row.figures and row.settings == study.settings()
    assert "one.jsonl" not in done.output and run(study).output == ""


def test_settings_are_the_recipe_and_what_is_beside_it(study):
    assert study.settings() == settings_hash({"number": 1.0, "trace": ""})
    other = replace(study, beside=lambda recipe: {"t": recipe.number})
    assert other.settings() == settings_hash({"recipe": {"number": 1.0, "trace": ""}, "t": 1.0})


def test_a_check_compares_all_but_what_is_measured(study):
    run(study)
    assert run(study, "--check", "0").exit_code == 0
    stored = study.ledger.path.read_text()
    study.ledger.path.write_text(stored.replace('"x":1.0', '"x":1.5', 1))
    done = run(study, "--check", "0")
    assert done.exit_code == 1
    assert "none, seed 0: differs in x" in done.output and "all, seed 0: the same" in done.output
    exact = replace(study, unrepeatable=("none",))
    assert run(exact, "--check", "0").exit_code == 0
    assert isinstance(run(study, "--check", "7").exception, ConfigError)
    assert isinstance(run(study, "--check", "0", "--arm", "none", "--arm", "all").exception, SystemExit)
    assert len(study.ledger.rows()) == 4


def test_rows_that_are_run_together_are_kept_where_the_ledger_lacks_them(study):
    both = replace(study, play=play_together, together=True)
    run(both, "--seeds", "0", "--arm", "all")
    assert keys(both.ledger) == [("all", 0)]
    run(both)
    assert keys(both.ledger) == [("all", 0), ("none", 0), ("none", 1), ("all", 1)]
    assert [row.figures["x"] for row in both.ledger.rows()] == [1.0, 1.0, 2.0, 2.0]
    assert {row.seconds for row in both.ledger.rows()} == {9.0}
    assert run(both, "--check", "1").exit_code == 0


@pytest.mark.parametrize("options", [("--seeds", "100"), ("--seeds", "99-100"), ("--arm", "nothing")])
def test_unknown_arms_and_mixed_seeds_are_rejected(study, options, tmp_path):
    assert run(study, *options).exit_code == 2
    assert not (tmp_path / "one").exists()


def test_tuning_rows_are_kept_apart_with_their_recipe(study, tmp_path):
    recipe = tmp_path / "recipe.json"
    recipe.write_text(json.dumps({"number": 3.0}))
    assert run(study, "--recipe", recipe, "--seeds", "0").exit_code == 2
    assert run(study, "--recipe", recipe).exit_code == 2
    assert run(study, "--recipe", recipe, "--seeds", "100", "--arm", "all").exit_code == 0
    [row] = study.tuning.rows()
    assert row.detail["recipe"] == {"number": 3.0, "trace": ""} and not study.ledger.rows()
    assert run(study, "--recipe", recipe, "--check", "100").exit_code == 0


def test_quick_runs_every_arm_and_keeps_nothing(study, tmp_path):
    done = run(study, "--quick")
    assert [line.split(":")[0] for line in done.output.splitlines()] == ["none, seed 0", "all, seed 0"]
    assert "x 9.000" in done.output and not (tmp_path / "one").exists()


def test_the_page_is_made_of_the_present_rows(study, tmp_path):
    assert isinstance(run(study, "--table").exception, ConfigError)
    run(study, "--seeds", "0")
    plots = replace(study, plots=lambda rows: {"a.svg": b"<svg"})
    page = tmp_path / "one" / "README.md"
    page.write_text("<!-- begin ledger -->\n<!-- end ledger -->\n")
    assert run(plots, "--table").exit_code == 0
    written = study.page(study.rows())
    assert page.read_text() == f"<!-- begin ledger -->\n{written}<!-- end ledger -->\n"
    assert page.with_name("a.svg").read_bytes() == b"<svg"
    assert written.startswith("**2 rows of the plan have not been run yet.**\n\n| Arm |")
    assert "| all above none | " in written and "\n\n2 rows\n\n" in written


def test_arms_may_have_seeds_of_their_own(study):
    own = replace(study, seeds_of_arm={"all": range(5, 7)})
    assert own.plan_rows() == [("none", 0), ("none", 1), ("all", 5), ("all", 6)]
    assert own.wanted("1,6", None, tuning=False) == [("none", 1), ("none", 6), ("all", 6)]


def test_a_plan_is_committed_before_the_first_row(study, monkeypatch):
    def commit_of(path):
        raise ConfigError(f"{path.name} is not committed")

    monkeypatch.setattr(module, "commit_of", commit_of)
    planned = replace(study, plan_of="")
    assert isinstance(run(planned).exception, ConfigError) and not planned.ledger.rows()
    monkeypatch.setattr(module, "commit_of", lambda path: "p" * 40)
    run(planned, "--seeds", "0")
    assert {row.detail["plan"] for row in planned.ledger.rows()} == {"p" * 40}


def test_uncommitted_code_records_nothing(study, monkeypatch):
    monkeypatch.setattr(module, "provenance", lambda: replace(ORIGIN, commit="c" * 40 + "-dirty"))
    assert isinstance(run(study).exception, ConfigError) and not study.ledger.path.exists()
    assert run(study, "--allow-dirty", "--seeds", "0").exit_code == 0


@pytest.mark.parametrize("kept", [True, False])
def test_after_a_row_that_fails_no_other_is_begun(study, tmp_path, kept):
    """Whether it cannot be run, or cannot be kept (as another run has written it meanwhile)."""
    slow = replace(study, arms=("none", "slow"))
    trace = tmp_path if kept is False else tmp_path / "missing"
    recipe = Recipe(trace=str(trace))
    if not kept:
        slow.ledger.append(
            LedgerRow(
                arm="none", seed=0, settings=slow.settings(recipe), versions={"a": "1"}, seconds=1, figures={}
            )
        )
    owed = [("none", 0), *(("slow", seed) for seed in range(1, 40))]
    with pytest.raises(FileNotFoundError if kept else StoreError):
        slow.add(owed, Run(0, recipe, tmp_path), ORIGIN, jobs=1)
    assert len(list(tmp_path.glob("slow-*"))) < 39, "a few were handed to the process already"


def test_a_warm_start_that_several_want_is_made_once(tmp_path):
    made = []

    def make(folder):
        time.sleep(0.05)
        made.append(folder)

    with ThreadPoolExecutor(4) as pool:
        found = {pool.submit(made_once, tmp_path / "a" / "start", make) for _ in range(4)}
    assert {each.result() for each in found} == {tmp_path / "a" / "start"} and len(made) == 1


def test_state_is_kept_between_runs_but_not_for_a_check(study, tmp_path):
    state = replace(study, state=tmp_path / "runs")
    settings = study.settings()
    assert state.place(None, "new", True, study.recipe) == tmp_path / "runs" / settings
    assert state.place(tmp_path, str(tmp_path / "new"), False, study.recipe) == tmp_path / "new" / settings
    assert study.place(tmp_path, "new", False, study.recipe) == tmp_path / settings
