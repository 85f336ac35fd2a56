"""What a problem asks for, and what that says about a last sentence and an answer."""

import pytest

from mars_env.grading.math.question import (
    asked_units,
    asked_value,
    claimed,
    is_unasked,
    names_another,
    with_asked_unit,
    without_numbering,
)

SIDE = "A rectangle has area 120. What is the length of its longer side?"


@pytest.mark.parametrize(
    ("statement", "sentence", "value"),
    [
        (SIDE, "The longer side = 120/8 = 15", "15"),
        (SIDE, "The longer side is 15, not 16.", "15"),
        (SIDE, "The longer side is 15", None),  # a cut
        (
            "What is the area of the garden?",
            "The area of the garden is 30 square metres.",
            "30 square metres",
        ),
        ("Find the number of divisors of $360$.", "The number of divisors of 360 is 24.", "24"),
        ("Find the number of divisors of $360$.", "The number of divisors of 36 is 24.", None),
        ("Find all values of $k$.", "The values of m are 6 and -6.", None),
        ("What is the chance of a 7?", "The chance of a 7 is 1/6, or about 16.7%.", "1/6"),
        ("Find $a_5$.", "$a_4=24, a_5=48$", "a_5=48"),
        (SIDE, "The longer side is 15 or so.", None),
        (SIDE, "The shorter side is 15.", None),
        (SIDE, "The side of the rectangle is 15.", None),
        (SIDE, "The longer side is 15 and the length is 16.", None),
        ("Find $a_4$.", "$a_2=5$, $a_3=14$, $a_4=41$.", "a_4=41"),
        ("Find $a_4$.", "$a_4=41$ or $a_4=40$.", None),
        ("Find $a_4$.", "$a_4=41$, which contradicts $a_3=14$.", None),
        ("Find $a_4$.", "If $a_4=41$, then $a_5=122$.", None),
        ("?", "The longer side is 15.", None),
    ],
)
def test_claims(statement, sentence, value):
    assert claimed(statement, sentence) == value


@pytest.mark.parametrize(
    ("statement", "sentence", "unasked"),
    [
        (SIDE, "The perimeter is 46.", True),
        (SIDE, "The length is 15.", False),
        (SIDE, "The answer is 15.", False),
        (SIDE, "There is no such side.", False),
        ("?", "The perimeter is 46.", False),
    ],
)
def test_unasked(statement, sentence, unasked):
    assert is_unasked(statement, sentence) is unasked


@pytest.mark.parametrize(
    ("statement", "answer", "value"),
    [
        (r"Find $x^4+\frac{1}{x^4}$.", r"x^4 + \frac1{x^4} = 49 - 2 = 47", "49 - 2 = 47"),
        (r"Determine the value of \(2x\)", "2x=10", "10"),
        (r"Compute $\int_0^1 3x^2\,dx$.", r"\int_0^1 3x^2\,dx = \left[x^3\right]_0^1 = 1", "1"),
        (r"Find $\sum_{k=3}^{9} d(k).$", r"\sum_{k=3}^9 d(k) = 20", "20"),
        (r"Compute $\int_0^1 x^2\,dx$.", r"\int_{0}^{1} x^2 dx = \frac13", r"\frac13"),
        # unchanged
        (r"Find $x^4+\frac{1}{x^4}$.", r"x^2+\frac1{x^2}=7", None),
        ("Find $x$ if $2x=10$.", "2x=10", None),
        ("Find $2x$ and $3x$.", "2x=", None),
        ("Find $2x$.", "2x <= 10", None),
        ("For what value of $x$ is it least?", r"x=-\frac{b}{2a}=4", None),
        (r"Compute $\int_0^1 x^2\,dx$.", r"\int_0^2 x^2\,dx = \frac13", None),
    ],
)
def test_the_left_side_is_asked_for(statement, answer, value):
    assert asked_value(statement, answer) == (answer if value is None else value)


@pytest.mark.parametrize(
    ("statement", "units"),
    [
        ("A train goes 180 km in 2.5 hours. What is its speed in km/h?", ("km/h",)),
        ("How many minutes does it take?", ("minutes",)),
        ("What is the area, in square meters?", ("square meters",)),
        ("Solve for $t$ in seconds.", ("seconds",)),
        ("How many hours and minutes does it take?", ()),
        ("How many apples can be bought in 3 days?", ()),
        ("Water is sold in litres. How much does he pay?", ()),
    ],
)
def test_asked_units(statement, units):
    assert asked_units(statement) == units


@pytest.mark.parametrize(
    ("reference", "answer", "unit"),
    [
        ("72", r"72\text{ m/s}", r"\text{ km/h}"),
        ("72", "v = 72 m/s", r"\text{ km/h}"),
        ("72", r"72\text{ hours}", ""),
        ("72", r"72\text{ km h}", r"\text{ km/h}"),
        ("72", "72", ""),
        (r"72\text{ m/s}", r"72\text{ m/s}", ""),
        ("72x", r"72\text{ m/s}", ""),
    ],
)
def test_a_reference_has_the_asked_unit(reference, answer, unit):
    assert with_asked_unit("What is its speed in km/h?", reference, answer) == reference + unit


@pytest.mark.parametrize(
    ("statement", "answer", "another"),
    [
        ("Let $x+y=7$. Find $x$.", "y=5", True),
        ("Let $x+y=7$. Find $x$.", "x=5", False),
        ("Let $x+y=7$. Find $x$.", "y<5", False),
        ("Let $x+y=7$. Find $x$ and $y$.", "y=5", False),
        (r"Let $A=1$. Find $\angle A$.", "A=60", False),
        ("Find $a_4$.", "a_5=41", True),
        ("Find $m+n$.", "m=23", True),
        ("Find $2x$.", "x=23", True),
        ("Find $|z|$.", "z=23", False),
        ("Find $a_4$.", "b_5=41", False),
        ("Let $f(x)=x^2$. Find $f^{-1}(4)$.", "x=2", False),
        ("Let $x+y=7$. Find $x$.", "y=5, x=2", False),
        ("Let $P(x)$ be cubic. Find $P(2)$.", "P=4", False),
    ],
)
def test_another_name(statement, answer, another):
    assert names_another(statement, answer) is another


@pytest.mark.parametrize(
    ("statement", "answer", "left"),
    [
        ("Solve it.", r"\lambda_1=3,\ \lambda_2=1", r"3,\ 1"),
        ("Solve it.", "x_{1} = 3 or x_{2} = 1", "3 or 1"),
        ("Find the foci.", "$F_1(-4,0)$ and $F_2(4,0)$", "$(-4,0)$ and $(4,0)$"),
        ("Find $x_1$ and $x_2$.", "x_1=3, x_2=1", "x_1=3, x_2=1"),
        ("Solve it.", "x_2=3, x_3=1", "x_2=3, x_3=1"),
        ("Solve it.", "x_1=3, y_2=1", "x_1=3, y_2=1"),
    ],
)
def test_numbered_solutions(statement, answer, left):
    assert without_numbering(statement, answer) == left
