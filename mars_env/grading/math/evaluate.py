r"""Evaluates parsed expressions at points, to any precision, with mpmath. Runs in worker processes.

Two expressions are compared by their values: exactly if both are rational, otherwise at many
seeded points to more digits than either text has. Values are real where real values exist
(``\sqrt[3]{-8}`` is -2, and the square root of a negative number is undefined, so that
``\sqrt{x^2}`` is not ``x``), and complex if the imaginary unit occurs.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import mpmath  # type: ignore[import-untyped]

from mars_env.grading.math.exact import WORKER_BITS, Undefined, exact_value
from mars_env.grading.math.nodes import Node, OverLimit, Unreadable

BASE_DIGITS = 60
MAX_DIGITS = 12_000
"""Values that take more digits to tell apart are over the limit."""
MAX_SAMPLE_DIGITS = 600
"""A point at which an expression needs more digits is skipped; another one is used."""
MAX_TERMS = 10_000
"""The most terms of a sum or product that is evaluated."""


_MP = mpmath.MPContext()
"""A separate context whose precision changes: a worker is one process that handles one verdict at a time."""


class MorePrecision(ArithmeticError):
    """One value is very large or very small compared with another: more digits are needed."""

    def __init__(self, digits: float) -> None:
        super().__init__(f"{digits:.0f} digits are needed")
        self.digits = digits


class Evaluator:
    """Values of expressions at one point.

    Args:
        point: Values of the variables.
        digits: Decimal digits that count; the computation uses twice as many.
        real: Whether values must be real.
    """

    def __init__(self, point: Mapping[str, Any], digits: int, *, real: bool = True) -> None:
        self.mp = _MP
        self.mp.dps = 2 * digits + 10
        self.digits = digits
        self.point = point
        self.real = real

    def value(self, node: Node) -> Any:
        """The value at the point.

        Raises:
            Undefined: It has no value there.
            MorePrecision: More digits are needed to determine it.
            OverLimit: It is too large.
            Unreadable: The node is not an expression.
        """
        kind = node.kind
        if kind == "num":
            assert isinstance(node.value, Fraction)
            return self._fraction(node.value)
        if kind == "based":
            return self.value(node.args[0])
        if kind == "sym":
            if node.name not in self.point:
                raise Undefined(f"{node.name} has no value")
            value = self.point[node.name]
            return self._fraction(value) if isinstance(value, Fraction) else self.mp.mpmathify(value)
        if kind == "const":
            return self._constant(node.name)
        if kind == "add":
            return self._sum([self.value(child) for child in node.args])
        if kind == "neg":
            return -self.value(node.args[0])
        if kind == "mul":
            return self._checked(self.value(node.args[0]) * self.value(node.args[1]))
        if kind == "div":
            below = self.value(node.args[1])
            if below == 0:
                raise Undefined("a division by zero")
            return self._checked(self.value(node.args[0]) / below)
        if kind == "pow":
            return self._power(node.args[0], node.args[1])
        if kind == "call":
            return self._checked(self._settled(node, self._call(node)))
        if kind == "quantity" and node.value in ("deg", "%", "degrees", "degree", "rad", "radians"):
            factor = {"%": self.mp.mpf(1) / 100, "rad": 1, "radians": 1}.get(node.name, self.mp.pi / 180)
            return self.value(node.args[0]) * factor
        if kind in ("sum", "prod"):
            return self._series(node)
        raise Unreadable(f"a {kind} has no numerical value")

    def _fraction(self, value: Fraction) -> Any:
        return self._checked(self.mp.mpf(value.numerator) / value.denominator)

    def _constant(self, name: str) -> Any:
        if name == "pi":
            return +self.mp.pi
        if name == "e":
            return +self.mp.e
        if name == "i":
            if self.real:
                raise Undefined("the imaginary unit")
            return self.mp.mpc(0, 1)
        raise Unreadable(f"{name} is not a number")

    def _checked(self, value: Any) -> Any:
        """Refuse values too large or too small for the digits in use."""
        if not self.mp.isfinite(value):
            raise Undefined("an infinite value")
        if value != 0:
            size = abs(int(self.mp.mag(value))) * 0.30103
            if size > self.digits:
                raise MorePrecision(size)
        return value

    def _sum(self, values: list[Any]) -> Any:
        mp, total = self.mp, self.mp.fsum(values)
        largest = max(abs(v) for v in values)
        for value in values:
            if value != 0:
                apart = (int(mp.mag(largest)) - int(mp.mag(value))) * 0.30103
                if apart > 0.9 * self.digits:
                    raise MorePrecision(apart)
        # If a sum cancels 3/4 of all digits, the rest is rounding error: it is zero.
        return mp.mpf(0) if abs(total) < largest * self._rounding() else total

    def _rounding(self) -> Any:
        return self.mp.mpf(10) ** (-3 * self.digits // 2)

    def _power(self, base_node: Node, exponent_node: Node) -> Any:
        base = self.value(base_node)
        exact = exact_value(exponent_node, WORKER_BITS)
        if exact is None and not self.real:
            exponent = self.value(exponent_node)
            if base == 0:
                raise Undefined("a power of zero")
            self._guard(base, exponent)
            return self._checked(self.mp.power(base, exponent))
        exponent = self.value(exponent_node) if exact is None else self._fraction(exact)
        if exact is None and exponent == self.mp.nint(exponent) and abs(exponent) < 10**6:
            exact = Fraction(int(exponent))
        if base == 0:
            if exponent <= 0:
                raise Undefined("a power of zero")
            return base
        self._guard(base, exponent)
        if exact is not None and exact.denominator == 1:
            return self._checked(self.mp.power(base, exact.numerator))
        if not self.real:
            return self._checked(self.mp.power(base, exponent))
        if base > 0:
            return self._checked(self.mp.power(base, exponent))
        if exact is not None and exact.denominator % 2 == 1:
            size = self.mp.power(-base, exponent)
            return self._checked(-size if exact.numerator % 2 else size)
        raise Undefined("a root of a negative number")

    def _guard(self, base: Any, exponent: Any) -> None:
        """Refuse a power before it is computed if its logarithm is too large."""
        size = abs(self.mp.log(abs(base))) * abs(exponent) / 2.302585
        if size > MAX_DIGITS:
            raise OverLimit("a power is larger than the limit")
        if size > self.digits:
            raise MorePrecision(float(size) + 5)

    def _settled(self, node: Node, value: Any) -> Any:
        """A function's value, corrected for rounding at a zero or a pole (the tangent of pi/2)."""
        if node.name in _KNOWN or node.name in ("ln", "log"):
            if abs(value) < self._rounding():
                return self.mp.mpf(0)
            if abs(value) * self._rounding() > 1:
                raise Undefined(f"{node.name} at a pole")
        return value

    def _call(self, node: Node) -> Any:
        name, mp = node.name, self.mp
        if name == "det":
            return self._determinant(node.args[0])
        exact = exact_value(node, WORKER_BITS)
        if exact is not None:
            return self._fraction(exact)
        args = [self.value(child) for child in node.args]
        first = args[0]
        if name == "root":
            return self._root(node, first, args[1])
        if name in ("floor", "ceil"):
            self._want_real(first)
            nearest = mp.nint(first)
            if abs(first - nearest) < mp.mpf(10) ** (-self.digits):
                return nearest
            return mp.floor(first) if name == "floor" else mp.ceil(first)
        if name == "abs":
            return abs(first)
        if name in ("ln", "log"):
            return self._log(name, args)
        if name == "exp":
            self._guard(mp.e, first)
            return mp.exp(first)
        if name in ("max", "min"):
            for value in args:
                self._want_real(value)
            return max(args) if name == "max" else min(args)
        if name in _TRIGONOMETRY:
            if abs(first) > 10**12:
                raise OverLimit("an angle is larger than the limit")
            return self._real(_apply(mp, _TRIGONOMETRY[name], first))
        if name in ("factorial", "binom"):
            if any(abs(value) > 5000 for value in args):
                raise OverLimit("a factorial is larger than the limit")
            for value in args:
                self._want_real(value)
            return self._real(mp.factorial(first) if name == "factorial" else mp.binomial(first, args[1]))
        if name in ("gcd", "lcm", "rem", "factorial2"):
            whole = [Fraction(int(mp.nint(value))) for value in args]
            if any(
                abs(v - w.numerator) > mp.mpf(10) ** (-self.digits) for v, w in zip(args, whole, strict=True)
            ):
                raise Undefined(f"{name} of something that is not an integer")
            literal = Node("call", tuple(Node("num", value=w) for w in whole), name)
            exact = exact_value(literal, WORKER_BITS)
            if exact is None:
                raise Undefined(f"{name} has no value")
            return self._fraction(exact)
        if name in _KNOWN:
            raise Unreadable(f"{name} is not evaluated")
        return self._unknown(name, args)

    def _root(self, node: Node, value: Any, degree: Any) -> Any:
        if degree == 0:
            raise Undefined("a root of degree zero")
        exact = exact_value(node.args[1])
        if self.real and value < 0:
            if exact is None or exact.denominator != 1 or exact.numerator % 2 == 0:
                raise Undefined("an even root of a negative number")
            return -self.mp.power(-value, 1 / degree)
        if value == 0:
            return value
        self._guard(value, 1 / degree)
        return self.mp.sqrt(value) if degree == 2 else self.mp.power(value, 1 / degree)

    def _log(self, name: str, args: list[Any]) -> Any:
        base = self.mp.e if name == "ln" else (args[1] if len(args) > 1 else self.mp.mpf(10))
        if args[0] == 0 or base == 0 or base == 1:
            raise Undefined("a logarithm of zero")
        if self.real and (args[0] < 0 or base < 0):
            raise Undefined("a logarithm of a negative number")
        return self.mp.log(args[0]) / self.mp.log(base)

    def _determinant(self, matrix: Node) -> Any:
        rows = [[self.value(cell) for cell in row.args] for row in matrix.args]
        if len(rows) != len(rows[0]) or len(rows) > 8:
            raise Unreadable("a determinant of something not square or too large")
        return _determinant(rows)

    def _series(self, node: Node) -> Any:
        index, low, high, body = node.args
        first, last = (self.value(bound) for bound in (low, high))
        self._want_real(first)
        self._want_real(last)
        if first != self.mp.nint(first) or last != self.mp.nint(last):
            raise Undefined("a sum between bounds that are not integers")
        if last - first > MAX_TERMS:
            raise OverLimit("a sum has more terms than the limit")
        values = []
        outer = self.point
        for k in range(int(first), int(last) + 1):
            self.point = {**outer, index.name: Fraction(k)}
            values.append(self.value(body))
        self.point = outer
        if node.kind == "sum":
            return self._sum(values) if values else self.mp.mpf(0)
        return self._checked(self.mp.fprod(values))

    def _unknown(self, name: str, args: list[Any]) -> Any:
        """A function known only by name: a fixed smooth function for each name."""
        seed = int.from_bytes(hashlib.blake2b(name.encode(), digest_size=4).digest(), "little")
        value = self.mp.mpf(seed) / 2**32 + 1
        for k, arg in enumerate(args, 1):
            value += self.mp.sin(arg * (seed % 97 + k) / 31 + k)
        return value

    def _want_real(self, value: Any) -> None:
        if isinstance(value, self.mp.mpc) and abs(value.imag) > self._rounding() * (1 + abs(value)):
            raise Undefined("a complex value where a real one is needed")

    def _real(self, value: Any) -> Any:
        if self.real and isinstance(value, self.mp.mpc):
            raise Undefined("a value that is not real")
        return value


