r"""Reads the end of a text that does not say what its last value is, where chance cannot have put it there.

A last sentence may name its value in words that no rule foresees. A small integer needs such words, bold type
or its computation, since a text has many. An interval, a formula or 54.25 at the very end needs none, if it
equals the reference.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache

from mars_env.grading.math.asked import alike, unshared
from mars_env.grading.math.doubt import QUOTED, doubtful, without_quotations
from mars_env.grading.math.exact import Undefined, exact_value
from mars_env.grading.math.nodes import Node, OverLimit, Unreadable
from mars_env.grading.math.parser import read_answer
from mars_env.grading.math.question import given
from mars_env.grading.math.sentences import (
    BOLD,
    MATH_SPAN,
    hidden,
    is_value,
    last_line,
    last_sentence,
    undelimited,
    without_remarks,
)
from mars_env.grading.math.units import known_unit
from mars_env.grading.math.vocabulary import CONCLUSION

_LENGTH = 400
_TEXT = re.compile(r"\s*(?:\\text\s*\{)?([A-Za-z][a-z]+(?: [a-z]+){0,3})\}?\s*")
_PREDICATE = r"\b(?:is|are|be|has|have|on)\b(?: an?)? "
_BREAK = re.compile(r"(?:[:;,—]|\b[A-Za-z]{2,})\s+(?=\S)|[\u4e00-\u9fff，：；]+(?=\S)")
_COMPUTED = re.compile(r"\d\)?\s*(?:[-+*/×÷·−^!]|\\(?:cdot|times|div)|\()|\\[dt]?frac|\\sqrt|√")
_EQUALITY = re.compile(r"(?:(?<![<>=!≤≥])=(?!=)|≈|\\approx|\\equiv|≡)\s*")
_MORE = re.compile(r"[\d$,，]")
_CLAUSE = re.compile(r"[,;，；]\s*(?=\S)")
_WORDS_AFTER = re.compile(r"(?<=[\d%$)])(?: (?!(?:and|or|but)\b)[A-Za-z]{2,}){1,6}\Z")
_MEASURE = re.compile(
    r"\b(?:areas?|volumes?|perimeters?|circumferences?|angles?|probabilit(?:y|ies)|radi(?:us|i)|diameters?|slopes?"
    r"|lengths?|distances?|averages?|means?|medians?)\b",
    re.IGNORECASE,
)


def last_value(text: str, statement: str, reference: str) -> str | None:
    r"""The value at the end of a text: in bold, of a kind that chance does not repeat, or just computed.

    Example:
        >>> last_value("Cancelling $x-2$ leaves $x^2+2x+4$.", "Simplify.", "x^2+2x+4")
        'x^2+2x+4'
        >>> asked = "How many are left?"
        >>> last_value("That leaves 4.", asked, "4"), last_value("There are 7 - 3 = 4 left.", asked, "4")
        (None, '4')
    """
    if len(reference) > _LENGTH or without_quotations(text).endswith(QUOTED):
        return None
    whole = without_remarks(last_sentence(last_line(text)[-4000:]))
    sentence = whole.rstrip(" .!。*_")
    around = unshared(MATH_SPAN.sub(" ", sentence), statement)
    clause = _CLAUSE.split(around)[-1]
    if len(sentence) > _LENGTH or doubtful(around) or doubtful(clause, beside_number=True):
        return None
    if set(_MEASURE.findall(clause.lower())) - set(_MEASURE.findall(statement.lower())):
        return None
    bold = BOLD.findall(whole)
    if len(bold) == 1 and not _MORE.search(whole.rpartition("**")[2]):
        return undelimited(bold[0])
    if words := _TEXT.fullmatch(reference):
        said = re.search(rf"{_PREDICATE}{re.escape(words[1])}(?: [a-z]+)?\Z", sentence, re.IGNORECASE)
        new = words[1].lower() not in statement.lower()  # "odd or even?" has both
        return words[1] if said and (new or CONCLUSION.match(sentence)) else None
    theirs = _telling(reference)
    if theirs is not None and theirs in given(statement):
        return None
    sentence = _WORDS_AFTER.sub(_unit, re.sub(r"(?<=\d) ?percent\b", "%", sentence))
    spans = MATH_SPAN.findall(sentence)
    if spans and sentence.endswith(spans[-1]):
        found = undelimited(spans[-1])
    else:
        starts = [stop.end() for stop in _BREAK.finditer(hidden(sentence))]
        found = next(filter(_balanced, (sentence[start:] for start in reversed([0, *starts]))), "")
        if theirs is not None and theirs.kind == "list":
            return None  # "2,3" is also a decimal
    sides = _EQUALITY.split(found)
    if theirs is None and not (len(sides) > 1 and _COMPUTED.search(sides[-2]) and alike(statement, whole)):
        return None
    value = "=".join(sides[-2:]) if theirs is not None and theirs.kind == "relation" else sides[-1]
    return value if is_value(undelimited(value)) else None


def _unit(words: re.Match[str]) -> str:
    """The first of the words after a number, if it is a unit of measurement."""
    first = words[0].split()[0]
    return f" {first}" if known_unit(first) else ""


def _balanced(text: str) -> bool:
    return all(text.count(left) == text.count(right) for left, right in ("()", "[]", "{}"))


@lru_cache(maxsize=4096)
def _telling(reference: str) -> Node | None:
    """What a reference means, unless chance may repeat it: a small integer, 14.5, a letter, words."""
    try:
        node = read_answer(reference)
        value = exact_value(node)
    except (Unreadable, OverLimit, Undefined, RecursionError):
        return None
    if isinstance(value, Fraction):
        digits = len(str(abs(value.numerator))) + len(str(value.denominator))
        return node if digits > (4 if value.denominator == 1 else 3) else None
    return None if node.kind in ("sym", "const", "text") else node
