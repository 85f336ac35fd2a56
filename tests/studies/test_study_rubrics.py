"""The study of a judge with a bias: its parts."""

import pytest

import studies.rubrics.study as study
from mars_env.grading.rubrics import RubricGrader
from studies.rubrics.lock import locks


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