_TRIGONOMETRY = {
    "sin": "sin", "cos": "cos", "tan": "tan", "cot": "cot", "sec": "sec", "csc": "csc", "arcsin": "asin",
    "arccos": "acos", "arctan": "atan", "arccot": "acot", "arcsec": "asec", "arccsc": "acsc", "sinh": "sinh",
    "cosh": "cosh", "tanh": "tanh", "coth": "coth",
}  # fmt: skip
_KNOWN = frozenset(_TRIGONOMETRY) | {"det"}


def _apply(mp: Any, name: str, value: Any) -> Any:
    try:
        return getattr(mp, name)(value)
    except ZeroDivisionError as pole:
        raise Undefined(f"{name} at a pole") from pole


def _determinant(rows: list[list[Any]]) -> Any:
    if len(rows) == 1:
        return rows[0][0]
    total = 0
    for column, head in enumerate(rows[0]):
        minor = [row[:column] + row[column + 1 :] for row in rows[1:]]
        total += (-1) ** column * head * _determinant(minor)
    return total


def free_symbols(node: Node) -> frozenset[str]:
    """Names of the variables of an expression; the index of a sum is not one."""
    if node.kind == "sym":
        return frozenset((node.name,))
    if node.kind in ("sum", "prod"):
        index, low, high, body = node.args
        return free_symbols(low) | free_symbols(high) | (free_symbols(body) - {index.name})
    names: frozenset[str] = frozenset()
    for child in node.args:
        names |= free_symbols(child)
    return names


