"""What a problem asks for, and what that says about a last sentence and an answer."""

import pytest

from mars_env.grading.math.question import asked_units, with_asked_unit


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
