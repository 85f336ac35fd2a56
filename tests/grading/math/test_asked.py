"""What a problem and the words after a box say about an answer."""

import pytest
from mars_env.grading.math.asked import (
    asked_units,
    asked_value,
    names_another,
    with_asked_unit,
    with_its_constant,
    without_numbering,
)


@pytest.mark.parametrize(
    ("statement", "answer", "value"),
    [
        (r"Find $x^4+\frac{1}{x^4}$.", r"x^4 + \frac1{x^4} = 49 - 2 = 47", "49 - 2 = 47"),
        (r"Determine the value of \(2x\)", "2x=10", "10"),
        (r"Find $x^4+\frac{1}{x^4}$.", r"x^2+\frac1{x^2}=7", r"x^2+\frac1{x^2}=7"),
        ("Find $x$ if $2x=10$.", "2x=10", "2x=10"),
        ("Find $2x$ and $3x$.", "2x=", "2x="),
        ("Find $2x$.", "2x <= 10", "2x <= 10"),
        ("For what value of $x$ is it least?", r"x=-\frac{b}{2a}=4", r"x=-\frac{b}{2a}=4"),
        (r"Compute $\int_0^1 3x^2\,dx$.", r"\int_0^1 3x^2\,dx = \left[x^3\right]_0^1 = 1", "1"),
        (r"Find $\sum_{k=3}^{9} d(k).$", r"\sum_{k=3}^9 d(k) = 20", "20"),
        (r"Compute $\int_0^1 x^2\,dx$.", r"\int_{0}^{1} x^2 dx = \frac13", r"\frac13"),
        (r"Compute $\int_0^1 x^2\,dx$.", r"\int_0^2 x^2\,dx = \frac13", r"\int_0^2 x^2\,dx = \frac13"),
    ],
)
def test_the_left_side_may_be_what_is_asked_for(statement, answer, value):
    assert asked_value(statement, answer) == value


@pytest.mark.parametrize(
    ("after", "reference", "declared"),
    [
        ("$$\n\nwhere $A$ is an arbitrary real constant.", "y=Cx", True),
        (", where A is any constant", "y=Cx", True),
        (", where $A$ is an arbitrary constant greater than 1.", "y=Cx", False),
        (", where $B$ is an arbitrary constant.", "y=Cx", False),
        (", where $A$ is an arbitrary constant.", "y=Ax", False),
        (". It is arbitrary.", "y=Cx", False),
    ],
)
def test_words_after_an_answer_may_call_its_constant_arbitrary(after, reference, declared):
    answer = with_its_constant(rf"Hence $\boxed{{y=Ax}}{after}", "y=Ax", reference)
    assert answer == (r"y=Ax,\ A\in\mathbb{R}" if declared else "y=Ax")


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
def test_the_units_that_a_problem_asks_for(statement, units):
    assert asked_units(statement) == units


@pytest.mark.parametrize(
    ("reference", "answer", "unit"),
    [
        ("72", r"72\text{ m/s}", r"\text{ km/h}"),
        ("72", "v = 72 m/s", r"\text{ km/h}"),
        ("72", r"72\text{ km/h}", ""),
        ("72", r"72\text{ hours}", ""),
        ("72", r"72\text{ km h}", r"\text{ km/h}"),
        ("72", "72", ""),
        ("72", "72x", ""),
        (r"72\text{ m/s}", r"72\text{ m/s}", ""),
        ("72x", r"72\text{ m/s}", ""),
    ],
)
def test_a_reference_without_a_unit_has_the_one_that_is_asked_for(reference, answer, unit):
    assert with_asked_unit("What is its speed in km/h?", reference, answer) == reference + unit


@pytest.mark.parametrize(
    ("statement", "answer", "another"),
    [
        ("Let $x+y=7$. Find $x$.", "y=5", True),
        ("Let $x+y=7$. Find $x$.", "x=5", False),
        ("Let $x+y=7$. Find $x$.", "s=5", False),
        ("Let $x+y=7$. Find $x$.", "y<5", False),
        ("Let $x+y=7$. Find $x$ and $y$.", "y=5", False),
        (r"Let $A=1$. Find $\angle A$.", "A=60", False),
        ("Find $a_4$.", "a_5=41", True),
        ("Find $m+n$.", "m=23", True),
        ("Find $m+n$.", "m+n=23", False),
        ("Find $2x$.", "x=23", True),
        ("Find $|z|$.", "z=23", False),
        ("Find $a_4$.", "b_5=41", False),
        ("Let $f(x)=x^2$. Find $f^{-1}(4)$.", "x=2", False),
        ("Let $x+y=7$. Find $x$.", "y=5, x=2", False),
        ("Let $P(x)$ be cubic. Find $P(2)$.", "P=4", False),
    ],
)
def test_an_answer_may_name_something_else(statement, answer, another):
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
        ("Solve it.", "x_1=3", "x_1=3"),
    ],
)
def test_numbers_of_solutions_are_left_out(statement, answer, left):
    assert without_numbering(statement, answer) == left
