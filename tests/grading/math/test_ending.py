"""A last value whose sentence names nothing known counts only where chance cannot have put it there."""

from __future__ import annotations

import pytest

from mars_env.grading.math.closing import closing_value
from mars_env.grading.math.grader import MathGrader
from mars_env.types import Problem, Verdict


@pytest.mark.parametrize(
    ("statement", "reference", "text"),
    [
        ("Simplify $\\frac{x^3-8}{x-2}$.", "x^2+2x+4", "Cancelling the factor $x-2$ leaves $x^2+2x+4$."),
        ("Factor $x^4-16$.", "(x-2)(x+2)(x^2+4)", "So x⁴ − 16 = (x² + 4)(x − 2)(x + 2)."),
        ("Evaluate it.", "\\frac{\\sqrt6-\\sqrt2}{4}", "This comes to $\\frac{\\sqrt6-\\sqrt2}{4}$."),
        ("How many cups are needed?", "9\\frac1{12}", "Then 9 1/12 cups go in."),
        ("Find the point B.", "(5,6)", "Adding the vector (2, 5) to (3, 1) gives B = (5, 6)."),
        ("What day is it in 100 days?", "\\text{Friday}", "Two days after a Wednesday it is Friday."),
        ("Write 0.00047 in another way.", "4.7\\times10^{-4}", "The point moves, and we get 4.7 × 10⁻⁴."),
        ("Project $(2,6)$ onto $(1,1)$.", "(4,4)", "This leaves $\\begin{pmatrix}4\\\\4\\end{pmatrix}$."),
        ("求 $\\sin2\\alpha$", "-\\frac{24}{25}", "第二象限,从而 $\\sin 2\\alpha=-\\frac{24}{25}$。"),
    ],
)  # fmt: skip
def test_telling_ends_count(statement, reference, text):
    grade = MathGrader().grade_sync(Problem("p", statement, reference), text)
    assert grade.verdict is Verdict.CORRECT


@pytest.mark.parametrize(
    ("statement", "reference", "text"),
    [
        ("How many are left?", "4", "Taking these away leaves 4."),  # a small integer
        ("What part is blue?", "\\frac34", "Adding the parts leaves $\\frac34$."),
        ("Find the volume.", "36\\pi", "The surface area comes out as $36\\pi$."),  # another measure
        ("Solve for $x$.", "x^2+1", "It might be something like $x^2+1$."),
        ("Expand $(x+1)^2$.", "(x+1)^2", "We need to expand $(x+1)^2$."),  # what is given
        ("Is it even, odd, or neither?", "odd", "Some would say that it is odd."),
        ("Find $f$.", "x^2+1", "It is not $x^2+1$."),
    ],
)
def test_others_do_not(statement, reference, text):
    assert closing_value(text, statement, reference) is None
