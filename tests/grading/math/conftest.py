"""A grader that the tests of a file share."""

import pytest

from mars_env.grading.math.grader import MathGrader


@pytest.fixture(scope="module")
def grader():
    own = MathGrader(workers=2)
    yield own
    own.close()
