"""Decides whether two equations, or two families of numbers with an integer parameter, are the same."""

from __future__ import annotations

from fractions import Fraction

from mars_env.grading.math.exact import Undefined
from mars_env.grading.math.nodes import EXPRESSIONS, Node, Unreadable, number, operators
from mars_env.grading.math.numeric import (
    agree,
    digits_needed,
    free_symbols,
    is_complex,
    value_at,
)
from mars_env.grading.math.points import integer_points, sample_points


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
