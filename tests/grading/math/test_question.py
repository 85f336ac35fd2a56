"""What a problem asks for, and what that says about a last sentence and an answer."""

from unittest.mock import Mock

import pytest

from mars_env.grading.math import asked, question
from mars_env.grading.math.question import (
    asked_units,
    asked_value,
    is_copied,
    names_another,
    with_asked_unit,
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


def test_a_problem_is_read_once_for_all_its_answers_and_a_plain_number_is_not_parsed(monkeypatch):
    sentences, parse = Mock(wraps=asked._SENTENCES), Mock(wraps=question.read_answer)
    monkeypatch.setattr(asked, "_SENTENCES", sentences)
    monkeypatch.setattr(question, "read_answer", parse)
    statement = "Ann and Bob go 7 miles. Convert: how many kilometres does Ann go?"
    for value in map(str, range(1000, 1064)):
        assert not is_copied(statement, value, value)
        assert not names_another(statement, value + "=1")
    assert sentences.split.call_count == 1
    assert parse.call_count == 0
