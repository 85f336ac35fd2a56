r"""Reads integers as written in answers: the fast path of grading.

One regular expression reads plain notations only; everything that needs
arithmetic goes to the parser (`notation.py`) and the bounded evaluator (`exact.py`).
"""

from __future__ import annotations

import re

from mars_env.grading.math.characters import as_ascii

MAX_DIGITS = 4000
"""Longer integers are refused (Python itself refuses to convert beyond 4,300 digits)."""

_WRAPPER = re.compile(
    r"\\(?:text|textbf|textit|textrm|mathrm|mathbf|mathit|boldsymbol|bm|mbox|boxed|fbox|displaystyle)\b\s*"
)
_SPACING = re.compile(r"\\[,!;:> ]|\\q?quad\b|\\(?:left|right)\b|~|\s|\$|\{|\}|\\\(|\\\)")
_SEPARATORS = re.compile(r"(?<=[0-9])(?:\{\s*,\s*\}|,\\!|\\[,;:!]|,)\s*(?=[0-9]{3}(?![0-9]))")
_PLAIN = re.compile(r"[+-]?\d{1,4000}(?:\.0*)?\Z", re.ASCII)
_GROUPED = re.compile(r"[+-]?[1-9]\d{0,2}(?:(?:\{\s*,\s*\}|,\\!|\\[,;:!]|,)\d{3})+(?:\.0*)?\Z", re.ASCII)


def read_integer(text: str) -> int | None:
    r"""The integer that a text writes in plain notation, or None.

    Leading zeros, a sign, thousands separators, a decimal part of zeros, dollar signs and font
    commands do not matter. Anything else (two numbers, words, per cent) is not an integer here.

    Example:
        >>> [read_integer(t) for t in ("025", "1{,}024", r"\text{25}", "$25$", "25.0", "-7", "25.")]
        [25, 1024, 25, 25, 25, -7, 25]
        >>> [read_integer(t) for t in ("25 or 26", r"2500\%", "25.3", "2 5", "1,02", "")]
        [None, None, None, None, None, None]
    """
    text = text.strip()
    if len(text) > 2 * MAX_DIGITS:
        return None
    if _PLAIN.match(text):
        return int(text.partition(".")[0])
    text = as_ascii(text).replace("−", "-").strip("$ ")
    if _PLAIN.match(text):
        return int(text.partition(".")[0])
    text = _WRAPPER.sub("", text)
    if _GROUPED.match(text):
        text = _SEPARATORS.sub("", text)
    else:
        text = text.replace("{,}", ",")
        peeled = _SPACING.sub(" ", text).strip()
        text = re.sub(r"^([+-]) +", r"\1", peeled)
        if _GROUPED.match(text):
            text = _SEPARATORS.sub("", text)
    return int(text.partition(".")[0]) if _PLAIN.match(text) else None
