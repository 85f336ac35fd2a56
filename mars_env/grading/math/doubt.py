"""The one test of doubt: a negated, hedged, corrected or alternative statement is no answer."""

from __future__ import annotations

import re

from mars_env.grading.math.vocabulary import (
    BOUND,
    CONCLUDES,
    CORRECTION,
    DOUBT,
    NEGATION,
    NOT_MINE,
    OTHER_CASE,
    RELATIVE,
)

_HARMLESS = re.compile(r"不同|约数|\b(?:in|of|and) May\b|\bif and only if\b")
_STOP = re.compile(r"[.!?](?=\s)|[\n。！？]")
_CLAUSE_STOP = re.compile(r"[.;!?:\n，。；]|,(?!\s*that\b)")
_REACH = 200


def doubtful(words: str, *, beside_number: bool = False) -> bool:
    """Whether words around an answer say that it may not be the answer.

    Args:
        words: The sentence without its formulas.
        beside_number: Nothing but these words says what the number is. Then bounds ("at least"), reasons and
            announced work ("we must check") count too.

    Example:
        >>> doubtful("there may not be"), doubtful("it is said that x is"), doubtful("the longer side is")
        (False, True, False)
        >>> doubtful("so there are at least"), doubtful("so there are at least", beside_number=True)
        (False, True)
    """
    words = _HARMLESS.sub(" ", words)
    return bool(DOUBT.search(words) or NEGATION.search(words) or (beside_number and BOUND.search(words)))


def introduces_another(text: str, place: int) -> bool:
    """Whether the clause before a marker denies, supposes or reports the answer that follows."""
    clause = _CLAUSE_STOP.split(text[max(0, place - _REACH) : place])[-1]
    return doubtful(clause) or bool(NOT_MINE.search(clause))


def of_another_case(text: str, place: int) -> bool:
    """Whether the sentence before a marker states a condition, or another form, and draws no conclusion.

    Example:
        >>> says = "Check: for n = 1, ", "So for n = 1, ", "If repetition were allowed, ", "If we add up, "
        >>> [of_another_case(lead + "the answer is 3", len(lead) + 4) for lead in says]
        [True, False, True, False]
    """
    before = _STOP.split(text[max(0, place - _REACH) : place])[-1]
    return bool(OTHER_CASE.search(before)) and not CONCLUDES.search(before)


def corrects(text: str) -> bool:
    """Whether a text says that what came before it was wrong."""
    return bool(CORRECTION.search(text))


def is_relative(before: str) -> bool:
    """Whether the words before a number say that it is not the value itself: "a multiple of".

    Example:
        >>> is_relative("So n is a multiple of "), is_relative("So there is a total of ")
        (True, False)
    """
    return bool(RELATIVE.search(before))
