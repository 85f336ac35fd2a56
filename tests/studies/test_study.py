"""A study's contract: what is owed, run, kept, compared, tuned and shown."""

from dataclasses import replace

import pytest
import typer
from pydantic import BaseModel
from typer.testing import CliRunner

from mars_env.errors import ConfigError
from mars_env.evaluation.provenance import Provenance
from studies.common import study as module
from studies.common.claims import Claim
from studies.common.study import Result, Study, arm_by_arm

CLAIM = Claim("all above none", "all", "x", "none")
ORIGIN = Provenance("c" * 40, {"python": "3"})


class Recipe(BaseModel):
    number: float = 1.0


@arm_by_arm
async def play(arm, run):
    return Result({"x": run.seed + run.recipe.number, "y": None, "seconds": float(id(run))}, {"n": arm})


def shown(rows):
    return {"more": f"{len(rows)} rows"}


@pytest.fixture
def study(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "provenance", lambda: ORIGIN)
    return Study(
        name="one", version="1", task="a task", starts="1", arms=("none", "all"), recipe=Recipe(),
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
    assert written.startswith("**Incomplete: 2 of 4 rows of the plan have been made.**\n\n| Arm |")
    assert "| all above none | " in written and "\n\n2 rows\n\n" in written


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
