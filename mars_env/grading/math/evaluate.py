r"""Evaluates parsed expressions at points, to any precision, with mpmath. Runs in worker processes.

Values are real where real values exist (``\sqrt[3]{-8}`` is -2, and the square root of a negative number is
undefined, so that ``\sqrt{x^2}`` is not ``x``), and complex if the imaginary unit occurs.
"""

import hashlib
import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import mpmath  # type: ignore[import-untyped]

from mars_env.grading.math.exact import WORKER_BITS, Undefined, exact_value
from mars_env.grading.math.nodes import TRIGONOMETRY, Node, OverLimit, Unreadable, word_set

BASE_DIGITS = 60
_MAX_DIGITS = 12_000  # values that take more to tell apart are over the limit
_MAX_SAMPLE_DIGITS = 600  # a point at which an expression needs more is skipped; another one is used
_MAX_TERMS = 10_000
_MP = mpmath.MPContext()
"""A separate context whose precision changes: a worker is one process that handles one verdict at a time."""


class _MorePrecision(ArithmeticError):
    def __init__(self, digits: float) -> None:
        super().__init__(f"{digits:.0f} digits are needed")
        self.digits = digits


def value_at(node: Node, point: Mapping[str, Any], digits: int, *, real: bool) -> tuple[Any, int]:
    """The value at a point, and how many digits it took; or `Undefined`, `OverLimit`, `Unreadable`."""
    most = max(_MAX_SAMPLE_DIGITS, 2 * digits) if point else _MAX_DIGITS
    while True:
        try:
            return _Evaluator(point, digits, real).value(node), digits
        except ZeroDivisionError as error:
            raise Undefined("a division by zero") from error
        except _MorePrecision as more:
            if more.digits > most:
                raise OverLimit("a number is larger than the limit") from more
            digits = max(int(more.digits * 1.3) + 20, 2 * digits)


