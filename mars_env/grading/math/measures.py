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
    if node.kind == "add" and any(child.kind == "quantity" for child in node.args):
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
    return node, None


def letter_unit(node: Node, expected: Unit) -> tuple[Node, Unit | None]:
    """Read ``2m`` when the reference is a length: the letter is the unit."""
    if node.kind == "mul" and node.args[1].kind == "sym" and node.args[0].kind in ("num", "div", "add"):
        try:
            of = unit(node.args[1].name)
        except Unreadable:
            of = None
        if of is not None and of.dimension == expected.dimension:
            return node.args[0], of
    return node, None


def scaled(value: Node, factor: Fraction) -> Node:
    """A value times the factor of its unit."""
    return value if factor == 1 else Node("mul", (value, number(factor)))
