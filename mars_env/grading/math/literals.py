"""Numbers as they are written: decimal, in another base, with digits that repeat, times a power of ten."""

import re
from fractions import Fraction

from mars_env.grading.math.nodes import Node, OverLimit, Unreadable, num

_MAX_DIGITS = 4000
_BASE_WORDS = {
    "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10,
    "eleven": 11, "twelve": 12, "sixteen": 16,
}  # fmt: skip


def decimal(digits: str) -> Node:
    """A number, with or without a decimal point."""
    digits = digits.removesuffix(".")
    if len(digits) > _MAX_DIGITS:
        raise OverLimit(f"a number has more digits than the limit of {_MAX_DIGITS}")
    return num(Fraction(digits), decimal="." in digits)


def scientific(text: str) -> Node:
    """``1.5e-7``."""
    mantissa, _, power = text.lower().partition("e")
    if abs(int(power)) > _MAX_DIGITS:
        raise OverLimit("a power of ten is beyond the limit")
    return num(Fraction(mantissa) * Fraction(10) ** int(power), decimal=True)


def repeating(text: str) -> Node:
    r"""``0.1\overline{6}``."""
    if len(text) > 400:
        raise OverLimit("a number has more digits than the limit of 400")
    whole, fixed, rest = re.fullmatch(r"(\d*)\.(\d*)(.*)", text, re.DOTALL).groups()  # type: ignore[union-attr]
    period = re.sub(r"\D", "", rest)
    scale = 10 ** len(fixed)
    value = Fraction(int(period), scale * (10 ** len(period) - 1))
    return num(Fraction(int(whole + fixed or "0"), scale) + value)


def based(digits: str, base: str) -> Node:
    """A number in another base: its value, and its digits as they are written."""
    try:
        radix = _BASE_WORDS.get(base.lower()) or int(base.strip("{}"))
        whole, _, decimals = digits.partition(".")
        value = Fraction(
            int(whole + decimals, radix or 1), radix ** len(decimals)
        )  # to int, 0 means any base
    except ValueError as error:
        raise Unreadable(f"{digits!r} is not written in base {base!r}") from error
    return Node("based", (num(value),), f"{digits.lstrip('0') or '0'}_{radix}")
