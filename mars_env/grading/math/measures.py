"""Separates numbers from their units."""

from __future__ import annotations

from fractions import Fraction

from mars_env.grading.math.nodes import Node, Unreadable, number
from mars_env.grading.math.units import Unit, unit

PERCENT = frozenset(
    (
        "percent",
        "pct",
        "per cent",
        "percents",
        "percentage",
        "percentage point",
        "percentage points",
        "prozent",
    )
)
"""Words for per cent."""
_SPANS = ({(("time", 1),)}, {(("calendar", 1),)})


def measure(node: Node) -> tuple[Node, Unit | str | None]:
    """A number and its unit: a `Unit`, a mark such as ``"%"`` or ``"deg"``, or None for no unit.

    Raises:
        Unreadable: The words next to the number are not a unit.
    """
    if node.kind == "neg":
        value, of = measure(node.args[0])
        return Node("neg", (value,)), of
    if node.kind == "quantity":
        inner, name = node.args[0], node.name
        if inner.kind == "quantity":
            value, of = measure(inner)
            following = unit(name)
            if isinstance(of, Unit) and following is not None and of.dimension == following.dimension:
                return value, of  # "$25 dollars"
            if isinstance(of, Unit) and following is not None and not following.dimension:
                return scaled(value, following.factor), of  # "$5 million"
            raise Unreadable("a number has two units")
        if name in ("%", "deg", "degC", "degF"):
            return inner, name
        if name in ("degree", "degrees"):
            return inner, "deg"
        if name in PERCENT:
            return inner, "%"
        return inner, unit(name)
    if node.kind == "add" and any(map(_has_unit, node.args)):
        parts = [measure(child) for child in node.args]
        units = [of for _, of in parts]
        if (
            all(isinstance(of, Unit) for of in units)
            and len({of.dimension for of in units if isinstance(of, Unit)}) == 1
        ):
            terms = tuple(scaled(value, of.factor) for value, of in parts if isinstance(of, Unit))
            first = units[0]
            assert isinstance(first, Unit)
            return Node("add", terms), Unit(Fraction(1), first.dimension)
        if isinstance(units[-1], Unit) and units[-1].dimension and not any(units[:-1]):
            return Node("add", tuple(value for value, _ in parts)), units[-1]  # "2 + sqrt(3) cm"
    return node, None


def _has_unit(term: Node) -> bool:
    return (term.args[0] if term.kind == "neg" else term).kind == "quantity"


def letter_unit(node: Node, expected: Unit) -> tuple[Node, Unit | None]:
    """Read ``2m`` or ``9.8 m/s^2`` when the other side has a unit: the letters are units, if these fit."""
    values, letters = list[Node](), list[str]()
    if _split(node, 1, values, letters) and len(values) == 1 and letters:
        try:
            of = unit(" ".join(letters))
        except Unreadable:
            of = None
        if of is not None and of.dimension == expected.dimension:
            return values[0], of
    return node, None


def _split(node: Node, power: int, values: list[Node], letters: list[str]) -> bool:
    """Collect the factors of a product: values, and letters with their powers; False if there are others."""
    if node.kind == "sym":
        letters.append(node.name if power == 1 else f"{node.name}^{power}")
        return True
    if node.kind == "quantity" and "/" not in node.name and "^" not in node.name:
        letters.append(node.name if power == 1 else f"{node.name}^{power}")
        return _split(node.args[0], power, values, letters)
    if node.kind == "pow" and node.args[0].kind == "sym" and node.args[1].kind == "num":
        exponent = node.args[1].value
        return exponent in (2, 3) and _split(node.args[0], power * int(exponent), values, letters)
    if node.kind in ("mul", "div") and any(child.kind in ("sym", "quantity") for child in node.walk()):
        top, bottom = node.args
        sign = -1 if node.kind == "div" else 1
        return _split(top, power, values, letters) and _split(bottom, sign * power, values, letters)
    values.append(node)
    return power == 1 and all(child.kind != "sym" for child in node.walk())


def time_span(node: Node) -> Node:
    """``5 hours and 30 minutes`` as a sum; any other list unchanged."""
    if node.kind == "list" and node.value == "and" and all(item.kind == "quantity" for item in node.args):
        units = [of for item in node.args if (of := unit(item.name)) is not None]
        factors = [of.factor for of in units]
        spans = len(units) == len(node.args) and {of.dimension for of in units} in _SPANS
        if spans and factors == sorted(set(factors), reverse=True):
            return Node("add", node.args)
    return node


def scaled(value: Node, factor: Fraction) -> Node:
    """A value times the factor of its unit."""
    return value if factor == 1 else Node("mul", (value, number(factor)))
