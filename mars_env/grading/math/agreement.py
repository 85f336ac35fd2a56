"""Whether a value that a text states is the reference, as far as can be seen at once.

It is no verdict (`judge.py`): of several ways to read a text, one that gives the reference is preferred.
"""

import re
from contextlib import suppress
from fractions import Fraction
from functools import lru_cache

from mars_env.grading.math.exact import Undefined, exact_value
from mars_env.grading.math.nodes import Node, OverLimit, operators
from mars_env.grading.math.question import form

_WORDS = re.compile(r"\s*(?:\\text\s*\{)?([A-Za-z][a-z]+(?: [A-Za-z]+){0,3})\}?\s*")
_LENGTH = 400


@lru_cache(maxsize=4096)
def telling(reference: str) -> Node | None:
    """What a reference means, unless chance may repeat it: a small integer, 14.5, a letter, words."""
    node = form(reference) if 0 < len(reference) <= _LENGTH else ""
    if isinstance(node, str):
        return None
    value = _exact(node)
    if isinstance(value, Fraction) and node.kind != "based":
        digits = len(str(abs(value.numerator))) + len(str(value.denominator))
        return node if digits > (4 if value.denominator == 1 else 3) else None
    return None if node.kind in ("sym", "const", "text") else node


def in_words(reference: str) -> str | None:
    r"""The words of a reference that is no formula: ``Tuesday``, ``\text{does not exist}``."""
    words = _WORDS.fullmatch(reference)
    return words[1] if words else None


def is_same(value: str | None, reference: str) -> bool:
    """Whether a value is the reference, as far as can be seen without computing much."""
    if not value or value == reference:
        return value == reference
    mine, theirs = form(value), form(reference)
    if isinstance(mine, str) or isinstance(theirs, str) or mine == theirs:
        return mine == theirs
    sides = list(map(_last_side, (mine, theirs)))
    bare = [node.args[0] if node.kind == "quantity" else node for node in sides]
    return any(one == other or _exact(one) == _exact(other) is not None for one, other in (sides, bare))


def _exact(node: Node) -> Fraction | None:
    with suppress(OverLimit, Undefined):
        return exact_value(node)
    return None


def _last_side(node: Node) -> Node:
    """The last side of a chain of equations, before it is rounded."""
    if not {*operators(node)} or not {*operators(node)} <= {*"=~"}:
        return node
    return node.args[operators(node).index("~") if "~" in operators(node) else -1]


def is_near(value: str, reference: str) -> bool:
    """Whether a decimal is the reference, rounded."""
    _, point, digits = value.rstrip("%\\").partition(".")
    mine, theirs = form(value), form(reference)
    if not point or not digits.isdecimal() or isinstance(mine, str) or isinstance(theirs, str):
        return False
    rounded, exact = _exact(mine), _exact(theirs)
    if rounded is None or exact is None:
        return False
    return 0 < abs(rounded - exact) <= Fraction(1, 2 * 10 ** (len(digits) + 2 * value.endswith("%")))
