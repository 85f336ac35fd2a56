r"""Exact rational arithmetic on parsed answers, with hard bounds on every value.

`exact_value` returns the exact value of a rational number, and None for anything that may not be rational. It
raises `OverLimit` before it computes anything beyond the bound. It never uses `eval`.
"""

from __future__ import annotations

import math
from fractions import Fraction

from mars_env.grading.math.nodes import Node, OverLimit

INLINE_BITS = 4096
"""Bound, in bits, for values that are computed in the caller's own thread."""
WORKER_BITS = 1 << 18
"""Bound, in bits, for values that are computed in a worker process."""


class Undefined(ArithmeticError):
    """The expression has no value (a division by zero, for example)."""


def exact_value(node: Node, bits: int = INLINE_BITS) -> Fraction | None:
    r"""The exact value of a rational number, however it is written.

    Args:
        node: A parsed expression.
        bits: The longest numerator or denominator allowed.

    Returns:
        Its value, or None if it has variables, irrational parts, or is not a number at all.

    Raises:
        OverLimit: An intermediate value is longer than the bound.
        Undefined: It has no value (it divides by zero, for example).

    Example:
        >>> from mars_env.grading.math.parser import read_answer
        >>> exact_value(read_answer(r"\frac{50}{2}")), exact_value(read_answer(r"2\cdot 3^4 - \binom{5}{2}"))
        (Fraction(25, 1), Fraction(152, 1))
        >>> exact_value(read_answer(r"\sqrt{2}")) is None
        True
    """
    kind = node.kind
    if kind == "num":
        assert isinstance(node.value, Fraction)
        return _bounded(node.value, bits)
    if kind == "based":
        return exact_value(node.args[0], bits)
    if kind == "quantity" and node.value == "%":
        inner = exact_value(node.args[0], bits)
        return None if inner is None else inner / 100
    if kind in ("sym", "const", "text", "dots") or kind not in _OPERATIONS:
        return None
    values = []
    for child in node.args:
        value = exact_value(child, bits)
        if value is None:
            return None
        values.append(value)
    if kind == "call":
        return _call(node.name, values, bits)
    if kind == "pow":
        return _power(values[0], values[1], bits)
    return _arithmetic(kind, values, bits)


_OPERATIONS = frozenset(("add", "mul", "div", "neg", "pow", "call"))


def _bounded(value: Fraction, bits: int) -> Fraction:
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > bits:
        raise OverLimit("a number is larger than the limit")
    return value


def _arithmetic(kind: str, values: list[Fraction], bits: int) -> Fraction:
    if kind == "neg":
        return -values[0]
    total = values[0]
    for value in values[1:]:
        if kind == "add":
            total += value
        elif kind == "mul":
            total *= value
        elif value == 0:
            raise Undefined("a division by zero")
        else:
            total /= value
        _bounded(total, bits)
    return total


def _power(base: Fraction, exponent: Fraction, bits: int) -> Fraction | None:
    if base == 0:
        if exponent < 0:
            raise Undefined("a power of zero")
        return Fraction(int(exponent == 0))
    if base == 1:
        return base
    if exponent.denominator != 1:
        if base < 0 and exponent.denominator % 2 == 0:
            return None
        root = _root(base, exponent.denominator)
        return None if root is None else _power(root, Fraction(exponent.numerator), bits)
    power = abs(exponent.numerator)
    size = max(base.numerator.bit_length(), base.denominator.bit_length())
    if base == -1:
        return Fraction(1 - 2 * (power % 2))
    if (size - 1) * power > bits or power > bits:
        raise OverLimit("a power is larger than the limit")
    return _bounded(base**exponent.numerator, bits)


def _root(value: Fraction, degree: int) -> Fraction | None:
    """The real rational root, with the sign of the value; None if there is none."""
    if value < 0:
        inner = _root(-value, degree) if degree % 2 else None
        return None if inner is None else -inner
    if degree > 64:
        return None
    parts = []
    for part in (value.numerator, value.denominator):
        root = math.isqrt(part) if degree == 2 else _integer_root(part, degree)
        if root**degree != part:
            return None
        parts.append(root)
    return Fraction(parts[0], parts[1])


def _integer_root(value: int, degree: int) -> int:
    low, high = 0, 1 << (value.bit_length() // degree + 1)
    while low < high:
        middle = (low + high + 1) // 2
        if middle**degree <= value:
            low = middle
        else:
            high = middle - 1
    return low


def _call(name: str, values: list[Fraction], bits: int) -> Fraction | None:
    if name == "root":
        if values[1].denominator != 1 or values[1] < 1:
            return None
        return _root(values[0], values[1].numerator)
    if name == "abs":
        return abs(values[0])
    if name == "floor":
        return Fraction(math.floor(values[0]))
    if name == "ceil":
        return Fraction(math.ceil(values[0]))
    if name in ("max", "min"):
        return max(values) if name == "max" else min(values)
    if any(value.denominator != 1 for value in values):
        return None
    whole = [value.numerator for value in values]
    if name in ("gcd", "lcm"):
        return _bounded(Fraction(math.gcd(*whole) if name == "gcd" else math.lcm(*whole)), bits)
    if name == "rem":
        if whole[1] == 0:
            raise Undefined("a division by zero")
        return Fraction(whole[0] % whole[1])
    if name in ("factorial", "factorial2"):
        step = 1 if name == "factorial" else 2
        if whole[0] < 0:
            raise Undefined("a factorial of a negative number")
        if whole[0] > bits or math.lgamma(whole[0] + 1) / math.log(2) / step > bits:
            raise OverLimit("a factorial is larger than the limit")
        if step == 1:
            return Fraction(math.factorial(whole[0]))
        return Fraction(math.prod(range(whole[0], 0, -2)))
    if name == "binom":
        top, below = whole
        if below < 0 or top < 0:
            return None
        if top.bit_length() * min(below, abs(top - below)) > 8 * bits:
            raise OverLimit("a binomial coefficient is larger than the limit")
        return _bounded(Fraction(math.comb(top, below)), bits)
    return None
