"""Reads a completion's last sentence as an answer to what the problem asks for."""

from __future__ import annotations

import re
from functools import lru_cache

from mars_env.grading.math.asked import after_asked, asked_formulas, questions
from mars_env.grading.math.doubt import doubtful
from mars_env.grading.math.nodes import words
from mars_env.grading.math.sentences import MATH_SPAN, is_value, undelimited, without_remarks

_LENGTH = 400
_CLAIM = re.compile(
    r"(?:(?:so|thus|hence|therefore|finally),?\s+)?(?:(?:the|its|his|her|their)\s+)?"
    r"(?P<what>[A-Za-z][A-Za-z0-9'’ ,$\\{}^_()+*/-]{1,120}?)\s*"
    r"(?:\b(?P<verb>is|are|was|were|equals)\b(?:\s+(?:therefore|thus|exactly|equal\s+to))?|[:=])[\s:]*(?P<value>\S.*)\Z",
    re.IGNORECASE | re.DOTALL,
)
_CLAUSE = re.compile(r",?\s+(?:and|while|whereas)\s+(?=(?:the|its)\s)", re.IGNORECASE)
_PARTS = re.compile(r",(?=[^,=]{1,20}=)")
_MARK = re.compile(r"\$[^$]*\$|\d[\d.,]*\d|\d|(?<![A-Za-z'’])(?!a\b)[A-Za-z](?![A-Za-z])")
"""A formula, a number or a letter among words."""
_COMPUTED = re.compile(r"[\s$(]*[-−]?\s*(?:\\?\$)?[\d\\(√]")
_WORD = re.compile(r"[^\W\d_]+")
_IDLE_WORDS = words("the a an of in for is are its his her their this that these to at on s")
_GENERAL = words("answer value number total it there result solution final")
_ALWAYS_ASKED = words("solution result")


def claimed(statement: str, sentence: str) -> str | None:
    """The value that a sentence gives to what the problem asks for.

    It is a formula whose left side is asked for, or the value of words that a question has in this order;
    None if there is none.

    Example:
        >>> claimed("What is the length of its longer side?", "The longer side is 15.")
        '15'
        >>> claimed("Find $a_4$.", "$a_3=14$, $a_4=41$."), claimed("What is the sum?", "A term is 12.")
        ('a_4=41', None)
    """
    if len(sentence) > _LENGTH or doubtful(MATH_SPAN.sub(" ", sentence)):
        return None
    formulas = [
        part.strip() for span in MATH_SPAN.findall(sentence) for part in _PARTS.split(undelimited(span))
    ]
    found = [part for part in formulas if after_asked(asked_formulas(statement), part)]
    if len(found) != 1:
        ended = sentence.rstrip(" \t*_")[-1:] in (".", "!")
        clauses = _CLAUSE.split(undelimited(without_remarks(sentence.replace("**", ""))))
        found = [value for one in clauses if (value := _value(statement, one, ended))]
    return found[0] if len(found) == 1 else None


def _value(statement: str, clause: str, ended: bool) -> str | None:
    asked, said = _asked_words(statement), _CLAIM.match(clause)
    if said is None or (said["verb"] and not ended) or not _in_order(_subject(said["what"]), asked):
        return None
    if any(
        not re.search(rf"(?<!\w){re.escape(mark)}(?!\w)", statement) for mark in _MARK.findall(said["what"])
    ):
        return None
    value = undelimited(said["value"])
    if "=" in value and _COMPUTED.match(value):
        last = value.rpartition("=")[2].strip()
        value = undelimited(f"${last}" if last.count("$") % 2 else last)
    return value if is_value(value) else None


def is_unasked(statement: str, sentence: str) -> bool:
    """Whether a sentence is about other words than the problem's questions.

    Example:
        >>> is_unasked("What is the length?", "The perimeter is 15."), is_unasked("How long?", "It is 15.")
        (True, False)
    """
    said, asked = _CLAIM.match(sentence[:_LENGTH]), _asked_words(statement)
    if said is None or not said["verb"] or not asked or not re.search(r"\d", said["value"]):
        return False
    subject = [word for word in _subject(said["what"]) if word not in _GENERAL]
    return bool(subject) and not _in_order(subject, asked)


def _subject(what: str) -> list[str]:
    return [_stem(word) for word in _WORD.findall(_MARK.sub(" ", what.lower())) if word not in _IDLE_WORDS]


def _in_order(subject: list[str], asked: tuple[str, ...]) -> bool:
    """Whether the words of a subject, one at least, are in a question in the same order."""
    rest = iter(asked)
    return bool(subject) and all(word in _ALWAYS_ASKED or word in rest for word in subject)


@lru_cache(maxsize=4096)
def _asked_words(statement: str) -> tuple[str, ...]:
    """The stems of the words in a problem's questions, in their order."""
    text = MATH_SPAN.sub(" ", " ".join(questions(statement))).lower()
    return tuple(_stem(word) for word in _WORD.findall(text))


def _stem(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word
