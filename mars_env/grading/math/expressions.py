"""Decides whether expressions, equations or families of numbers have the same values, at many points."""

from __future__ import annotations

import random
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from mars_env.grading.math.evaluate import agree, digits_needed, free_symbols, is_complex, value_at
from mars_env.grading.math.exact import WORKER_BITS, Undefined, exact_value
from mars_env.grading.math.nodes import EXPRESSIONS, Node, OverLimit, Unreadable, number, operators

COUNTERS = frozenset("kmnKMN")
"""Names that stand for an integer where nothing is said about them."""


def sample_points(names: frozenset[str]) -> list[dict[str, Fraction]]:
    """Points at which expressions are compared: positive ones of several sizes, then negative ones."""
    rng = random.Random(20_04)
    ranges = (
        [(0.05, 0.95)] * 4
        + [(1.05, 3)] * 4
        + [(4, 12)] * 2
        + [(20, 60), (2000, 9000)]
        + [(-0.95, -0.05), (-3, -1), (-9, -4)] * 2
        + [(-5000, -1000)]
    )
    points = [{n: _random(rng, low, high) for n in sorted(names)} for low, high in ranges]
    points += [{n: _random(rng, -3, 3) for n in sorted(names)} for _ in range(6)] if len(names) > 1 else []
    points += [{n: _random(rng, 0.1, 4) for n in sorted(names)} for _ in range(4)] if len(names) > 1 else []
    return points


def integer_points(names: frozenset[str]) -> list[dict[str, Fraction]]:
    """Points with positive integers, for expressions that have values only there."""
    rng = random.Random(20_06)
    if len(names) == 1:
        (name,) = names
        return [{name: Fraction(k)} for k in range(1, 14)]
    return [{n: Fraction(rng.randint(1, 9)) for n in sorted(names)} for _ in range(24)]


def whole_points(names: frozenset[str], *nodes: Node) -> list[dict[str, Fraction]]:
    """Points with small integers, and with integers around the numbers in the expressions."""
    rng = random.Random(20_08)
    written = {
        abs(c.value) for n in nodes for c in n.walk() if c.kind == "num" and isinstance(c.value, Fraction)
    }
    near = [int(v) + k for v in sorted(written)[:12] for k in range(-2, 3) if v < 10**6]
    values = sorted({*range(-6, 41), *near, *(2 * v + 1 for v in near), 97, 1000, 1001})
    if len(names) == 1:
        (name,) = names
        return [{name: Fraction(v)} for v in values]
    small = [{n: Fraction(rng.randint(-4, 12)) for n in sorted(names)} for _ in range(60)]
    return small + [{n: Fraction(rng.choice(values)) for n in sorted(names)} for _ in range(60)]


def _random(rng: random.Random, low: float, high: float) -> Fraction:
    return Fraction(rng.randint(int(low * 2**40), int(high * 2**40)), 2**40)


def same_value(a: Node, b: Node, point: Mapping[str, Any], digits: int, *, real: bool) -> bool:
    """Whether two expressions agree at a point to all digits; raises what `value_at` raises."""
    first, used = value_at(a, point, digits, real=real)
    second, more = value_at(b, point, used, real=real)
    if more > used:
        first, used = value_at(a, point, more, real=real)
    return agree(first, second, used)


def same_expression(a: Node, b: Node) -> bool:
    r"""Whether two expressions are equal wherever both are defined.

    Raises:
        OverLimit: A value is too large to compute.
        Unreadable: Something in them has no numerical value, or nothing could be compared.

    Example:
        >>> from mars_env.grading.math.parser import read
        >>> same_expression(read(r"\frac{1}{\sqrt{n}}"), read(r"\sqrt{1/n}"))
        True
        >>> same_expression(read(r"\sqrt{x^2}"), read("x"))
        False
    """
    if a == b:
        return True
    exact = exact_value(a, WORKER_BITS), exact_value(b, WORKER_BITS)
    if exact[0] is not None and exact[1] is not None:
        return exact[0] == exact[1]
    names = free_symbols(a) | free_symbols(b)
    digits = digits_needed(a, b)
    if is_complex(a) or is_complex(b):
        return _must(_agreements(a, b, sample_points(names)[:8] if names else [{}], digits, real=False))
    if names and any(c.kind == "call" and c.name in ("floor", "ceil") for n in (a, b) for c in n.walk()):
        found = _agreements(a, b, whole_points(names, a, b), digits, real=True, enough=8)
        if names <= COUNTERS or not found:
            return _must(found)
    if not names:
        found = _agreements(a, b, [{}], digits, real=True)
        return found > 0 if found is not None else _must(_agreements(a, b, [{}], digits, real=False))
    found = _agreements(a, b, sample_points(names), digits, real=True, enough=3)
    if found is None:
        found = _agreements(a, b, integer_points(names), digits, real=True, enough=3)
    if found is None:
        found = _agreements(a, b, sample_points(names)[:8], digits, real=False)
    return _must(found)


