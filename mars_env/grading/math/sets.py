"""Sets of real numbers; two are equal if they agree where membership may change, and in between."""

import operator
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import mpmath  # type: ignore[import-untyped]

from mars_env.grading.math.evaluate import BASE_DIGITS, agree, digits_needed, free_symbols, value_at
from mars_env.grading.math.exact import Undefined
from mars_env.grading.math.nodes import Node, Unreadable, operators

_FLIP = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "=": "=", "!=": "!="}
_HOLDS: dict[str, Callable[[int, int], bool]] = {
    "<": operator.lt, ">": operator.gt, "<=": operator.le, ">=": operator.ge, "=": operator.eq,
    "!=": operator.ne,
}  # fmt: skip


class Region(NamedTuple):
    """A set of real numbers: where membership may change, and whether a number is in it."""

    ends: tuple[Any, ...]
    holds: Callable[[Any], bool]


def is_infinite(node: Node) -> int:
    """1 for plus infinity, -1 for minus infinity, otherwise 0."""
    if node.kind == "const" and node.value == "inf":
        return 1
    return -is_infinite(node.args[0]) if node.kind == "neg" else 0


def set_like(node: Node) -> bool:
    """Whether a node can only be a set of real numbers (an interval in brackets may be a pair)."""
    if node.kind == "relation":
        return any(op in ("<", ">", "<=", ">=", "!=") for op in node.pair)
    if node.kind == "list":
        return any(map(set_like, node.args))
    if node.kind == "group":
        return len(node.args) == 2 and any(map(is_infinite, node.args))
    return node.kind in ("setop", "builder") or (node.kind == "const" and node.value in ("R", "empty"))


def variable_of(node: Node) -> str | None:
    """The one variable of an inequality; None if it names none."""
    names = free_symbols(node) if node.kind in ("relation", "list", "builder") else ()
    return next(iter(names)) if len(names) == 1 else None


def same_set(r: Node, a: Node) -> bool:
    r"""Whether two nodes are the same set of real numbers; `Unreadable` if one is none, or has variable ends.

    Example:
        >>> from mars_env.grading.math.parser import read_answer
        >>> same_set(read_answer(r"(-\infty,3)"), read_answer("x < 3"))
        True
    """
    first, second = _region(r), _region(a)
    return all(first.holds(x) == second.holds(x) for x in _samples((*first.ends, *second.ends)))


def _samples(ends: Iterable[Any]) -> Iterator[Any]:
    """All ends, and a number between each two of them, before the first and after the last."""
    distinct: list[Any] = []
    for end in sorted(filter(mpmath.isfinite, ends)):
        if not distinct or _order(distinct[-1], end):
            distinct.append(end)
    if not distinct:
        yield mpmath.mpf(0)
        return
    yield distinct[0] - 1
    for left, right in zip(distinct, [*distinct[1:], distinct[-1] + 2], strict=True):
        yield left
        yield (left + right) / 2


def _order(a: Any, b: Any) -> int:
    """-1, 0 or 1: whether a number is below another, the same but for rounding, or above."""
    if a == b or (mpmath.isfinite(a) and mpmath.isfinite(b) and agree(a, b, BASE_DIGITS)):
        return 0
    return -1 if a < b else 1


def _union(*parts: Region) -> Region:
    return Region(sum((p.ends for p in parts), ()), lambda x: any(p.holds(x) for p in parts))


def _intersection(*parts: Region) -> Region:
    return Region(sum((p.ends for p in parts), ()), lambda x: all(p.holds(x) for p in parts))


def _is_empty(region: Region) -> bool:
    return not any(map(region.holds, _samples(region.ends)))


def _end(node: Node) -> Any:
    if sign := is_infinite(node):
        return mpmath.mpf("inf") * sign
    try:
        return value_at(node, {}, digits_needed(node), real=True)[0]
    except Undefined as undefined:
        raise Unreadable("an end of an interval has no value") from undefined


def _region(node: Node) -> Region:
    kind = node.kind
    if kind == "const" and node.value in ("R", "empty"):
        return _intersection() if node.value == "R" else _union()
    if kind == "group" and len(node.args) == 2:
        return _interval(node)
    if kind == "set":
        return _union(*(_compared("=", _end(item)) for item in node.args))
    if kind == "setop":
        return _combined(node.name, *map(_region, node.args))
    if kind == "builder":
        return _built(*node.args)
    if operators(node) == ("in",):
        return _region(node.args[1])
    if kind == "relation":
        steps = zip(node.args, node.pair, node.args[1:], strict=False)
        return _intersection(*(_solved(left, op, right) for left, op, right in steps))
    if kind == "list":
        return _several(node)
    raise Unreadable(f"a {kind} is not a set of real numbers")


def _interval(node: Node) -> Region:
    left, right = node.pair
    low, high = map(_end, node.args)
    if low > high:
        raise Unreadable("the ends of an interval are in the wrong order")
    return _intersection(
        _compared(">=" if left == "[" else ">", low), _compared("<=" if right == "]" else "<", high)
    )


def _combined(operation: str, first: Region, second: Region) -> Region:
    if operation == "setminus":
        return Region(first.ends + second.ends, lambda x: first.holds(x) and not second.holds(x))
    return (_union if operation == "cup" else _intersection)(first, second)


def _built(head: Node, condition: Node) -> Region:
    name, *within = head.args if operators(head) == ("in",) else (head,)
    if name.kind != "sym" or free_symbols(condition) != {name.name}:
        raise Unreadable("a set of things that are not real numbers")
    return _intersection(*map(_region, (*within, condition)))


def _several(node: Node) -> Region:
    kinds = {item.kind for item in node.args}
    if kinds <= {"group", "setop", "set"} and set_like(node):
        regions = list(map(_region, node.args))
        if any(not _is_empty(_intersection(a, b)) for k, a in enumerate(regions) for b in regions[:k]):
            raise Unreadable("intervals that overlap, without a word that joins them")
        return _union(*regions)
    if kinds - {"relation", "list"} or len(set(map(variable_of, node.args))) != 1:
        raise Unreadable("conditions on several variables")
    parts = list(map(_region, node.args))
    common = _intersection(*parts)
    # "x < 1, x > 2" can only mean "or"
    return _union(*parts) if node.value == "or" or (node.value == "comma" and _is_empty(common)) else common


def _compared(op: str, end: Any) -> Region:
    return Region((end,), lambda x: _HOLDS[op](_order(x, end), 0))


def _solved(left: Node, op: str, right: Node) -> Region:
    """The numbers of ``x < 3`` or ``|x - 2| < 3``."""
    if op not in _FLIP:
        raise Unreadable(f"the relation {op} is not an inequality")
    for side, other, way in ((left, right, op), (right, left, _FLIP[op])):
        if free_symbols(other):
            continue
        if side.kind == "sym":
            return _compared(way, _end(other))
        if side.kind == "call" and side.value == "abs":
            above = _solved(side.args[0], way, other)
            below = _solved(side.args[0], _FLIP[way], Node("neg", (other,)))
            return _union(above, below) if way in (">", ">=", "=") else _intersection(above, below)
    raise Unreadable("an inequality that is not solved")
