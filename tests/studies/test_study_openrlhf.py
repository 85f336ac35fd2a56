"""The study of OpenRLHF: its arms are those of the plan, its page is made of rows."""

import asyncio
import re
from dataclasses import replace

import studies.openrlhf.study as study
from mars_env.loggers import read_jsonl
from mars_env.miniature.recipe import QUICK, RECIPE
from studies.common.ledger import LedgerRow


def row(arm, seed, system):
    figures = dict.fromkeys(study.COLUMNS, 0.5) | {"system_accuracy": system, "tokens": 100.0, "updates": 4.0}
    if arm != study.LOCAL:
        figures |= {"oldest": 1.0, "vllm_kl_most": 0.001, "idle_share": 0.25, "interrupted": 3.0}
    rewards = {"solver": [0.1, 0.2, 0.3, 0.4], "verifier": [None, 0.5, 0.6, 0.7], "corrector": [None] * 4}
    detail = {"plan": "c0ffee00aa", "problems": 1000, "rewards": rewards}
    return LedgerRow(
        arm=arm, seed=seed, settings=study.STUDY.settings(), versions={"python": "3"}, commit="a" * 40,
        seconds=120, figures=figures, detail=detail,
    )  # fmt: skip


def test_arms_and_seeds_are_those_of_the_plan():
    plan = study.STUDY.plan.read_text()
    assert re.findall(r"^\| `(.+?)` \|", plan, flags=re.MULTILINE) == list(study.WAYS)
    for number in (RECIPE.marsrl.steps, RECIPE.marsrl.problems_per_step):
        assert re.search(rf"\b{number} (updates|problems an update)", plan)
    assert RECIPE.marsrl.train.learning_rate == 3e-4 and RECIPE.marsrl.train.warmup_updates == 5


def test_exploratory_arms_leave_the_hash_of_the_stored_rows_as_it_was(monkeypatch):
    stored = study.STUDY.rows()
    assert {row.arm for row in stored} >= {"local", "synchronous", "asynchronous", "partial rollouts"}
    of_the_plan = {name: way for name, way in study.WAYS.items() if not way.exploratory}
    assert len(of_the_plan) < len(study.WAYS)
    before = study.STUDY.settings()
    monkeypatch.setattr(study, "WAYS", of_the_plan)
    assert study.STUDY.settings() == before


def test_late_updates_train_groups_of_one_version_before(tmp_path):
    run = QUICK.marsrl.model_copy(update={"steps": 3, "problems_per_step": 3})
    recipe = QUICK.model_copy(update={"marsrl": run})
    trained, counts, _ = asyncio.run(study.locally(study.WAYS["local, one update late"], 5, recipe, tmp_path))
    assert all(step.advantages.kept for step in trained.history)
    ages = [step["pipeline/age"] for step in read_jsonl(tmp_path / "figures.jsonl")]
    assert ages == [0.0, 1.0, 1.0]
    assert counts == {"updates": 3.0, "oldest": 1.0, "age": 2 / 3}


def test_the_page_compares_with_the_local_trainer_seed_by_seed(tmp_path):
    made = replace(study.STUDY, root=tmp_path, docs=tmp_path)
    ledger = made.ledger
    for seed, local, synchronous in ((5, 0.80, 0.79), (6, 0.82, 0.80), (7, 0.84, 0.81)):
        ledger.append(row("local", seed, local))
        ledger.append(row("synchronous", seed, synchronous))
    (tmp_path / "results").mkdir()
    page = tmp_path / "openrlhf.md"
    page.write_text("# Before\n<!-- begin openrlhf -->\nold\n<!-- end openrlhf -->\n# After\n")
    made.write_page()
    text = page.read_text()
    assert (
        text.startswith("# Before\n") and text.endswith("# After\n") and "old" not in text.split("oldest")[0]
    )
    assert "-2.0 [-4.5, +0.5]" in text and "-1.0, -2.0, -3.0" in text
    assert "| synchronous | 5 | 4 | 1 | 0.0010 | 25% | 3 |" in text
    assert "| local | 5 | 4 | – | – | – | – |" in text
    for role in ("solver", "verifier"):
        assert b"<svg" in (tmp_path / "results" / f"openrlhf-{role}.svg").read_bytes()


def test_curves_leave_out_updates_in_which_a_role_did_not_act():
    rows = [row("local", 5, 0.8)]
    assert [y for _, y in study.curves(rows, "verifier", parts=4)["local"]] == [0.5, 0.6, 0.7]
    assert study.curves(rows, "corrector") == {}
