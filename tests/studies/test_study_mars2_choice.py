"""The study of MARS2's final choice: reported and tuning seeds stay apart, and rows repeat."""

import json

import pytest
import typer
from typer.testing import CliRunner

import studies.mars2_choice.study as study
from studies.common.ledger import Ledger, LedgerRow
from studies.mars2.recipe import Mars2Recipe
from studies.mars2.warm_start import WarmStart
from studies.mars2_choice.choice import ChoiceRecipe, RewardRecipe

TINY = ChoiceRecipe(
    mars2=Mars2Recipe(
        warm_start=WarmStart(shape=(32, 64, 1), updates=5, rows=16, shown=1, most=1),
        level=(1, 1),
        steps=1,
        problems_per_step=2,
        problems=4,
        tokens=24,
        cuts=(12,),
        diversity_nodes=2,
    ),
    reward_model=RewardRecipe(problems=4, updates=2, rows=4),
)


@pytest.fixture
def page(tmp_path_factory, monkeypatch):
    docs = tmp_path_factory.mktemp("docs")
    (docs / "final-choice.md").write_text("<!-- begin final-choice -->\n<!-- end final-choice -->\n")
    monkeypatch.setattr(study, "DOCS", docs)
    return docs / "final-choice.md"


@pytest.fixture
def run(page, tmp_path, monkeypatch):
    monkeypatch.setattr(study, "LEDGER", Ledger(tmp_path / "rows.jsonl"))
    monkeypatch.setattr(study, "TUNING", Ledger(tmp_path / "tuning.jsonl"))
    monkeypatch.setattr(study, "RECIPE", TINY)

    app = typer.Typer()
    app.command()(study.main)
    return lambda *options: CliRunner().invoke(app, ["--allow-dirty", "--jobs", "0", *map(str, options)])


@pytest.mark.parametrize("options", [["--seeds", "100"], ["--seeds", "99-100"], ["--arm", "everything"]])
def test_seeds_and_arms_cannot_be_mixed_up(run, options, tmp_path):
    assert run(*options).exit_code == 2
    assert not list(tmp_path.iterdir())


def test_rows_are_kept_apart_continued_and_checked(run, page, tmp_path):
    first = run("--seeds", "0", "--arm", "heterogeneous")
    assert first.exit_code == 0, first.output
    recipe = tmp_path.with_suffix(".json")
    recipe.write_text(
        json.dumps(TINY.model_copy(update={"reward_model": RewardRecipe()}).model_dump(mode="json"))
    )
    assert run("--tuning", recipe, "--seeds", "0").exit_code == 2
    tuned = run("--tuning", recipe, "--seeds", "100", "--arm", "untrained")
    assert tuned.exit_code == 0, tuned.output
    [row], [tuning] = study.LEDGER.rows(), study.TUNING.rows()
    assert (row.seed, tuning.seed) == (0, 100) and row.settings != tuning.settings
    assert tuning.detail["recipe"]["reward_model"]["problems"] == 3000
    assert run("--seeds", "0", "--arm", "heterogeneous").exit_code == 0 and len(study.LEDGER.rows()) == 1
    assert "heterogeneous, seed 0: the same" in run("--check", "0", "--arm", "heterogeneous").output
    assert "**24 rows of the plan have not been run yet.**" in page.read_text()


def test_the_claims_are_judged_once_all_arms_are_there(capsys):
    names = {*study.TEAMS, *study.CHOICES, *study.LEFT, "depth_pass@1"}
    rows = [
        LedgerRow(arm=arm, seed=seed, settings="s", seconds=1, figures=dict.fromkeys(names, 0.5 + seed / 100))
        for arm in study.ARM
        for seed in (0, 1)
    ]
    study.studies.console.file = None
    study.show(rows, list(study.ARM))
    assert "the bar: T+ with a learned reward model" in capsys.readouterr().out
    study.show(rows[:2], list(study.ARM))
    assert "the bar" not in capsys.readouterr().out


def test_every_team_has_the_three_comparisons_of_the_learned_choice():
    claims = (*study.CLAIMS, *study.OTHER_CLAIMS)
    compared = [(claim.arm, claim.other_figure) for claim in claims if claim.figure == study.LEARNED]
    others = (study.FIRST, "vote_pass@1", "shortest_pass@1")
    assert sorted(compared) == sorted((arm, other) for arm in study.ARM for other in others)
    assert all(claim.arm == claim.other_arm for claim in claims if claim.figure == study.LEARNED)