def is_complex(node: Node) -> bool:
    """Whether the imaginary unit occurs."""
    return any(child.kind == "const" and child.value == "i" for child in node.walk())


def digits_needed(*nodes: Node) -> int:
    """A number of digits that exceeds that of every number in the expressions."""
    longest = 0
    for node in nodes:
        for child in node.walk():
            if child.kind == "num" and isinstance(child.value, Fraction):
                size = child.value.numerator.bit_length() + child.value.denominator.bit_length()
                longest = max(longest, math.ceil(size * 0.302))
    return BASE_DIGITS + 2 * longest


def value_at(node: Node, point: Mapping[str, Any], digits: int, *, real: bool) -> tuple[Any, int]:
    """The value at a point, and the number of digits that it took.

    Raises:
        Undefined: It has no value there.
        OverLimit: It needs more digits than the limit.
    """
    twice = 2 * digits
    while True:
        try:
            return Evaluator(point, digits, real=real).value(node), digits
        except MorePrecision as more:
            if more.digits > (max(MAX_SAMPLE_DIGITS, twice) if point else MAX_DIGITS):
                raise OverLimit("a number is larger than the limit") from more
            digits = max(int(more.digits * 1.3) + 20, 2 * digits)


def agree(first: Any, second: Any, digits: int) -> bool:
    """Whether two values, computed with twice as many digits, agree in the digits that count."""
    _MP.dps = 2 * digits + 10
    return bool(abs(first - second) <= max(abs(first), abs(second)) * _MP.mpf(10) ** (-digits))


def sqrt(value: Any) -> Any:
    """The square root, to the digits in use."""
    return _MP.sqrt(value)
