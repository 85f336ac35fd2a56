from fractions import Fraction

import pytest

from mars_env.grading.math.evaluate import agree, is_complex, value_at
from mars_env.grading.math.exact import Undefined
from mars_env.grading.math.nodes import Node, OverLimit
from mars_env.grading.math.parser import read_answer


def value(text, point=(), digits=60):
    node = read_answer(text)
    return value_at(node, dict(point), digits, real=not is_complex(node))


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("(-2)^{1/3}", "-2^{1/3}"),
        ("(-2)^{2/3}", "2^{2/3}"),
        ("(-2)^{3/5}", "-2^{3/5}"),
        ("(-2)^{5/7}", "-2^{5/7}"),
        ("(-2)^{-4/3}", "2^{-4/3}"),
        ("(-\\pi)^{1/50001}", "-\\sqrt[50001]{\\pi}"),
        ("\\sum_{k=1}^{3} k", "6"),
        ("\\lfloor -\\frac{5}{2} e^{i\\pi} \\rfloor", "2"),
        ("\\lfloor (\\sqrt{2} + \\sqrt{3})^2 - 2 \\sqrt{6} \\rfloor", "5"),
        ("\\lceil (\\sqrt{2} + \\sqrt{3})^2 - 2 \\sqrt{6} \\rceil", "5"),
        ("\\lfloor \\sqrt{3} \\cdot \\sqrt{3} \\rfloor", "3"),
        ("\\lceil \\sqrt{3} \\cdot \\sqrt{3} \\rceil", "3"),
    ],
)
def test_values_agree(text, other):
    first, digits = value(text)
    assert agree(first, value(other)[0], digits)


@pytest.mark.parametrize("text", ["(-2)^{1/2}", "(-2)^{1/4}", "(-2)^{3/8}", "\\sum_{k=1}^{5/2} k"])
def test_even_roots_of_negative_numbers_and_sums_up_to_fractions_are_undefined(text):
    with pytest.raises(Undefined):
        value(text)


def test_a_negative_integer_has_no_factorial():
    assert value("n!", {"n": Fraction(5)})[0] == 120
    with pytest.raises(Undefined):
        value("n!", {"n": Fraction(-1)})


def test_zero_has_positive_powers_only():
    assert [value(text, {"x": Fraction(0)})[0] for text in ("x^2", "x^{1/2}", "x^\\pi")] == [0, 0, 0]
    for text in ("x^0", "x^{-1}", "x^{-\\pi}", "x^i"):
        with pytest.raises(Undefined):
            value(text, {"x": Fraction(0)})


@pytest.mark.parametrize("power", [999_999, 1_000_001])
def test_minus_one_has_large_powers(power):
    assert value("(-1)^n", {"n": Fraction(power)})[0] == -1


@pytest.mark.parametrize(("unit", "other"), [("%", "\\frac{1}{100}"), ("deg", "\\frac{\\pi}{180}")])
def test_units_of_angles_and_percent_are_factors(unit, other):
    three = Node("quantity", (Node("num", value=Fraction(3)),), unit)
    first, digits = value_at(three, {}, 60, real=True)
    assert agree(first, 3 * value(other)[0], digits)


def test_a_point_may_take_twice_the_digits_that_count_or_600():
    far = "x + 10^{-700}"
    assert value(far, {"x": Fraction(1)}, digits=400)[1] > 700
    with pytest.raises(OverLimit):
        value(far, {"x": Fraction(1)}, digits=60)
    assert value("10^{-700} + 1", digits=60)[1] > 700
