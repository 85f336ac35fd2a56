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


BASE_WORDS = {
    "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10,
    "eleven": 11, "twelve": 12, "sixteen": 16,
}  # fmt: skip


def integer(digits: str) -> int:
    """A decimal integer."""
    if len(digits) > 4000:
        raise OverLimit("a number has more digits than the limit of 4000")
    if not digits.isdigit() or not digits.isascii():
        raise Unreadable(f"{digits!r} is not an integer")
    return int(digits)


def based(digits: str, base: str) -> Node:
    """A number in another base: its value, and its digits as they are written."""
    radix = int(base) if base.isdigit() and len(base) < 4 else 0
    whole, point, part = digits.partition(".")
    figures = whole + part
    if not 2 <= radix <= 36 or not figures.isalnum() or (point and not part):
        raise Unreadable(f"{digits!r} has an unknown base {base!r}")
    if any(int(digit, 36) >= radix for digit in figures):
        raise Unreadable(f"{digits!r} is not written in base {radix}")
    if len(figures) > 4000:
        raise OverLimit("a number has more digits than the limit of 4000")
    value = 0
    for digit in figures:
        value = value * radix + int(digit, 36)
    written = whole.lstrip("0") or "0"
    if part := part.rstrip("0"):
        written = f"{written}.{part}"
    return Node(
        "based", (number(Fraction(value, radix ** (len(figures) - len(whole)))),), f"{written}_{radix}"
    )


def decimal(digits: str) -> Node:
    """A number, with or without a decimal point."""
    if "." not in digits.rstrip("."):
        return number(integer(digits.rstrip(".")))
    if len(digits) > 4000:
        raise OverLimit("a number has more digits than the limit of 4000")
    return number(Fraction(digits), decimal=True)


def repeating(text: str) -> Node:
    """A decimal number whose last digits repeat forever."""
    whole, _, rest = text.partition(".")
    fixed = re.match(r"\d*", rest).group()  # type: ignore[union-attr]
    period = re.sub(r"\D", "", rest[len(fixed) :].replace(r"\overset{.}", ""))
    if len(text) > 400:
        raise OverLimit("a number has more digits than the limit of 400")
    scale = 10 ** len(fixed)
    value = Fraction(int((whole or "0") + fixed), scale) + Fraction(
        int(period), scale * (10 ** len(period) - 1)
    )
    return number(value)


def choices(size: Node, part: Node) -> Node | None:
    """The binomial coefficient ``C_{10}^{3}``; None for a constant such as ``C_1^2``."""
    if size.kind == "sym" and part.kind in ("num", "sym") and part.value != "T":
        return Node("call", (size, part), "binom")
    if size.kind == part.kind == "num" and 0 <= part.value <= size.value >= 3:  # type: ignore[operator]
        return Node("call", (size, part), "binom")
    return None
