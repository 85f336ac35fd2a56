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
        ("Find the median of 3, 8, 5.", "5", "Sorted: 3, 5, 8. The median is in the middle, which is 5."),
        ("Find the ratio of the sides.", "2:3", "The areas have the ratio 4 : 9. The sides have 2 : 3."),
        ("Of 30 guests, 12 walk. How many come by car?", "18", "Hence 18 guests come by car."),
        ("How many digits has $2^{20}$?", "7", "Therefore the number $2^{20}$ has 7 digits."),
        ("How many sides has the polygon?", "12", "It is a 12-gon."),
        ("Find the centre and the radius.", "(1,2), 3", "So the centre is $(1,2)$ and the radius is $3$."),
        ("Find a formula for $a_n$.", "2n+1", "Hence $a_n = 2n+1$ for all $n\\ge 1$."),
        ("Write 5 in base 2.", "101_2", "From the bottom up, it is $101_2$."),
        ("Solve for $x$: $2^x=8$.", "3", "So $x = 3$.\n\nCheck: $2^3 = 8$. ✓"),
        ("Is the sum finite or infinite?", "finite", "The ratio is below 1, so the sum is finite."),
        ("What day will it be?", "Friday", "Two more days take us to **Friday**."),
        ("Simplify $\\frac{x^2-1}{x-1}$.", "x+1", "The result is $x+1,\\ x\\neq1$."),
        ("等差数列中，$a_1=1$，$a_2=4$，则 $a_3=$______.", "7", "$d=3$,$a_3=a_2+d=4+3=7$。"),
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
        ("Find the area.", "16", "The perimeter is $4\\cdot4$ and the area is less, which is not 16."),
        ("For $n=3$, what is the sum?", "7", "For n = 2 the sum is 7."),
        ("How tall is the tree, in metres?", "12", "It may be 12, which is 12."),
    ],
)
def test_others_do_not(statement, reference, text):
    assert closing_value(text, statement, reference) is None
