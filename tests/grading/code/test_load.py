"""Verdicts do not depend on load, and a burst of 2,000 gives no UNKNOWN. Minutes, so marked slow."""

import asyncio
import collections
import subprocess
import sys

import pytest
from sandboxes import mbpp_rows, need_a_sandbox

from mars_env.grading.code.grader import CodeGrader
from mars_env.problems.code import code_problem_from_row
from mars_env.types import Verdict


@pytest.fixture
def grader():
    need_a_sandbox()
    grader = CodeGrader()
    yield grader
    asyncio.run(grader.aclose())


@pytest.fixture
def burners():
    started = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(4)]
    yield
    for process in started:
        process.kill()
        process.wait()


def grade_all(grader, jobs, concurrency):
    async def many():
        gate = asyncio.Semaphore(concurrency)

        async def one(problem, text):
            async with gate:
                return await grader.grade(problem, text)

        return await asyncio.gather(*(one(problem, text) for problem, text in jobs))

    return asyncio.run(many())


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_mbpp_under_load(grader, burners):
    jobs = [(code_problem_from_row(row), row["reference_solution"]) for row in mbpp_rows()]
    found = grade_all(grader, jobs, 64)
    assert [p.id for (p, _), g in zip(jobs, found, strict=True) if g.verdict is not Verdict.CORRECT] == []


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_2000_verdicts_at_concurrency_200(grader):
    call = {"mode": "function_call", "fn_name": "f", "inputs": [[2]], "outputs": [4]}
    programs = [
        (call, "def f(x): return x * {}"),
        ({"mode": "stdin", "tests": [{"input": "2", "output": "4"}]}, "print(int(input()) * {})"),
        ({"entry_point": "f", "tests": ["assert f(2) == 4"]}, "def f(x): return x + {}"),
    ]
    jobs = [
        (code_problem_from_row({"id": "p", "prompt": "?", **row}), text.format(2 if i % 2 else 3))
        for i in range(2000)
        for row, text in [programs[i % 3]]
    ]
    found = grade_all(grader, jobs, 200)
    wanted = [Verdict.CORRECT if i % 2 else Verdict.WRONG for i in range(2000)]
    assert collections.Counter(g.verdict for g in found)[Verdict.UNKNOWN] == 0
    assert [g.verdict for g in found] == wanted
