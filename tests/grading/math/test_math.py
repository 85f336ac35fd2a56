import json
import pickle
from pathlib import Path

import pytest

from mars_env import grading
from mars_env.errors import ConfigError
from mars_env.grading.math.grader import MathGrader
from mars_env.grading.math.pool import VerdictLimits
from mars_env.types import Problem, Verdict

SHARED = Path(__file__).parents[3].parent / "shared" / "data"
TOWER = r"\dfrac{5^{(5^{(5^{(5^5)})}-4)}-5}{16}"


def problem(reference, **more) -> Problem:
    return Problem("p", "?", reference, **more)


@pytest.mark.skipif(not SHARED.exists(), reason="the shared cases are not beside this checkout")
def test_every_shared_case_comes_out_right(grader):
    for row in json.loads((SHARED / "math_verdicts.json").read_text()):
        grade = grader.grade_sync(problem(row["reference"]), row["completion"])
        assert grade.verdict == row["verdict"], (row, grade)


@pytest.mark.parametrize("reference", ["", "  ", None, 2.5, ["25"], r"\foo{", "1/0", TOWER])
def test_nothing_is_wrong_beside_an_unfit_reference(grader, reference):
    assert grader.check_reference(problem(reference))
    assert grader.grade_sync(problem(reference), r"\boxed{\sqrt{2}}").verdict is Verdict.UNKNOWN


def test_answers_are_not_wrong_if_even_the_reference_would_be(grader):
    reference = r"10 \mathrm{ft} x 18 \mathrm{ft}"
    grade = grader.grade_sync(problem(reference), rf"\boxed{{{reference}}}")
    assert grade.verdict is Verdict.UNKNOWN


def test_a_model_cannot_make_its_verdict_unknown(grader):
    hostile = ["(" * 5000 + "1" + ")" * 5000, "1" * 9000, "\\frac{1}{" * 900 + "1" + "}" * 900, "x" * 9000]
    hostile += ["\ud800", r"\int_0^1 9^{9^{9^9}} dx", r"\text{" * 500, "1e999999", "!" * 900, "\x00"]
    hostile += ["+".join(["\\sqrt{2}"] * 1200), "1+" * 500_000 + "1", TOWER]
    for answer in hostile:
        for reference in ("25", r"\sqrt{3}"):
            grade = grader.grade_sync(problem(reference), f"\\boxed{{{answer}}}")
            assert grade.verdict is Verdict.WRONG
    assert "limit" in grade.reason  # that of the tower
    assert grader.grade_sync(problem(r"\sqrt{8}"), r"\boxed{2\sqrt{2}}").verdict is Verdict.CORRECT


def test_a_lost_pool_is_unknown(monkeypatch):
    own = MathGrader(workers=1, limits=VerdictLimits(wall_seconds=5))
    monkeypatch.setattr("mars_env.grading.math.pool._BOOTSTRAP", "raise SystemExit(1)")
    grade = own.grade_sync(problem(r"\sqrt{2}"), r"\boxed{\sqrt{3}}")
    assert grade.verdict is Verdict.UNKNOWN
    assert grade.score is None
    with pytest.raises(RuntimeError):
        own.check_reference(problem(r"\sqrt{2}"))
    own.close()


def test_tolerance():
    own = MathGrader(tolerance=1e-3, workers=1)
    assert own.grade_sync(problem(r"\frac{1}{3}"), r"\boxed{0.3333}").verdict is Verdict.CORRECT
    assert own.grade_sync(problem(r"\frac{1}{3}"), r"\boxed{0.33}").verdict is Verdict.WRONG
    for reference, answer, verdict in (
        ("25", "25.02", "CORRECT"), ("25", "25.03", "WRONG"), ("25.0", "25.02", "CORRECT"),
        ("2500", "2501", "WRONG"), ("25", r"25.0\%", "WRONG"), ("25", "25.0", "CORRECT"),
    ):  # fmt: skip
        assert own.grade_sync(problem(reference), rf"\boxed{{{answer}}}").verdict == verdict, answer
    own.close()
    with pytest.raises(ValueError):
        MathGrader(tolerance=2)


def even(problem, answer):
    return "" if answer in ("2", "4") else f"{answer} is none of {problem.statement}"


def test_a_check_judges_answers_where_several_are_right():
    grader = pickle.loads(pickle.dumps(MathGrader(check=even)))
    verdicts = [grader.grade_sync(problem("2"), text).verdict for text in (r"\boxed{4}", r"\boxed{5}", "?")]
    assert verdicts == ["CORRECT", "WRONG", "WRONG"]
    assert grader.check_reference(problem("4")) is None and grader.check_reference(problem("5"))


def test_strict():
    own = MathGrader(strict=True)
    assert own.grade_sync(problem("25"), "The answer is 25.").verdict is Verdict.WRONG
    assert own.grade_sync(problem("25"), r"\boxed{25}").verdict is Verdict.CORRECT


async def test_module_functions():
    assert grading.grade(problem("25"), r"\boxed{25}").verdict is Verdict.CORRECT
    assert (await grading.agrade(problem(r"\frac12"), r"\boxed{0.5}")).verdict is Verdict.CORRECT
    assert grading.check_reference(problem("")) is not None


def test_unknown_kinds_are_refused():
    with pytest.raises(ConfigError):
        grading.grader_for("poetry")


def test_integer_verdicts_stay_in_the_callers_thread():
    own = MathGrader()
    for k in range(20):
        own.grade_sync(problem("25"), rf"Step {k}. Hence $\boxed{{\frac{{50}}{{2}}}}$.")
    assert own.pool.pids() == []
