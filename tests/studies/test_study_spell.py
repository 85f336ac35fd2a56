"""SPELL's study: its parts."""

import asyncio

import pytest
import torch

import studies.spell.study as study
from mars_env.methods.spell.rules import read_question
from studies.common.study import Run
from studies.spell.lookups import clusters, easy_question, is_right, level, truth


def test_the_program_of_the_static_set_asks_easy_questions_with_right_references():
    problem = clusters(3, 1)[0]
    seen = {"documents": "\n\n".join(problem.metadata["documents"][:2]), "examples": ""}
    found = [read_question(easy_question(seen, seed)) for seed in range(50)]
    assert all(is_right(each.answer, truth(problem, each.question)) for each in found)
    assert {each.answer.isdigit() for each in found} == {True, False}
    assert 1 <= sum(level(each.question) for each in found) / 50 < 2.5


@pytest.mark.slow
def test_a_row_is_played_twice_alike():
    torch.set_num_threads(1)
    small = study.RECIPE.model_copy(
        update={"warm_start": 20, "steps": 2, "clusters": 2, "held_out": 1, "group": 2, "verifiers": 2}
    )
    for arm in study.ARMS:
        first, again = (asyncio.run(study.play([arm], Run(0, small, None)))[arm] for _ in range(2))
        assert first.figures == again.figures and first.detail == again.detail
        assert all(0 <= value <= 1 for value in first.figures.values())
