"""Decides whether expressions, equations or families of numbers have the same values, at many points."""

import random
from collections.abc import Mapping, Sequence
from contextlib import suppress
from fractions import Fraction
from functools import lru_cache

from mars_env.grading.math.evaluate import agree, digits_needed, free_symbols, is_complex, value_at
from mars_env.grading.math.exact import WORKER_BITS, Undefined, exact_value
from mars_env.grading.math.nodes import EXPRESSIONS, Node, OverLimit, Unreadable, num, operators, substitute

COUNTERS = frozenset("kmnKMN")  # integers, where nothing is said about them
_Point = Mapping[str, Fraction]
_RANGES = (
    *[(0.05, 0.95)] * 4, *[(1.05, 3)] * 4, *[(4, 12)] * 2, (20, 60), (2000, 9000),
    *[(-0.95, -0.05), (-3, -1), (-9, -4)] * 2, (-5000, -1000),
)  # fmt: skip
"""Where expressions are compared: positive numbers of several sizes, then negative ones."""


@lru_cache(maxsize=256)
def _real_points(names: frozenset[str]) -> list[_Point]:
    rng = random.Random(20_04)
    ranges = (*_RANGES, *[(-3, 3)] * 6, *[(0.1, 4)] * 4) if len(names) > 1 else _RANGES
    return [
        {n: Fraction(rng.randint(int(low * 2**40), int(high * 2**40)), 2**40) for n in sorted(names)}
        for low, high in ranges
    ]


@lru_cache(maxsize=256)
def _integer_points(names: frozenset[str], values: Sequence[int], count: int) -> list[_Point]:
    if len(names) == 1:
        (name,) = names
        return [{name: Fraction(value)} for value in values]
    rng = random.Random(20_06)
    return [{n: Fraction(rng.choice(values)) for n in sorted(names)} for _ in range(count)]


def _points_for_floors(names: frozenset[str], *nodes: Node) -> list[_Point]:
    numbers = (part.value for node in nodes for part in node.walk() if part.kind == "num")
    written = sorted({abs(value) for value in numbers if isinstance(value, Fraction)})
    near = [int(v) + k for v in written[:12] for k in range(-2, 3) if v < 10**6]
    values = tuple(sorted({*range(-6, 41), *near, *(2 * v + 1 for v in near), 97, 1000, 1001}))
    if len(names) == 1:
        return _integer_points(names, values, 0)
    return _integer_points(names, range(-4, 13), 60) + _integer_points(names, values, 60)


def _same_value(a: Node, b: Node, point: _Point, digits: int, real: bool) -> bool:
    first, used = value_at(a, point, digits, real=real)
    second, more = value_at(b, point, used, real=real)
    if more > used:
        first, used = value_at(a, point, more, real=real)
    return agree(first, second, used)


def same_expression(a: Node, b: Node) -> bool:
    r"""Whether two expressions are equal wherever both are defined.

    Raises `OverLimit`, and `Unreadable` for what has no numerical value, or if nothing could be compared.

    Example:
        >>> from mars_env.grading.math.parser import read_answer
        >>> same_expression(read_answer(r"\sqrt{x^2}"), read_answer("x"))
        False
    """
    if a == b:
        return True
    exact = exact_value(a, WORKER_BITS), exact_value(b, WORKER_BITS)
    if None not in exact:
        return exact[0] == exact[1]
    names = free_symbols(a) | free_symbols(b)
    if not names:
        real = [] if is_complex(a) or is_complex(b) else [True]
        return _first_that_decides(a, b, [([{}], of, 1) for of in (*real, False)])
    if is_complex(a) or is_complex(b):
        return _first_that_decides(a, b, [(_real_points(names)[:8], False, 1)])
    if any(c.kind == "call" and c.value in ("floor", "ceil") for n in (a, b) for c in n.walk()):
        same = _first_that_decides(a, b, [(_points_for_floors(names, a, b), True, 8)])
        if names <= COUNTERS or not same:
            return same
    points = _real_points(names)
    integers = _integer_points(names, range(1, 14), 24)
    return _first_that_decides(a, b, [(points, True, 3), (integers, True, 3), (points[:8], False, 1)])


def _first_that_decides(a: Node, b: Node, attempts: list[tuple[list[_Point], bool, int]]) -> bool:
    """Whether all values agree at the first points, of which enough have values; real values or complex."""
    digits = digits_needed(a, b)
    for points, real, enough in attempts:
        count = 0
        for point in points:
            try:
                if not _same_value(a, b, point, digits, real):
                    return False
            except Undefined:
                continue
            except OverLimit:
                if not point:
                    raise
                continue
            count += 1
        if count >= enough:
            return True
    raise Unreadable("the two expressions have no values to compare")


def fixed_value(node: Node) -> Node | None:
    """The one value that an expression has wherever it is defined, as a number; None if it has several."""
    for place in (Fraction(1, 3), 2, 7, -2):
        there = node
        for k, name in enumerate(sorted(free_symbols(node))):
            there = substitute(there, Node("sym", value=name), num(place + Fraction(k, 7)))
        with suppress(Unreadable, Undefined):  # it may have no value there
            return there if same_expression(node, there) else None
    return None


def proportional(r: Node, a: Node) -> bool:
    """Whether two equations or inequalities differ only by a constant factor (positive for inequalities)."""
    (first, op), (second, op2) = _difference(r), _difference(a)
    if op != op2 or free_symbols(first) != free_symbols(second) or not free_symbols(first):
        return False
    factor = fixed_value(Node("div", (first, second)))
    if factor is None:
        return False
    value = value_at(factor, {}, digits_needed(factor), real=False)[0]
    return bool(value != 0 if op in ("=", "!=") else value.real > 0)


def _difference(node: Node) -> tuple[Node, str]:
    (left, right), op = node.args, operators(node)[0]
    if op in (">", ">="):
        left, right, op = right, left, op.replace(">", "<")
    if op not in ("=", "<", "<=", "!=") or {left.kind, right.kind} - EXPRESSIONS:
        raise Unreadable("a relation between things that are not expressions")
    return Node("add", (left, Node("neg", (right,)))), op


def same_line(a: Node, name: str, b: Node, name2: str, *, shift: bool) -> bool:
    """Whether ``a + b k`` and ``c + d n`` take the same values for integer parameters (`shift`), or each.

    The ends of an interval, and the coordinates of a point, move together.
    """
    joint = a.kind == b.kind == "group" and a.value == b.value and len(a.args) == len(b.args)
    pairs = zip(a.args, b.args, strict=True) if joint else [(a, b)]
    steps = {_steps_apart(x, name, y, name2) for x, y in pairs}
    return len(steps) == 1 and None not in steps and (shift or steps == {(0, True)})


def _steps_apart(a: Node, name: str, b: Node, name2: str) -> tuple[int, bool] | None:
    """By how many steps a line is before another, and whether they go the same way; None if they differ."""
    if free_symbols(a) != {name} or free_symbols(b) != {name2}:
        return None
    digits = digits_needed(a, b)
    zero, one, two = (
        [value_at(node, {key: Fraction(k)}, digits, real=True)[0] for node, key in ((a, name), (b, name2))]
        for k in range(3)
    )
    step, step2 = one[0] - zero[0], one[1] - zero[1]
    if step == 0 or not (agree(two[0] - one[0], step, digits) and agree(two[1] - one[1], step2, digits)):
        return None
    steps = (zero[0] - zero[1]) / step
    if not agree(abs(step), abs(step2), digits) or abs(steps - round(steps)) >= 10.0**-30:
        return None
    return round(steps), agree(step, step2, digits)
