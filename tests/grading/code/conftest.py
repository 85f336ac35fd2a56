"""A grader that the tests of a file share."""

import asyncio

import pytest
from sandboxes import need_a_sandbox

from mars_env.grading.code.grader import CodeGrader
from mars_env.sandbox import Limits


@pytest.fixture(scope="module")
def grader():
    need_a_sandbox()
    grader = CodeGrader(limits=Limits(cpu_seconds=3))
    yield grader
    asyncio.run(grader.aclose())
