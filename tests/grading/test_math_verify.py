import pytest

from mars_env.errors import MissingExtra
from mars_env.grading import math_verify
from mars_env.grading.math.pool import VerdictLimits
from mars_env.testing.grader_suite import check_grader
from mars_env.types import Problem, Verdict


@pytest.fixture(scope="module")
def grader():
    pytest.importorskip("math_verify")
    own = math_verify.MathVerifyGrader(limits=VerdictLimits(cpu_seconds=1.0), workers=1)
    yield own
    own.close()


def test_contract(grader):
    check_grader(grader, Problem("p", "?", r"\frac12"), r"$\boxed{0.5}$", r"$\boxed{\frac13}$")


@pytest.mark.parametrize(
    ("reference", "text", "verdict"),
    [
        (r"\frac13", "It is $0.333333$.", Verdict.CORRECT),
        (r"$\frac13$", r"\boxed{\frac26}", Verdict.CORRECT),
        ("3", r"$\boxed{5^{5^{5^{5^{5}}}}}$", Verdict.WRONG),
        ("3", "", Verdict.WRONG),
        ("", "3", Verdict.UNKNOWN),
        ("$", "3", Verdict.UNKNOWN),
    ],
)
def test_verdicts(grader, reference, text, verdict):
    assert grader.grade_sync(Problem("p", "?", reference), text).verdict is verdict


def test_without_the_package(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtra):
        math_verify.MathVerifyGrader()
