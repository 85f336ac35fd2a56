"""The tree of a parsed answer, and the errors when there is none."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction


def words(text: str) -> frozenset[str]:
    """The words of a text as a set; the tables here are written this way."""
    return frozenset(text.split())


class Unreadable(ValueError):
    """The text is not in the grammar."""


class OverLimit(ValueError):
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
        args: Children.
        value: Its meaning depends on the kind, as above.
        decimal: Whether a number was written with a decimal point.
    """

    kind: str
    args: tuple[Node, ...] = ()
    value: Fraction | str | tuple[str, ...] | None = None
    decimal: bool = False

    def walk(self) -> Iterator[Node]:
        """The node itself and everything below it."""
        stack = [self]
        while stack:
            node = stack.pop()
            yield node
            stack.extend(node.args)

    @property
    def pair(self) -> tuple[str, ...]:
        """The value of a node whose value consists of several texts: brackets, operators, a time."""
        assert isinstance(self.value, tuple)
        return self.value

    @property
    def name(self) -> str:
        """The value of a node whose value is a text."""
        assert isinstance(self.value, str)
        return self.value


def number(value: Fraction | int, *, decimal: bool = False) -> Node:
    """A number as a node."""
    return Node("num", value=Fraction(value), decimal=decimal)


EXPRESSIONS = words("num based sym const add mul div neg pow call sum prod")
"""Kinds of nodes that represent a number."""


def operators(node: Node) -> tuple[str, ...]:
    """The operators of a relation; none for other nodes."""
    return node.pair if node.kind == "relation" else ()


def substitute(node: Node, old: Node, new: Node) -> Node:
    """The node with every occurrence of one part replaced."""
    if node == old:
        return new
    if not node.args:
        return node
    return Node(
        node.kind, tuple(substitute(child, old, new) for child in node.args), node.value, node.decimal
    )


def with_sign(sign: str, node: Node) -> Node:
    """A node with its sign."""
    if sign == "+":
        return node
    return Node({"-": "neg", r"\pm": "pm", r"\mp": "mp"}[sign], (node,))


def with_index(body: Node, index: Node) -> Node:
    """The body of a sum, with ``a_k`` as a function of its index ``k``.

    Raises:
        Unreadable: A name's index contains the sum's, as in ``a_{k+1}``.
    """
    for part in [part for part in body.walk() if part.kind == "sym" and "_" in part.name]:
        name, _, below = part.name.partition("_")
        if below == index.name:
            body = substitute(body, part, Node("call", (index,), name))
        elif re.search(rf"(?<![a-zA-Z]){re.escape(index.name)}(?![a-zA-Z])", below):
            raise Unreadable("an index inside an index")
    return body


def subscript(node: Node) -> str:
    """A subscript as a text, for a symbol's name."""
    if node.kind == "num":
        return str(node.value)
    if node.kind in ("sym", "const", "text"):
        return node.name
    return f"{node.kind}{node.value or ''}({','.join(subscript(child) for child in node.args)})"
