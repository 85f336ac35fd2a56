"""What a problem and the words after a box say about an answer."""

from __future__ import annotations

import re

from mars_env.grading.math.nodes import OverLimit, Unreadable
from mars_env.grading.math.notation import read

_LENGTH = 400
"""Longest answer, in characters, that is looked at."""
_ASKED = re.compile(
    r"\b(?:find|compute|evaluate|determine|calculate|what\s+is)\s+(?:the\s+(?:exact\s+)?value\s+of\s+)?"
    r"(?:\$([^$]{1,200})\$|\\\((.{1,200}?)\\\))\s*(?:[.?,;]|\Z)",
    re.IGNORECASE,
)
_ARBITRARY = re.compile(
    r"[\s$*)\]}\\.,;]{0,12}(?:where|with|here)\s+(?:\$|\\\()?\s*([A-Za-z])\s*(?:\$|\\\))?\s+is\s+(?:an?\s+)?"
    r"(?:arbitrary|any|free)\s+(?:real\s+)?(?:constant|number)\s*(?:\.|\n|\Z)",
    re.IGNORECASE,
)


def asked_value(statement: str, answer: str) -> str:
    r"""The right side of an equation whose left side is what the problem asks for; otherwise the answer.

    Example:
        >>> asked_value(r"Find $x^4+\frac{1}{x^4}$.", r"x^4+\frac1{x^4}=47")
        '47'
        >>> asked_value("Find $x$.", "2x=10")
        '2x=10'
    """
    left, sign, right = answer.partition("=")
    if not sign or len(answer) > _LENGTH or not right.strip():
        return answer
    for match in _ASKED.finditer(statement):
        try:
            if read(match[1] or match[2]) == read(left):
                return right.strip()
        except (Unreadable, OverLimit, RecursionError):
            continue
    return answer


def with_its_constant(text: str, answer: str, reference: str) -> str:
    r"""The answer, with a name that the words after it call arbitrary, unless the reference has that name.

    Example:
        >>> with_its_constant(r"\boxed{y=A\,x}$, where $A$ is an arbitrary constant.", r"y=A\,x", "y = Cx")
        'y=A\\,x,\\ A\\in\\mathbb{R}'
    """
    place = text.rfind(answer)
    said = _ARBITRARY.match(text, place + len(answer)) if place >= 0 else None
    if said is None or said[1] in reference or not re.search(rf"(?<![\\A-Za-z]){said[1]}", answer):
        return answer
    return rf"{answer},\ {said[1]}\in\mathbb{{R}}"
