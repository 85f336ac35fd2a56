r"""Sets of real numbers: intervals, inequalities and their unions, as sorted lists of intervals."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, NamedTuple

import mpmath  # type: ignore[import-untyped]

from mars_env.grading.math.evaluate import BASE_DIGITS, agree, digits_needed, free_symbols, sqrt, value_at
from mars_env.grading.math.exact import Undefined
from mars_env.grading.math.nodes import Node, Unreadable

_FLIP = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "=": "=", "!=": "!="}


class Interval(NamedTuple):
    """An interval, given by its ends; a point is a closed interval with equal ends."""

    low: Any
    low_closed: bool
    high: Any
    high_closed: bool


RealSet = list[Interval]
EVERYTHING: RealSet = [Interval(mpmath.mpf("-inf"), False, mpmath.mpf("inf"), False)]


def is_infinite(node: Node) -> int:
    """1 for plus infinity, -1 for minus infinity, otherwise 0."""
    if node.kind == "const" and node.value == "inf":
        return 1
    return -is_infinite(node.args[0]) if node.kind == "neg" else 0


def end_value(node: Node) -> Any:
    """The value of an end of an interval.

    Raises:
        Unreadable: It has variables or no value.
    """
    if sign := is_infinite(node):
        return mpmath.mpf("inf") * sign
    if free_symbols(node):
        raise Unreadable("an end of an interval has variables")
    try:
        return value_at(node, {}, digits_needed(node), real=True)[0]
    except Undefined as undefined:
        raise Unreadable("an end of an interval has no value") from undefined


def set_like(node: Node) -> bool:
    """Whether a node can only be a set of real numbers (an interval in brackets may be a pair)."""
    if node.kind == "relation":
        return any(op in ("<", ">", "<=", ">=", "!=") for op in node.pair) or node.value == ("in",)
    if node.kind == "list":
        return any(set_like(item) for item in node.args) or _several_intervals(node)
    if node.kind == "group":
        return len(node.args) == 2 and any(is_infinite(item) for item in node.args)
    return node.kind in ("setop", "builder") or (node.kind == "const" and node.value in ("R", "empty"))


def _several_intervals(node: Node) -> bool:
    """``[0,2], [3,5)``: adjacent brackets that can only be intervals."""
    return all(item.kind == "group" and len(item.args) == 2 for item in node.args) and any(
        "[" in item.pair or "]" in item.pair for item in node.args
    )


def variable_of(node: Node) -> str | None:
    """The one variable of an inequality; None if it names none."""
    if node.kind in ("relation", "list", "builder"):
        names = free_symbols(node)
        if len(names) == 1:
            return next(iter(names))
    return None


def real_set(node: Node) -> RealSet:
    r"""The set of real numbers that a node describes.

    Raises:
        Unreadable: It is not such a set, or its ends have variables.

    Example:
        >>> from mars_env.grading.math.parser import read
        >>> same_set(real_set(read(r"(-\infty,3)")), real_set(read("x < 3")))
        True
        >>> same_set(real_set(read("[1,2)")), real_set(read(r"1 \le t \le 2")))
        False
    """
    kind = node.kind
    if kind == "const":
        if node.value == "R":
            return EVERYTHING
        if node.value == "empty":
            return []
    if kind == "group" and len(node.args) == 2:
        left, right = node.pair
        low, high = (end_value(end) for end in node.args)
        if low > high or (low == high and (left, right) != ("[", "]")):
            raise Unreadable("the ends of an interval are in the wrong order")
        finite = mpmath.isfinite
        return [Interval(low, left == "[" and bool(finite(low)), high, right == "]" and bool(finite(high)))]
    if kind == "set":
        points = [end_value(item) for item in node.args]
        return union([[Interval(p, True, p, True)] for p in points])
    if kind == "setop":
        left_set, right_set = (real_set(part) for part in node.args)
        if node.value == "cup":
            return union([left_set, right_set])
        return intersection(left_set, right_set if node.value == "cap" else complement(right_set))
    if kind == "builder":
        return _builder(node)
    if kind == "relation":
        return _relation(node)
    if kind == "list":
        return _several(node)
    raise Unreadable(f"a {kind} is not a set of real numbers")


def _builder(node: Node) -> RealSet:
    head, condition = node.args
    within = EVERYTHING
    if head.kind == "relation" and head.value == ("in",):
        within, head = real_set(head.args[1]), head.args[0]
    if head.kind != "sym" or free_symbols(condition) != {head.name}:
        raise Unreadable("a set of things that are not real numbers")
    return intersection(within, real_set(condition))


def _several(node: Node) -> RealSet:
    if {item.kind for item in node.args} <= {"group", "setop", "set"} and set_like(node):
        regions = [real_set(item) for item in node.args]
        if any(intersection(a, b) for k, a in enumerate(regions) for b in regions[:k]):
            raise Unreadable("intervals that overlap, without a word that joins them")
        return union(regions)
    if {item.kind for item in node.args} - {"relation", "list"} or len(
        {variable_of(item) for item in node.args}
    ) != 1:
        raise Unreadable("conditions on several variables")
    parts = [real_set(item) for item in node.args]
    if node.value == "or":
        return union(parts)
    common = parts[0]
    for part in parts[1:]:
        common = intersection(common, part)
    # "x < 1, x > 2" can only mean "or"
    return union(parts) if not common and node.value == "comma" else common


def _relation(node: Node) -> RealSet:
    operators = node.value
    assert isinstance(operators, tuple)
    if operators == ("in",):
        if node.args[0].kind != "sym":
            raise Unreadable("membership of something that is not a variable")
        return real_set(node.args[1])
    found = EVERYTHING
    for left, op, right in zip(node.args, operators, node.args[1:], strict=False):
        if op not in _FLIP:
            raise Unreadable(f"the relation {op} is not an inequality")
        if left.kind == "sym" and not free_symbols(right):
            part = _half_line(op, end_value(right))
        elif right.kind == "sym" and not free_symbols(left):
            part = _half_line(_FLIP[op], end_value(left))
        else:
            part = _solved(left, op, right)
        found = intersection(found, part)
    return found


def _half_line(op: str, end: Any) -> RealSet:
    inf = mpmath.mpf("inf")
    point = [Interval(end, True, end, True)]
    if op == "=":
        return point
    if op == "!=":
        return complement(point)
    if op in ("<", "<="):
        return [Interval(-inf, False, end, op == "<=" and bool(mpmath.isfinite(end)))]
    return [Interval(end, op == ">=" and bool(mpmath.isfinite(end)), inf, False)]


def _solved(left: Node, op: str, right: Node) -> RealSet:
    """Solve ``2x + 1 < 7``, ``|x - 2| < 3`` and ``x^2 < 4``: linear, quadratic, or an absolute value."""
    for size, other, way in ((left, right, op), (right, left, _FLIP[op])):
        if size.kind == "call" and size.value == "abs" and not free_symbols(other):
            opposite = Node("neg", (other,))
            above, below = _solved(size.args[0], way, other), _solved(size.args[0], _FLIP[way], opposite)
            return union([above, below]) if way in (">", ">=", "=") else intersection(above, below)
    difference = Node("add", (left, Node("neg", (right,))))
    names = free_symbols(difference)
    if len(names) != 1:
        raise Unreadable("an inequality with several variables")
    (name,) = names
    digits = digits_needed(difference)
    at = {}
    try:
        for k in (0, 1, 2, -3, 5):
            at[k] = value_at(difference, {name: Fraction(k)}, digits, real=True)[0]
    except Undefined as undefined:
        raise Unreadable("an inequality that is not a polynomial") from undefined
    c, double = at[0], at[2] - 2 * at[1] + at[0]
    a = double / 2
    if abs(a) <= max(abs(value) for value in at.values()) * mpmath.mpf(10) ** (-digits):
        a = a * 0
    b = at[1] - c - a
    for k in (-3, 5):
        if not agree(a * k * k + b * k + c, at[k], digits):
            raise Unreadable("an inequality that is neither linear nor quadratic")
    if a == 0:
        if b == 0:
            raise Unreadable("an inequality without its variable")
        return _half_line(op if b > 0 else _FLIP[op], -c / b)
    return _quadratic(a, b, c, op)


def _quadratic(a: Any, b: Any, c: Any, op: str) -> RealSet:
    if a < 0:
        a, b, c, op = -a, -b, -c, _FLIP[op]
    below = b * b - 4 * a * c
    if abs(below) <= b * b * mpmath.mpf(10) ** -BASE_DIGITS:
        below = below * 0  # a double root, but for rounding
    if below < 0:
        return EVERYTHING if op in (">", ">=", "!=") else []
    roots = [(-b - sqrt(below)) / (2 * a), (-b + sqrt(below)) / (2 * a)]
    points = union([[Interval(root, True, root, True)] for root in roots])
    if op in ("=", "!="):
        return points if op == "=" else complement(points)
    inside = [Interval(roots[0], op in ("<=", ">"), roots[1], op in ("<=", ">"))] if below > 0 else points
    if below == 0 and op in ("<", ">="):
        inside = []
    return inside if op in ("<", "<=") else complement(inside)


def union(parts: list[RealSet]) -> RealSet:
    """The union, sorted, with adjacent intervals merged."""
    intervals = sorted((i for part in parts for i in part), key=lambda i: (i.low, not i.low_closed))
    merged: RealSet = []
    for item in intervals:
        if merged:
            last = merged[-1]
            meets = item.low < last.high or (
                _close(item.low, last.high) and (item.low_closed or last.high_closed)
            )
            if meets:
                if _close(item.high, last.high):
                    last = last._replace(high_closed=last.high_closed or item.high_closed)
                elif item.high > last.high:
                    last = last._replace(high=item.high, high_closed=item.high_closed)
                merged[-1] = last
                continue
        merged.append(item)
    return merged


def complement(items: RealSet) -> RealSet:
    """All real numbers that are not in the set."""
    inf = mpmath.mpf("inf")
    low, closed, gaps = -inf, False, []
    for item in union([items]):
        if low < item.low or (low == item.low and closed and not item.low_closed):
            gaps.append(
                Interval(low, closed, item.low, not item.low_closed and bool(mpmath.isfinite(item.low)))
            )
        low, closed = item.high, not item.high_closed
    if low < inf:
        gaps.append(Interval(low, closed, inf, False))
    return gaps


def intersection(a: RealSet, b: RealSet) -> RealSet:
    """What is in both."""
    found = []
    for first in a:
        for second in b:
            if _close(first.low, second.low):
                low, low_closed = first.low, first.low_closed and second.low_closed
            else:
                low, low_closed = max(
                    (first.low, first.low_closed), (second.low, second.low_closed), key=lambda e: e[0]
                )
            if _close(first.high, second.high):
                high, high_closed = first.high, first.high_closed and second.high_closed
            else:
                high, high_closed = min(
                    (first.high, first.high_closed), (second.high, second.high_closed), key=lambda e: e[0]
                )
            if low < high and not _close(low, high):
                found.append(Interval(low, low_closed, high, high_closed))
            elif _close(low, high) and low_closed and high_closed:
                found.append(Interval(low, True, low, True))
    return union([found])


def same_set(a: RealSet, b: RealSet) -> bool:
    """Whether two sets are equal."""
    a, b = union([a]), union([b])
    return len(a) == len(b) and all(
        x.low_closed == y.low_closed
        and x.high_closed == y.high_closed
        and _close(x.low, y.low)
        and _close(x.high, y.high)
        for x, y in zip(a, b, strict=True)
    )


def _close(a: Any, b: Any) -> bool:
    if mpmath.isinf(a) or mpmath.isinf(b):
        return bool(a == b)
    return agree(a, b, BASE_DIGITS)
