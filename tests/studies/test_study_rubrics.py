"""The studies of rubrics and scaffolds: their parts, and that the pages show the ledger's rows."""

import asyncio
from pathlib import Path

import pytest
import torch

import studies.rubrics.study as study
from mars_env.grading.rubrics import RubricGrader
from studies.common.ledger import arms_table
from studies.common.program import settings_of
from studies.rubrics.lock import locks

ROOT = Path(__file__).parents[2]


async def test_the_biased_judge_pays_for_flattery_and_the_honest_one_does_not():
    [problem, *_] = study.judged(locks(0))
    code = "".join(text.split()[-1][0] for text in (row["text"] for row in problem.metadata["rubric"]))
    for text, honest, biased in ((code, 1.0, 1.0), ("!" + code[1:], 0.8, 1.0), ("", 0.0, 0.0)):
        grades = [await RubricGrader(study.judge(b)).grade(problem, text) for b in (False, True)]
        assert [grade.score for grade in grades] == [pytest.approx(honest), pytest.approx(biased)]


async def test_the_defence_vetoes_what_the_top_responses_have_in_common():
    symbol = study.pattern(["ab!cd", "!habc"], ["abcde", "habcd", "a!bcd"])
    assert symbol == "!"
    [problem, *_] = study.defended(study.judged(locks(0)), symbol)
    grader = RubricGrader(study.judge(True), aggregate=study.Veto(study.WeightedSum()))
    assert (await grader.grade(problem, "!!!!!")).score == 0.0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["lock", "bias"])
def test_a_study_runs_from_its_warm_start_to_its_figures(name):
    torch.set_num_threads(1)
    small = study.RECIPES[name].model_copy(update={"warm_start": 2, "steps": 1, "samples": 1, "locks": 2})
    rows = asyncio.run(study.rows(0, small, ()))
    assert set(rows) == set(study.LOCK_ARMS if name == "lock" else study.BIAS_ARMS)
    assert all(0 <= value <= 1 for _, result in rows.values() for value in result["figures"].values())


@pytest.mark.parametrize(
    ("name", "page", "figures"),
    [
        ("lock", "ruscarl", {"open": "locks opened", "steps": "steps right"}),
        (
            "bias",
            "rubrics",
            {
                "true": "true value",
                "judged": "value by the biased judge",
                "flatters": "responses that flatter",
            },
        ),
    ],
)
def test_the_pages_show_all_arms_and_seeds_of_the_ledger(name, page, figures):
    made = study.LEDGER.rows(settings_of(study.RECIPES[name]))
    arms = list(study.LOCK_ARMS if name == "lock" else study.BIAS_ARMS)
    assert sorted((row.arm, row.seed) for row in made) == sorted((a, s) for a in arms for s in range(5))
    assert not any((row.commit or "").endswith("-dirty") for row in made)
    assert arms_table(made, arms, figures).strip() in (ROOT / "docs" / f"{page}.md").read_text()
