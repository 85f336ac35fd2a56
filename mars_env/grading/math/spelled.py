"""Reads numbers, ordinals and dates that are written in words."""

from __future__ import annotations

import re
from fractions import Fraction

_SMALL = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
)  # fmt: skip
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_LARGE = {"trillion": 10**12, "billion": 10**9, "million": 10**6, "thousand": 10**3, "hundred": 100}
_VALUES = {name: value for value, name in enumerate(_SMALL)} | {t: 10 * n for n, t in enumerate(_TENS, 2)}
_PARTS = {
    "half": 2, "third": 3, "quarter": 4, "fourth": 4, "fifth": 5, "sixth": 6, "seventh": 7, "eighth": 8,
    "ninth": 9, "tenth": 10, "twelfth": 12, "hundredth": 100, "thousandth": 1000,
}  # fmt: skip
_PARTS |= {f"{name}s": value for name, value in _PARTS.items()} | {"halves": 2}
_IN_FONT = r"\\(?:text|textbf|textit|textrm|mathrm|mbox|rm)\s*\{"
_SPELLED = re.compile(rf"{_IN_FONT}\s*(?:an?\s+)?([A-Za-z]+(?:[ -][A-Za-z]+)*)\s*\}}\.?")
_ORDINAL = re.compile(
    rf"(\d{{1,9}})(?:\^\s*\{{?\s*(?:{_IN_FONT})?|{_IN_FONT})(?:st|nd|rd|th)\s*\}}{{1,2}}\.?", re.ASCII
)


def spelled_number(text: str) -> Fraction | None:
    """The number of some lower-case words, without hyphens and articles; None if they are not one number.

    Example:
        >>> [str(spelled_number(t)) for t in ("one hundred and five", "minus two thirds", "three four")]
        ['105', '-2/3', 'None']
    """
    words = text.split()[:24]
    sign = -1 if words and words[0] in ("minus", "negative") else 1
    words = words[1:] if sign < 0 else words
    if words and (below := _PARTS.get(words[-1])):
        top = _integer(words[:-1]) if len(words) > 1 else 1 if words == ["half"] else None
        several = words[-1].endswith("s")  # "one third", but "two thirds"
        return Fraction(sign * top, below) if top and several == (top > 1) else None
    value = _integer(words)
    return None if value is None else Fraction(sign * value)


def _integer(words: list[str]) -> int | None:
    """The integer whose words these are, with "and" or without it, and perhaps without the first "one"."""
    spoken = [word for word in words if word != "and"]
    if not spoken or "and" in (words[0], words[-1]):
        return None
    total = group = 0
    for word in spoken:
        if word == "hundred":
            group = (group or 1) * 100
        elif word in _LARGE:
            total, group = total + (group or 1) * _LARGE[word], 0
        else:
            group += _VALUES.get(word, 0)
    written = _spelled(total + group) if total + group < 10**15 else []
    return total + group if spoken in (written, written[1:]) else None


def _spelled(value: int) -> list[str]:
    for name, size in _LARGE.items():
        if value >= size:
            return [*_spelled(value // size), name, *(_spelled(value % size) if value % size else ())]
    tens, ones = divmod(value, 10)
    return [_SMALL[value]] if value < 20 else [_TENS[tens - 2], *([_SMALL[ones]] if ones else ())]


def in_digits(text: str) -> str:
    """A number in words or an ordinal, written in digits; any other text unchanged."""
    if len(text) > 120:
        return text
    if match := _SPELLED.fullmatch(text):
        value = spelled_number(match[1].lower().replace("-", " "))
        return text if value is None else str(value)
    ordinal = _ORDINAL.fullmatch(text)
    return ordinal[1] if ordinal else text


_MONTHS = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october",
    "november", "december",
)  # fmt: skip
_MONTH = {short: name[:3] for name in _MONTHS for short in (name, name[:3])}
_NUMBER = re.compile(r"(\d\d?)(?:st|nd|rd|th)?|(\d{4})", re.ASCII)


def date(text: str) -> dict[str, str]:
    """What a date with the month in words says; nothing if it is not such a date."""
    parts = dict[str, str]()
    words = text.lower().replace(",", " ").split() if len(text) <= 60 else []
    for word in (word.strip(".") for word in words if word not in ("the", "of")):
        number = _NUMBER.fullmatch(word)
        kind = (
            "month" if word in _MONTH else "day" if number and number[1] else "year" if number else "weekday"
        )
        if kind in parts or (kind == "weekday" and not word.endswith("day")):
            return {}
        parts[kind] = _MONTH.get(word) or (number and number[1]) or word
    return parts if {"month", "day"} <= parts.keys() else {}
