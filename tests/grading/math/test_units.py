from fractions import Fraction

import pytest

from mars_env.grading.math.exact import exact_value
from mars_env.grading.math.nodes import Unreadable
from mars_env.grading.math.parser import read_answer
from mars_env.grading.math.units import letter_unit, unit, value_and_unit


def test_numbers_are_parted_from_their_units():
    assert value_and_unit(read_answer(r"25 \text{ cm}")) == (read_answer("25"), unit("cm"))
    assert value_and_unit(read_answer(r"-25 \text{ cm}")) == (read_answer("-25"), unit("cm"))
    assert value_and_unit(read_answer("25")) == (read_answer("25"), None)
    assert value_and_unit(read_answer(r"50\%")) == (read_answer("50"), "%")
    assert value_and_unit(read_answer(r"90^\circ")) == (read_answer("90"), "deg")


def test_mixed_units_are_brought_to_one():
    value, of = value_and_unit(read_answer(r"1 \text{ hour } 30 \text{ minutes}"))
    assert exact_value(value) == 5400 and of.dimension == unit("s").dimension and of.factor == Fraction(1)


def test_two_units_are_refused_unless_they_say_the_same():
    value, of = value_and_unit(read_answer(r"\$5 \text{ million}"))
    assert exact_value(value) == 5_000_000 and of == unit("dollar")
    with pytest.raises(Unreadable):
        value_and_unit(read_answer(r"\$5 \text{ meters}"))


def test_a_letter_may_be_the_expected_unit():
    assert letter_unit(read_answer("2m")) == (read_answer("2"), unit("m"))
    assert letter_unit(read_answer("2x")) == (read_answer("2x"), None)
