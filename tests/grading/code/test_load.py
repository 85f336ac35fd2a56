"""Verdicts do not depend on load. Minutes, so marked slow."""

import asyncio
import subprocess
import sys

import pytest
from sandboxes import mbpp_rows

from mars_env.problems.code import code_problem_from_row
from mars_env.types import Verdict


@pytest.fixture
def burners():
    started = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(4)]
    yield
    for process in started:
        process.kill()
        process.wait()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_mbpp_under_load(grader, burners):
    """All 427 at once, beside four processes that keep the machine busy."""

    rows = mbpp_rows()

    async def graded():
        return await asyncio.gather(
            *(grader.grade(code_problem_from_row(row), row["reference_solution"]) for row in rows)
        )

    grades = zip(rows, asyncio.run(graded()), strict=True)
    assert [(row["id"], grade) for row, grade in grades if grade.verdict is not Verdict.CORRECT] == []
