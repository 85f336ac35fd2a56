r"""Exact rational arithmetic on parsed answers, with hard bounds on every value."""

import math
import operator
from collections.abc import Callable
from fractions import Fraction
from functools import reduce

from mars_env.grading.math.nodes import Node, OverLimit

WORKER_BITS = 1 << 18
"""Bound, in bits, for values that are computed in a worker process; the default is for a caller's thread."""


class Undefined(ArithmeticError):
    """The expression has no value."""


def exact_value(node: Node, bits: int = 4096) -> Fraction | None:
    r"""The exact value of a rational number, however it is written; None if a node is none.

    Raises `OverLimit` for an intermediate value that is longer than the bound, and `Undefined`.

    Example:
        >>> from mars_env.grading.math.parser import read_answer
        >>> exact_value(read_answer(r"2\cdot 3^4 - \binom{5}{2}")), exact_value(read_answer(r"\sqrt{2}"))
        (Fraction(152, 1), None)
    """
    kind = node.kind
    if kind == "num":
        assert isinstance(node.value, Fraction)
        return _bounded(node.value, bits)
    if kind not in ("neg", "based", "pow", "call", *_STEPS) and node.value != "%":
        return None
    values = []
    for child in node.args:
        value = exact_value(child, bits)
        if value is None:
            return None
        values.append(value)
    try:
        if kind in _UNARY:
            return _UNARY[kind] * values[0]
        if kind == "call":
            return _call(node.name, values, bits)
        if kind == "pow":
            return _power(values[0], values[1], bits)
        return reduce(lambda total, value: _bounded(_STEPS[kind](total, value), bits), values)
    except (ZeroDivisionError, ValueError) as error:
        raise Undefined("a division by zero, or a factorial of a negative number") from error


_UNARY = {"neg": Fraction(-1), "based": Fraction(1), "quantity": Fraction(1, 100)}
_STEPS: dict[str, Callable[[Fraction, Fraction], Fraction]] = {
    "add": operator.add, "mul": operator.mul, "div": operator.truediv,
}  # fmt: skip


def _bounded(value: Fraction, bits: int) -> Fraction:
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > bits:
        raise OverLimit("a number is larger than the limit")
    return value


def _power(base: Fraction, exponent: Fraction, bits: int) -> Fraction | None:
    if exponent.denominator != 1:
        return None
    size = max(base.numerator.bit_length(), base.denominator.bit_length())
    if (size - 1) * abs(exponent.numerator) > bits:
        raise OverLimit("a power is larger than the limit")
    return _bounded(base**exponent.numerator, bits)


def _call(name: str, values: list[Fraction], bits: int) -> Fraction | None:
    if name not in _OF_INTEGERS or any(value.denominator != 1 for value in values):
        return None
    return _bounded(Fraction(_OF_INTEGERS[name](bits, *(value.numerator for value in values))), bits)


def _factorial(bits: int, value: int, step: int = 1) -> int:
    if value > bits or math.lgamma(value + 1) / math.log(2) / step > bits:
        raise OverLimit("a factorial is larger than the limit")
    return math.prod(range(value, 0, -step))


def _binomial(bits: int, top: int, below: int) -> int:
    if top.bit_length() * min(below, abs(top - below)) > 8 * bits:
        raise OverLimit("a binomial coefficient is larger than the limit")
    return math.comb(top, below)


_OF_INTEGERS: dict[str, Callable[..., int]] = {
    "gcd": lambda bits, *values: math.gcd(*values), "lcm": lambda bits, *values: math.lcm(*values),
    "binom": _binomial,
    "factorial": _factorial, "factorial2": lambda bits, value: _factorial(bits, value, 2),
}  # fmt: skip
