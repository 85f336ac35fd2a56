"""The study of subset sums: reported and tuning seeds stay apart, and the numbers of the plan stay fixed."""

import pytest
import typer
from typer.testing import CliRunner

import studies.sums.study as study
from studies.common.ledger import Ledger, LedgerRow


@pytest.fixture
def page(tmp_path_factory, monkeypatch):
    docs = tmp_path_factory.mktemp("docs")
    (docs / "sums.md").write_text("<!-- begin sums -->\n<!-- end sums -->\n")
    monkeypatch.setattr(study, "DOCS", docs)
    return docs / "sums.md"


@pytest.fixture
def run(page, tmp_path, monkeypatch):
    monkeypatch.setattr(study, "LEDGER", Ledger(tmp_path / "sums.jsonl"))
    monkeypatch.setattr(study, "TUNING", Ledger(tmp_path / "tuning.jsonl"))
    monkeypatch.setattr(study, "RECIPE", study.QUICK)
    app = typer.Typer()
    app.command()(study.main)
    return lambda *options: CliRunner().invoke(app, ["--allow-dirty", *options])


@pytest.mark.parametrize(
    "options",
    [
        ["--seeds", "100"],
        ["--seeds", "0", "--tuning"],
        ["--seeds", "99-100", "--tuning"],
        ["--seeds", "0", "--steps", "5"],
        ["--arm", "everything"],
    ],
)
def test_seeds_and_settings_cannot_be_mixed_up(run, options, tmp_path):
    assert run(*options).exit_code == 2
    assert not list(tmp_path.iterdir())


def test_rows_are_kept_apart_continued_and_checked(run, page):
    assert run("--seeds", "0", "--arm", "none").exit_code == 0
    tuned = run("--tuning", "--seeds", "100", "--arm", "none", "--steps", "1", "--learning-rate", "0.001")
    assert tuned.exit_code == 0, tuned.output
    [row] = study.LEDGER.rows()
    [tuning] = study.TUNING.rows()
    assert (row.seed, tuning.seed) == (0, 100) and row.settings != tuning.settings
    assert tuning.detail["recipe"]["marsrl"]["train"]["learning_rate"] == 0.001
    assert run("--seeds", "0", "--arm", "none").exit_code == 0 and len(study.LEDGER.rows()) == 1
    assert "none, seed 0: the same" in run("--check", "0", "--arm", "none").output
    assert "**29 rows of the plan have not been run yet.**" in page.read_text()
    assert "solver not run; " in page.read_text()


def test_a_check_without_a_row_fails(run):
    assert run("--check", "0", "--arm", "none").exit_code == 1


def test_the_claims_are_judged_once_all_arms_are_there(capsys):
    names = {*study.COLUMNS, "tokens"}
    rows = [
        LedgerRow(arm=arm, seed=seed, settings="s", seconds=1, figures=dict.fromkeys(names, 0.5 + seed / 100))
        for arm in study.ARM
        for seed in (0, 1)
    ]
    study.show(rows, list(study.ARM))
    printed = capsys.readouterr().out
    assert "the bar: after joint training, System above fresh retries" in printed
    study.show(rows[:2], list(study.ARM))
    assert "the bar" not in capsys.readouterr().out
