"""MarsRL in miniature: the page is made of the ledger, rows are checked, the whole command runs in short."""

import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

import studies.marsrl.study as study
from mars_env.errors import ConfigError
from mars_env.evaluation import provenance
from studies.common.ledger import Ledger

ROOT = Path(__file__).parents[2]


@pytest.fixture
def app():
    app = typer.Typer()
    app.command()(study.main)
    return app


def test_table_makes_the_page_from_the_ledger_byte_for_byte(app, tmp_path, monkeypatch):
    written = (study.DOCS / "results.md").read_bytes()
    (tmp_path / "results").mkdir()
    begin, end = written.index(b"<!-- begin marsrl -->"), written.index(b"<!-- end marsrl -->")
    (tmp_path / "results.md").write_bytes(written[:begin] + b"<!-- begin marsrl -->\nold\n" + written[end:])
    monkeypatch.setattr(study, "DOCS", tmp_path)
    result = CliRunner().invoke(app, ["--table"])
    assert result.exit_code == 0, result.output
    assert (tmp_path / "results.md").read_bytes() == written
    assert b"<svg" in (tmp_path / "results" / "rewards.svg").read_bytes()


def test_every_row_of_the_present_settings_is_one_that_the_command_knows():
    rows = study.LEDGER.rows(study.settings())
    assert {row.arm for row in rows} <= set(study.ROWS)
    assert {(row.arm, row.seed) for row in rows} >= {(arm, seed) for arm in study.ARM for seed in range(5)}


def test_check_tells_which_figures_differ(app, monkeypatch):
    """The played rows stand in for an hour of training; what is compared is the ledger's own."""
    stored = {row.arm: row for row in study.LEDGER.rows(study.settings()) if row.seed == 0}

    def check(rows, seed="0"):
        monkeypatch.setattr(study, "play", lambda name, seed, origin, cache: rows[name])
        return CliRunner().invoke(app, ["--check", seed, "--arm", "none", "--arm", "all"])

    assert check(stored).exit_code == 0
    figures = stored["all"].figures
    changed = {**figures, "system_accuracy": figures["system_accuracy"] + 1e-9}
    missing = {name: value for name, value in figures.items() if name != "tokens"}
    for now, name in ((changed, "system_accuracy"), (missing, "tokens")):
        done = check(stored | {"all": stored["all"].model_copy(update={"figures": now})})
        assert done.exit_code == 1
        assert "none, seed 0: the same" in done.output and f"all, seed 0: differs in {name}" in done.output
    refused = check(stored, "77").exception
    assert isinstance(refused, ConfigError) and "no row for 'none', 'all', seed 77" in str(refused)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_row_of_the_ledger_is_played_again(tmp_path):
    """To the digit on the ledger's machine; elsewhere other kernels may sample some tokens otherwise."""
    [stored] = [r for r in study.LEDGER.rows(study.settings()) if (r.arm, r.seed) == (study.FORCED, 0)]
    now = study.play(study.FORCED, 0, provenance(allow_dirty=True), tmp_path)
    assert now.figures.keys() == stored.figures.keys()
    for name in ("solver_accuracy", "system_accuracy", "verifier_recall", "verifier_precision"):
        assert now.figures[name] == pytest.approx(stored.figures[name], abs=0.02), name
    if now.versions == stored.versions:
        assert now.figures["tokens"] == pytest.approx(stored.figures["tokens"], rel=0.02)


def test_an_arm_that_there_is_not_is_named(app):
    result = CliRunner().invoke(app, ["--arm", "everybody", "--table"])
    assert result.exit_code == 2 and "everybody" in result.output


def test_uncommitted_code_records_nothing(app, tmp_path, monkeypatch):
    def refuse(*, allow_dirty):
        assert not allow_dirty
        raise ConfigError("the working tree differs")

    ledger = Ledger(tmp_path / "marsrl.jsonl")
    monkeypatch.setattr(study, "LEDGER", ledger)
    monkeypatch.setattr(study, "provenance", refuse)
    result = CliRunner().invoke(app, ["--seeds", "0", "--arm", "none"])
    assert isinstance(result.exception, ConfigError) and not ledger.path.exists()


def test_a_continued_solver_must_belong_to_its_arm(tmp_path, monkeypatch):
    """The team is trained again; were it another one, its Solver would meet a stranger's System."""
    ledger = Ledger(tmp_path / "marsrl.jsonl")
    monkeypatch.setattr(study, "LEDGER", ledger)
    origin = provenance(allow_dirty=True)
    row = study.play("none", 3, origin, tmp_path, quick=True)
    name = "none, continued"
    ledger.append(row)
    assert study.play(name, 3, origin, tmp_path, quick=True).detail["repeats_row"]
    other = row.model_copy(update={"figures": {**row.figures, "tokens": row.figures["tokens"] + 1}})
    ledger.path.write_text(other.model_dump_json() + "\n")
    with pytest.raises(ConfigError, match="none, seed 3, differs from its row in tokens"):
        study.play(name, 3, origin, tmp_path, quick=True)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_quick_seed_runs_as_a_command_and_keeps_nothing():
    before = study.LEDGER.path.read_bytes(), (study.DOCS / "results.md").read_bytes()
    done = subprocess.run(
        [sys.executable, "-m", "studies.marsrl", "--quick", "--seeds", "7"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    shown = " ".join(done.stdout.split())
    assert all(f"| {name} | 7 |" in shown for name in (*study.ARM, *study.CONTROLS))
    assert all(f"| {arm.name} | 7 |" in shown for arm in study.CONTINUED.values())
    assert (study.LEDGER.path.read_bytes(), (study.DOCS / "results.md").read_bytes()) == before
