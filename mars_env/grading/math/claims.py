"""The last sentence of a completion, read as an answer to what the problem asks for."""

from __future__ import annotations

import re
from functools import lru_cache

from mars_env.grading.math.asked import after_asked, asked_formulas, questions
from mars_env.grading.math.cues import puts_right
from mars_env.grading.math.labels import unlabelled
from mars_env.grading.math.nodes import words
from mars_env.grading.math.phrases import MATH_SPAN, is_value, leaves_doubt, peel

_LENGTH = 400
_CLAIM = re.compile(
    r"(?:(?:so|thus|hence|therefore|finally),?\s+)?(?:(?:the|its|his|her|their)\s+)?"
    r"(?P<what>[A-Za-z][A-Za-z0-9'’ ,$\\{}^_()+*/-]{1,120}?)\s*"
    r"(?:\b(?P<verb>is|are|was|were|equals)\b(?:\s+(?:therefore|thus|exactly|equal\s+to))?|[:=])[\s:]*(?P<value>\S.*)\Z",
    re.IGNORECASE | re.DOTALL,
)
_CLAUSE = re.compile(r",?\s+(?:and|while|whereas)\s+(?=(?:the|its)\s)", re.IGNORECASE)
_OPENING_SIGN = re.compile(r"\$\s*=")
_CONTRAST = re.compile(r",\s*(?:not|rather than|or (?:about|approximately|roughly))\s[^$]*\Z", re.IGNORECASE)
_MARK = re.compile(r"\$[^$]*\$|\d[\d.,]*\d|\d|(?<![A-Za-z'’])(?!a\b)[A-Za-z](?![A-Za-z])")
"""A formula, a number or a letter among words."""
_ATTAINED = re.compile(r",\s+(?:which is )?(?:attained|achieved|reached|with equality)\b.*\Z", re.IGNORECASE)
_YES_OR_NO = re.compile(r"\b(?:yes or no|true or false)\b", re.IGNORECASE)
_VERDICTS = words("yes no true false")
_PARTS = re.compile(r",(?=[^,=]{1,20}=)")
_RATIO = re.compile(r"(\d[\d.]*) to (\d[\d.]*)")
_COMPUTED = re.compile(r"[\s$(]*[-−]?\s*(?:\\?\$)?[\d\\(√]")
_WORD = re.compile(r"[^\W\d_]+")
_REVOKED = re.compile(r"\b(?:contradict|violat|exceed)", re.IGNORECASE)
_IDLE_WORDS = words("the a an of in for is are its his her their this that these to at on s")
_GENERAL = words("answer value number total it there result solution final")
_ALWAYS_ASKED = words("solution result")
_NEXT = re.compile(r",\s+(?:and|while)\s", re.IGNORECASE)


def claim(statement: str, sentence: str) -> str | None:
    r"""The value that a sentence gives to what the problem asks for; None if it gives none.

    It is a formula whose left side is asked for, or the value of words that a question has in this order.

    Example:
        >>> claim("What is the length of its longer side?", "The longer side is 15.")
        '15'
        >>> claim("Find the center of the circle.", "The center is $(3,-4)$ and the radius is 5.")
        '(3,-4)'
        >>> claim("Find $a_4$.", "$a_3=14$, $a_4=41$."), claim("What is the sum?", "The first term is 12.")
        ('a_4=41', None)
    """
    if len(sentence) > _LENGTH:
        return None
    return _formula(statement, sentence) or _worded(statement, sentence) or _verdict(statement, sentence)


def _verdict(statement: str, sentence: str) -> str | None:
    """The "yes" or "no" with which a sentence begins, if that is what the problem asks for."""
    if not _YES_OR_NO.search(statement[-_LENGTH:]):
        return None
    word = unlabelled(sentence.replace("*", "").rstrip(" ."))
    return word if word.lower() in _VERDICTS else None


def _formula(statement: str, sentence: str) -> str | None:
    """The one formula of a sentence whose left side the problem asks for."""
    asked = asked_formulas(statement)
    if not asked:
        return None
    found = []
    for span in MATH_SPAN.finditer(sentence):
        formula = peel(span.group())
        found += [(span, part.strip()) for part in _PARTS.split(formula) if after_asked(asked, part)]
    if len(found) != 1:
        return None
    span, formula = found[0]
    before = MATH_SPAN.sub(" ", sentence[: span.start()])
    after = _NEXT.split(MATH_SPAN.sub(" 0 ", sentence[span.end() :]))[0]
    doubted = leaves_doubt(before) or leaves_doubt(after) or puts_right(after) or _REVOKED.search(after)
    return None if doubted else formula


def _worded(statement: str, sentence: str) -> str | None:
    asked = _asked_words(statement)
    if not asked:
        return None
    ended = sentence.rstrip(" \t*_")[-1:] in (".", "!")
    sentence = peel(sentence.replace("**", ""))
    hidden = MATH_SPAN.sub(lambda match: "0" * len(match.group()), sentence)
    starts = [0, *(match.end() for match in _CLAUSE.finditer(hidden))]
    ends = [*(match.start() for match in _CLAUSE.finditer(hidden)), len(sentence)]
    said = [
        _clause(statement, sentence[low:high], asked, ended) for low, high in zip(starts, ends, strict=True)
    ]
    values = [value for value in said if value]
    return values[0] if len(values) == 1 else None


def _clause(statement: str, clause: str, asked: tuple[str, ...], ended: bool) -> str | None:
    clause = _ATTAINED.sub("", _CONTRAST.sub("", _OPENING_SIGN.sub("= $", clause)))
    said = _CLAIM.match(clause)
    if said is None or (said["verb"] and not ended):
        return None
    subject = _subject(said["what"])
    if not _in_order(subject, asked) or leaves_doubt(_MARK.sub(" ", said["what"])):
        return None
    if any(
        re.search(rf"(?<!\w){re.escape(mark)}(?!\w)", statement) is None
        for mark in _MARK.findall(said["what"])
    ):
        return None
    value = peel(said["value"])
    if "=" in value and _COMPUTED.match(value):
        last = value.rpartition("=")[2]
        value = peel(f"${last.strip()}" if last.count("$") % 2 else last)
    if ratio := _RATIO.fullmatch(value):
        return f"{ratio[1]}:{ratio[2]}" if {"ratio", "odd"} & set(subject) else None
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
