"""What a problem asks for, and what that says about a last sentence and an answer."""

import pytest

from mars_env.grading.math.question import (
    asked_units,
    asked_value,
    is_another,
    is_copied,
    names_another,
    restated,
    with_asked_unit,
    with_unit_after,
    without_label,
    without_modulus,
)


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
        ("72", r"72\text{ km/h}", ""),
        ("72", r"72\text{ hours}", r"\text{ km/h}"),
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
        ("Let $x+y=7$. Find $x$.", "s=5", True),
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
        ("Find $f(2)$ if $f(x)=x^3-x$.", "f(3)=6", True),
        ("Find $f(2)$ if $f(x)=x^3-x$.", "f(2)=6", False),
    ],
)
def test_another_name(statement, answer, another):
    assert names_another(statement, answer) is another


@pytest.mark.parametrize(
    ("statement", "reference", "answer", "copied"),
    [
        ("Expand $(x-1)^3$ fully.", "x^3-3x^2+3x-1", "(x-1)^3", True),
        ("Reduce $\\frac{84}{126}$ to lowest terms.", "2/3", r"\dfrac{84}{126}", True),
        ("Write 0.00042 in scientific notation.", r"4.2\times 10^{-4}", "0.00042", True),
        ("How many grams are 3 kilograms?", "3000", r"3 \text{ kg}", True),
        ("How many grams are 3 kilograms?", "3000", r"3000 \text{ g}", False),
        ("Simplify $x+1$.", "x+1", "x + 1", False),
        ("What is greater, $0.5$ or $0.4$?", r"\frac12", "0.5", False),
    ],
)
def test_a_copy_of_what_is_given(statement, reference, answer, copied):
    assert is_copied(statement, reference, answer) is copied


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (r"e=\frac{c}{a}=\frac35", r"\frac35"),
        (r"f^{-1}(x)=\frac{x}{2}", r"\frac{x}{2}"),
        ("x=3", "x=3"),
        (r"e^{i\pi}=-1", r"e^{i\pi}=-1"),
    ],
)
def test_labels(text, value):
    assert without_label(text) == value


def test_a_remainder_may_have_its_modulus():
    statement = "What is the remainder of $2^5$ by $7$?"
    assert without_modulus(statement, r"4 \pmod{7}") == "4"
    for answer in (r"11 \pmod{7}", r"4 \pmod{8}", r"x \pmod{7}"):
        assert without_modulus(statement, answer) == answer


TRAIN = "A train goes 180 miles in 3 hours. Find its average speed in mph."
PENS = "A box has 24 pens, a quarter of which are red. How many are not red?"


@pytest.mark.parametrize(
    ("statement", "sentence", "value"),
    [
        (TRAIN, "The average speed of the train is 60 miles per hour.", "60"),
        (PENS, "There are 18 pens that are not red.", "18"),
        ("How many primes are less than 20?", "There are 8 primes less than 20.", "8"),
        ("How far does a car go in 3 hours at 50 km/h?", "The car travels 150 km in 3 hours.", "150"),
        (
            "What was the original price of a hat?",
            "The original price of the hat was 30 dollars.",
            "30 dollars",
        ),
        ("It doubles from 1500. What is it in 3 years?", "In 3 years it is 1500 × 8 = 12,000.", "12,000"),
        ("Solve $x^2-5x+6=0$.", "The roots are 2 and 3.", "2 and 3"),
        ("What is $17-9$?", "17 minus 9 equals 8.", "8"),
        # another thing, a given value, a bound, a cut
        ("Solve $x^2-7x+6=0$.", "The discriminant is 25.", None),
        (PENS, "There are 6 red pens.", None),
        ("How many primes are less than 20?", "The number of primes is less than 9.", None),
        ("How many prime factors has 30?", "3 is a prime factor of 30.", None),
        ("How far does a car go in 3 hours?", "The car goes for 3 hours.", None),
        (TRAIN, "The average speed is 60", None),
    ],
)
def test_a_sentence_in_the_words_of_the_question(statement, sentence, value):
    assert restated(statement, sentence) == value


BOOKS = "Ali has twice as many books as Bo; together they have 30. "


@pytest.mark.parametrize(
    ("statement", "sentence", "another"),
    [
        (BOOKS + "How many does Ali have?", "Bo has 10 books.", True),
        (BOOKS + "How many does Ali have?", "Ali has 20 books.", False),
        (BOOKS + "How many more books does Ali have than Bo?", "Bo has 10 books.", True),
        (BOOKS + "How many more books does Ali have than Bo?", "Ali has 10 more books.", False),
        ("Rita earns 20 and spends 10. How much is left?", "Rita spends 10.", True),
        ("求函数 $f(x)=x^2-6x+12$ 的最小值。", "对称轴为 $x=3$。", True),
        ("求函数 $f(x)=x^2-6x+12$ 的最小值。", "最小值为 $3$。", False),
    ],
)
def test_a_sentence_about_another_thing(statement, sentence, another):
    assert is_another(statement, sentence) is another


def test_a_number_keeps_the_unit_that_follows_it():
    assert with_unit_after(TRAIN, "It is 60 m/s.", "60") == r"60\text{ m/s}"
    assert with_unit_after("How many trains?", "It is 60 m/s.", "60") == "60"


@pytest.mark.parametrize(
    ("statement", "answer", "value"),
    [
        ("Find the determinant of $A$.", r"\det = -2", "-2"),
        ("What is the remainder of 100 by 7?", "100 mod 7 = 2", "2"),
        ("Find the derivative of $x^3$.", r"\frac{d}{dx}x^3 = 3x^2", "3x^2"),
        ("What is the remainder of 100 by 7?", "100 mod 6 = 4", "100 mod 6 = 4"),
    ],
)
def test_the_left_side_has_the_words_of_the_problem(statement, answer, value):
    assert asked_value(statement, answer) == value
