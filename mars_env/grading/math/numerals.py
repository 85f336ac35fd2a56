"""Reads written numbers: with many digits, in other bases, with a repeating part."""

from __future__ import annotations

import re
from fractions import Fraction

from mars_env.grading.math.nodes import Node, OverLimit, Unreadable, number

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
