"""The tree of a parsed answer, and the errors when there is none."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction


def word_set(text: str) -> frozenset[str]:
    """The words of a string as a set."""
    return frozenset(text.split())


class Unreadable(ValueError):
    """The text is not in the grammar."""


class OverLimit(OverflowError):
    """The text, or a value in it, is larger than the limits allow."""


@dataclass(frozen=True, slots=True)
class Node:
    """One node of a parsed answer.

    Attributes:
        kind: ``num`` (value: Fraction), ``based`` (value: digits and base, as ``202_7``; its child is its
            value), ``sym`` and ``const`` (name), ``add`` (value: "mixed" for ``2 1/2``), ``mul``, ``div``,
            ``pow``, ``neg``, ``pm`` and ``mp`` (a sign that is both), ``call`` (value: name), ``list``
            (value: "comma", "and" or "or"), ``set``, ``group`` (value: its two brackets), ``relation``
            (value: operators), ``setop`` (value: operator), ``builder``, ``ratio``, ``matrix`` (args are
            ``row``), ``quantity`` (value: unit), ``time``, ``mod``, ``text``, ``dots``, ``approx``, ``where``
            (an answer and its condition), ``sum`` and ``prod``.
        decimal: Whether a number was written with a decimal point.
    """

    kind: str
    args: "tuple[Node, ...]" = ()
    value: Fraction | str | tuple[str, ...] | None = None
    decimal: bool = False

    def walk(self) -> "Iterator[Node]":
        """The node itself and everything below it."""
        stack = [self]
        while stack:
            node = stack.pop()
            yield node
            stack.extend(node.args)

    @property
    def pair(self) -> tuple[str, ...]:
        """The value of a node whose value is several strings: brackets, operators, a time."""
        assert isinstance(self.value, tuple)
        return self.value

    @property
    def name(self) -> str:
        """The value of a node whose value is a string."""
        assert isinstance(self.value, str)
        return self.value


def num(value: Fraction | int, *, decimal: bool = False) -> Node:
    """A number as a node."""
    return Node("num", value=Fraction(value), decimal=decimal)


TRIGONOMETRY = word_set(
    "sin cos tan cot sec csc arcsin arccos arctan arccot arcsec arccsc sinh cosh tanh coth"
)
EXPRESSIONS = word_set("num based sym const add mul div neg pow call sum prod")


def operators(node: Node) -> tuple[str, ...]:
    """The operators of a relation; none for other nodes."""
    return node.pair if node.kind == "relation" else ()


def substitute(node: Node, old: Node, new: Node) -> Node:
    """The node with every occurrence of one part replaced."""
    if node == old:
        return new
    return replace(node, args=tuple(substitute(child, old, new) for child in node.args))
