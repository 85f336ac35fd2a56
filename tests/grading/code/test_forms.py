"""Completions as models write them: which program is taken, how it reads and prints, how it may end."""

import asyncio
from pathlib import Path

import pytest
from rows import read_rows

from mars_env.problems.code import code_problem_from_row

ROWS = read_rows(Path(__file__).with_name("forms.jsonl"))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["name"])
def test_verdicts(grader, row):
    problem = code_problem_from_row({"id": "p", "prompt": "?", **row["problem"]})
    grade = asyncio.run(grader.grade(problem, row["text"]))
    assert str(grade.verdict) == row["verdict"], grade
