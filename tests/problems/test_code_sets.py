"""The embedded set `programs`."""

import asyncio
import collections

import pytest
from sandboxes import need_a_sandbox

from mars_env import load_problems
from mars_env.grading.code.grader import CodeGrader
from mars_env.grading.code.validate import validate_problems
from mars_env.problems.programs import programs_problems
from mars_env.sandbox import Limits


@pytest.fixture(scope="module")
def grader():
    need_a_sandbox()
    grader = CodeGrader(limits=Limits(cpu_seconds=3))
    yield grader
    asyncio.run(grader.aclose())


def test_programs_are_many_in_all_forms_and_levels():
    problems = programs_problems()
    assert len(problems) >= 60
    counts = collections.Counter((p.metadata["level"], p.metadata["form"]) for p in problems)
    assert len(counts) == 9 and min(counts.values()) >= 6
    for problem in problems:
        assert problem.metadata["public_tests"] == 2 and len(problem.reference["tests"]) >= 6
        assert problem.reference["solutions"][0] not in problem.statement
    parts = [{p.id for p in programs_problems(split=s)} for s in ("train", "test")]
    assert not parts[0] & parts[1] and len(parts[0] | parts[1]) == len(problems)
    assert {p.metadata["level"] for p in load_problems("programs", level=[2, 3])} == {2, 3}


@pytest.mark.slow
def test_programs_are_fit_for_training(grader):
    found = asyncio.run(validate_problems(programs_problems()[::4], grader, n_mutants=4))
    assert [v for v in found if not v.fit] == []
    assert sum(v.caught for v in found) > 0.85 * sum(v.mutants for v in found)
