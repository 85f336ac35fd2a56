"""The study of OpenRLHF: its arms are those of the plan, its page is made of rows."""

import asyncio
import re

import studies.openrlhf.study as study
from mars_env.loggers import read_jsonl
from mars_env.miniature.recipe import QUICK, RECIPE


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
