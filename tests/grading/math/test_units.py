from fractions import Fraction

import pytest

from mars_env.grading.math.exact import exact_value
from mars_env.grading.math.nodes import Unreadable
from mars_env.grading.math.parser import read
from mars_env.grading.math.units import letter_unit, measure, unit


def test_numbers_are_parted_from_their_units():
    assert measure(read(r"25 \text{ cm}")) == (read("25"), unit("cm"))
    assert measure(read(r"-25 \text{ cm}")) == (read("-25"), unit("cm"))
    assert measure(read("25")) == (read("25"), None)
    assert measure(read(r"50\%")) == (read("50"), "%") and measure(read(r"90^\circ")) == (read("90"), "deg")


def test_mixed_units_are_brought_to_one():
    value, of = measure(read(r"1 \text{ hour } 30 \text{ minutes}"))
    assert exact_value(value) == 5400 and of.dimension == unit("s").dimension and of.factor == Fraction(1)


def test_two_units_are_refused_unless_they_say_the_same():
    value, of = measure(read(r"\$5 \text{ million}"))
    assert exact_value(value) == 5_000_000 and of == unit("dollar")
    with pytest.raises(Unreadable):
        measure(read(r"\$5 \text{ meters}"))


def test_a_letter_may_be_the_expected_unit():
    assert letter_unit(read("2m"), unit("km")) == (read("2"), unit("m"))
    assert letter_unit(read("2x"), unit("km")) == (read("2x"), None)