class _Evaluator:
    """Values at one point; `digits` decimal digits count, and twice as many are computed."""

    def __init__(self, point: Mapping[str, Any], digits: int, real: bool) -> None:
        _MP.dps = 2 * digits + 10
        self.point, self.digits, self.real = point, digits, real
        self.rounding = _MP.mpf(10) ** (-3 * digits // 2)

    def value(self, node: Node) -> Any:
        kind, args = node.kind, node.args
        if kind == "num":
            return self.fraction(node.value)
        if kind == "sym":
            if node.name not in self.point:
                raise Undefined(f"{node.name} has no value")
            return self.fraction(self.point[node.name])
        if kind == "const" and node.name in _CONSTANTS:
            return self.checked(+_CONSTANTS[node.name])
        if kind == "add":
            return self.sum(list(map(self.value, args)))
        if kind in ("neg", "mul", "div", "pow"):
            return self.checked(self.arithmetic(kind, args))
        if kind == "call":
            return self.checked(self.call(node))
        if kind == "quantity" and node.value in ("deg", "%"):
            return self.value(args[0]) * (_MP.pi / 180 if node.value == "deg" else _MP.mpf(1) / 100)
        if kind in ("sum", "prod"):
            return self.series(node)
        raise Unreadable(f"a {kind} has no numerical value")

    def arithmetic(self, kind: str, args: tuple[Node, ...]) -> Any:
        if kind == "pow":
            return self.power(*args)
        first = self.value(args[0])
        if kind == "neg":
            return -first
        return first * self.value(args[1]) if kind == "mul" else first / self.value(args[1])

    def fraction(self, value: Any) -> Any:
        return self.checked(_MP.mpf(value.numerator) / value.denominator)

    def checked(self, value: Any) -> Any:
        if not _MP.isfinite(value):
            raise Undefined("an infinite value")
        if self.real and isinstance(value, _MP.mpc):
            raise Undefined("a value that is not real")
        if value != 0 and (size := abs(int(_MP.mag(value))) * 0.30103) > self.digits:
            raise _MorePrecision(size)
        return value

    def sum(self, values: list[Any]) -> Any:
        total, largest = _MP.fsum(values), max(map(abs, values))
        for value in filter(None, values):
            apart = (int(_MP.mag(largest)) - int(_MP.mag(value))) * 0.30103
            if apart > 0.9 * self.digits:
                raise _MorePrecision(apart)
        # If a sum cancels 3/4 of all digits, the rest is rounding error: it is zero.
        return _MP.mpf(0) if abs(total) < largest * self.rounding else total

    def power(self, base_node: Node, exponent_node: Node) -> Any:
        base, exact = self.value(base_node), exact_value(exponent_node, WORKER_BITS)
        exponent = self.value(exponent_node) if exact is None else self.fraction(exact)
        if base == 0:
            if isinstance(exponent, _MP.mpc) or exponent <= 0:
                raise Undefined("a power of zero")
            return base
        self.guard(base, exponent)
        if self.real and base < 0 and exact is not None and exact.denominator % 2:  # an odd root is real
            return _MP.power(-base, exponent) * (-1 if exact.numerator % 2 else 1)
        return _MP.power(base, exponent)

    def guard(self, base: Any, exponent: Any) -> None:
        size = abs(_MP.log(abs(base))) * abs(exponent) / 2.302585
        if size > _MAX_DIGITS:
            raise OverLimit("a power is larger than the limit")
        if size > self.digits:
            raise _MorePrecision(float(size) + 5)

    def call(self, node: Node) -> Any:
        name = node.name
        if (exact := exact_value(node, WORKER_BITS)) is not None:
            return self.fraction(exact)
        if name == "root":
            return self.power(node.args[0], Node("div", (Node("num", value=Fraction(1)), node.args[1])))
        args = list(map(self.value, node.args))
        first = args[0]
        if name == "abs":
            return abs(first)
        if name == "exp":
            self.guard(_MP.e, first)
            return _MP.exp(first)
        if name in ("ln", "log"):
            base = args[1] if len(args) > 1 else _MP.e if name == "ln" else 10
            if base == 0:
                raise Undefined("a logarithm to the base zero")
            return self.corrected(_MP.log(first) / _MP.log(base))
        if name in TRIGONOMETRY:
            return self.corrected(getattr(_MP, name.replace("arc", "a"))(first))
        if name in _OF_REALS:
            if any(isinstance(v, _MP.mpc) and abs(v.imag) > self.rounding * (1 + abs(v)) for v in args):
                raise Undefined("a complex value where a real one is needed")
            return self.of_reals(name, args)
        return self.unknown(name, args)

    def of_reals(self, name: str, args: list[Any]) -> Any:
        if name in ("max", "min"):
            return max(args) if name == "max" else min(args)
        nearest = list(map(_MP.nint, args))
        is_whole = all(abs(v - n) < _MP.mpf(10) ** -self.digits for v, n in zip(args, nearest, strict=True))
        if name in ("floor", "ceil"):
            return nearest[0] if is_whole else getattr(_MP, name)(args[0])
        if any(abs(value) > 5000 for value in args):
            raise OverLimit("a factorial is larger than the limit")
        return 1 / _MP.rgamma(args[0] + 1) if name == "factorial" else _MP.binomial(*args)

    def corrected(self, value: Any) -> Any:
        return _MP.mpf(0) if abs(value) < self.rounding else value

    def series(self, node: Node) -> Any:
        index, low, high, body = node.args
        first, last = self.value(low), self.value(high)
        if first != _MP.nint(first) or last != _MP.nint(last):
            raise Undefined("a sum between bounds that are not integers")
        if last - first > _MAX_TERMS:
            raise OverLimit("a sum has more terms than the limit")
        outer, values = self.point, []
        for k in range(int(first), int(last) + 1):
            self.point = {**outer, index.name: Fraction(k)}
            values.append(self.value(body))
        self.point = outer
        if node.kind == "sum":
            return self.sum(values) if values else _MP.mpf(0)
        return self.checked(_MP.fprod(values))

    def unknown(self, name: str, args: list[Any]) -> Any:
        """A function known only by name: a fixed smooth function for each name."""
        seed = int.from_bytes(hashlib.blake2b(name.encode(), digest_size=4).digest(), "little")
        terms = (_MP.sin(arg * (seed % 97 + k) / 31 + k) for k, arg in enumerate(args, 1))
        return sum(terms, _MP.mpf(seed) / 2**32 + 1)


_OF_REALS = word_set("max min floor ceil factorial binom")
_CONSTANTS = {"pi": _MP.pi, "e": _MP.e, "i": _MP.j}


def free_symbols(node: Node) -> frozenset[str]:
    """Names of the variables of an expression; the index of a sum is not one."""
    if node.kind == "sym":
        return frozenset((node.name,))
    if node.kind in ("sum", "prod"):
        index, low, high, body = node.args
        return free_symbols(low) | free_symbols(high) | (free_symbols(body) - {index.name})
    return frozenset[str]().union(*map(free_symbols, node.args))


def is_complex(node: Node) -> bool:
    """Whether the imaginary unit occurs."""
    return any(child.kind == "const" and child.value == "i" for child in node.walk())


def digits_needed(*nodes: Node) -> int:
    """A number of digits that exceeds that of every number in the expressions."""
    values = (child.value for node in nodes for child in node.walk() if child.kind == "num")
    bits = (v.numerator.bit_length() + v.denominator.bit_length() for v in values if isinstance(v, Fraction))
    return BASE_DIGITS + 2 * math.ceil(max(bits, default=0) * 0.302)


def agree(first: Any, second: Any, digits: int) -> bool:
    """Whether two values, computed with twice as many digits, agree in the digits that count."""
    _MP.dps = 2 * digits + 10
    return bool(abs(first - second) <= max(abs(first), abs(second)) * _MP.mpf(10) ** (-digits))