def _must(found: int | None) -> bool:
    if found is None:
        raise Unreadable("the two expressions have no values to compare")
    return found > 0


def _agreements(
    a: Node, b: Node, points: list[dict[str, Fraction]], digits: int, *, real: bool, enough: int = 1
) -> int | None:
    """How many points agree; 0 as soon as one does not; None if too few have values."""
    count = 0
    for point in points:
        try:
            if not same_value(a, b, point, digits, real=real):
                return 0
        except Undefined:
            continue
        except OverLimit:
            if len(point) == 0:
                raise
            continue
        count += 1
    return count if count >= enough else None


def proportional(r: Node, a: Node) -> bool:
    """Whether two equations or inequalities differ only by a constant factor (positive for inequalities)."""
    first, op = _difference(r)
    second, op2 = _difference(a)
    if op != op2:
        return False
    if free_symbols(first) != free_symbols(second) or not free_symbols(first):
        return False
    if _constant_ratio(first, second, op):
        return True
    return op in ("=", "!=") and _constant_ratio(_cleared(first)[0], _cleared(second)[0], op)


def _cleared(node: Node) -> tuple[Node, Node]:
    """An expression as numerator and denominator, so that ``y - 1/x`` has the same zeros as ``xy - 1``."""
    parts = [_cleared(child) for child in node.args] if node.kind in ("add", "mul", "div", "neg") else []
    if node.kind == "neg":
        return Node("neg", (parts[0][0],)), parts[0][1]
    if node.kind == "div":
        (top, below), (top2, below2) = parts
        return Node("mul", (top, below2)), Node("mul", (below, top2))
    if node.kind == "mul":
        (top, below), (top2, below2) = parts
        return Node("mul", (top, top2)), Node("mul", (below, below2))
    if node.kind == "add":
        total = parts[0]
        for part in parts[1:]:
            crossed = Node("mul", (total[0], part[1])), Node("mul", (part[0], total[1]))
            total = Node("add", crossed), Node("mul", (total[1], part[1]))
        return total
    return node, number(1)


def _constant_ratio(first: Node, second: Node, op: str) -> bool:
    """Whether the ratio of two expressions is the same at all points (and positive, for inequalities)."""
    names = free_symbols(first) | free_symbols(second)
    digits, real = digits_needed(first, second), not (is_complex(first) or is_complex(second))
    for points in (sample_points(names), integer_points(names)):
        ratio, count = None, 0
        for point in points:
            try:
                (x, used), (y, more) = (value_at(side, point, digits, real=real) for side in (first, second))
            except Undefined:
                continue
            if x == 0 or y == 0:
                if (x == 0) != (y == 0):
                    return False
                continue
            if ratio is None:
                ratio = x / y
                if op in ("<", "<=") and (not real or ratio < 0):
                    return False
            elif not agree(x / y, ratio, min(digits, used, more) - 5):
                return False
            count += 1
        if count >= 3:
            return True
    return False


def _difference(node: Node) -> tuple[Node, str]:
    left, right = node.args
    op = operators(node)[0]
    if op in (">", ">="):
        left, right, op = right, left, op.replace(">", "<")
    if op not in ("=", "<", "<=", "!=") or any(side.kind not in EXPRESSIONS for side in (left, right)):
        raise Unreadable("a relation between things that are not expressions")
    return Node("add", (left, Node("neg", (right,)))), op


def same_line(a: Node, name: str, b: Node, name2: str, *, shift: bool) -> bool:
    """Whether ``a + b k`` and ``c + d n`` take the same values for integer parameters."""
    zero, one = ({}, {})  # type: ignore[var-annotated]
    for node, key, values in ((a, name, zero), (b, name2, one)):
        if free_symbols(node) != {key}:
            return False
        for k in (0, 1, 2):
            values[k] = value_at(node, {key: Fraction(k)}, digits_needed(a, b), real=True)[0]
    digits = digits_needed(a, b)
    step, step2 = zero[1] - zero[0], one[1] - one[0]
    if not agree(zero[2] - zero[1], step, digits) or not agree(one[2] - one[1], step2, digits) or step == 0:
        return False
    if not shift:
        return agree(step, step2, digits) and agree(zero[0], one[0], digits)
    if not agree(abs(step), abs(step2), digits):
        return False
    turns = (zero[0] - one[0]) / step
    return bool(abs(turns - round(turns)) < 10.0**-30)
