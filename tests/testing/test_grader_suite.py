"""No copy of a question is paid for: on every embedded template with numbers as answers, and on real sets."""

import pytest

from mars_env import load_problems
from mars_env.grading.math.grader import MathGrader
from mars_env.problems.aime import TEMPLATES
from mars_env.testing import check_copies
from mars_env.testing.grader_suite import copies
from mars_env.types import Grade, Problem


@pytest.fixture(scope="module")
def grader():
    own = MathGrader(workers=1)
    yield own
    own.close()


@pytest.mark.parametrize("part", range(4))
def test_copies_of_every_embedded_template(grader, part):
    for name in sorted(TEMPLATES)[part::4]:
        check_copies(grader, load_problems("aime", n=4, template=name))


@pytest.mark.parametrize(
    ("statement", "reference"),
    [
        ("Solve $2x=10$.", "x=5"),
        ("Solve $2x+1<7$.", "x<3"),
        (r"Simplify $\sqrt{8}+\sqrt{18}$.", r"5\sqrt{2}"),
        (r"Compute $\frac{1}{2}+\frac{1}{3}$.", r"\frac{5}{6}"),
        (r"Find $\sum_{k=1}^{n} k$.", r"\frac{n(n+1)}{2}"),
        ("What is 48/2 + 3?", "27"),
    ],
)
def test_copies_of_typical_questions(grader, statement, reference):
    assert copies(statement)
    check_copies(grader, [Problem("p", statement, reference)])


def test_a_grader_that_pays_for_a_copy_fails():
    class Generous:
        async def grade(self, problem, text):
            return Grade.correct()

    with pytest.raises(AssertionError):
        check_copies(Generous(), [Problem("p", "What is 2 + 2?", "4")])
