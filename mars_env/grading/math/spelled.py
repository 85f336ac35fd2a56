"""Reads numbers, ordinals and dates that are written in words."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import NamedTuple

_SMALL = {
    "zero": 0, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8,
    "nine": 9, "ten": 10, "eleven": 11, "twelve": 12, "thirteen": 13, "fourteen": 14, "fifteen": 15,
    "sixteen": 16, "seventeen": 17, "eighteen": 18, "nineteen": 19,
}  # fmt: skip
_TENS = {
    "twenty": 20, "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "seventy": 70, "eighty": 80,
    "ninety": 90,
}  # fmt: skip
_LARGE = {"thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_PARTS = {
    "half": 2, "third": 3, "quarter": 4, "fourth": 4, "fifth": 5, "sixth": 6, "seventh": 7, "eighth": 8,
    "ninth": 9, "tenth": 10, "twelfth": 12, "hundredth": 100, "thousandth": 1000,
}  # fmt: skip
_PARTS |= {f"{name}s": value for name, value in _PARTS.items()} | {"halves": 2}
_SIGNS = ("minus", "negative")
_NUMBER_WORDS = frozenset((*_SMALL, *_TENS, *_LARGE, *_PARTS, *_SIGNS, "hundred", "and", "dozen"))


def is_number_word(word: str) -> bool:
    """Whether a word (in lower case) may be part of a number in words."""
    return word in _NUMBER_WORDS


def spelled_number(text: str) -> Fraction | None:
    """The number written in words; None if there is none or more than one.

    Args:
        text: Words in lower case, without hyphens and articles.

    Example:
        >>> [str(spelled_number(t)) for t in ("thirty four", "one hundred and five", "minus two thirds")]
        ['34', '105', '-2/3']
        >>> spelled_number("three four") is None
        True
    """
    words = text.split()[:24]
    sign = 1
    if words and words[0] in _SIGNS:
        sign, words = -1, words[1:]
    if words and (below := _PARTS.get(words[-1])) and words[-1] not in ("second", "seconds"):
        top = _whole(words[:-1]) if len(words) > 1 else 1 if words == ["half"] else None
        several = words[-1].endswith("s")  # "one third", but "two thirds"
        return Fraction(sign * top, below) if top and several == (top > 1) else None
    value = _whole(words)
    return None if value is None else Fraction(sign * value)


def _whole(words: list[str]) -> int | None:
    """A whole number: groups below a thousand, each with its scale, in descending order."""
    total, group, scale, place = 0, 0, 10**15, 1000
    said = False  # whether this group has any words
    for k, word in enumerate(words):
        if word == "and":
            if not k or k == len(words) - 1 or words[k - 1] not in ("hundred", *_LARGE):
                return None
        elif word in _LARGE:
            if (not said and k) or _LARGE[word] >= scale:
                return None
            scale = _LARGE[word]
            total, group, place, said = total + (group if said else 1) * scale, 0, 1000, False
        elif word == "hundred":
            if place <= 100 or (said and not 0 < group < 10) or (k and not said):
                return None
            group, place, said = (group or 1) * 100, 100, True
        elif word in _TENS:
            if place < 100 or (said and group % 100):
                return None
            group, place, said = group + _TENS[word], 10, True
        elif word in _SMALL:
            value = _SMALL[word]
            if (place <= 10 and not 0 < value < 10) or place == 1 or (said and group % 100 and place != 10):
                return None
            if value == 0 and len(words) > 1:
                return None
            # only "hundred" or a scale may follow "one": "three four" is not a number
            group, place, said = group + value, 101 if value < 10 and not group else 1, True
        else:
            return None
    return total + group if words and (said or total) else None


_SPELLED = re.compile(
    r"\\(?:text|textbf|textit|textrm|mathrm|mbox)\s*\{\s*(?:an?\s+)?([A-Za-z]+(?:[ -][A-Za-z]+)*)\s*\}\.?"
)


def in_digits(text: str) -> str:
    r"""A number in words or an ordinal, written in digits; any other text unchanged.

    Example:
        >>> in_digits(r"\text{Thirty-four}"), in_digits(r"34^{\text{th}}"), in_digits("34th")
        ('34', '34', '34th')
    """
    if len(text) > 120:
        return text
    if text.startswith("\\") and (match := _SPELLED.fullmatch(text)):
        value = spelled_number(match[1].lower().replace("-", " "))
        if value is None:
            return text
        if value.denominator == 1:
            return str(value.numerator)
        return rf"{'-' * (value < 0)}\frac{{{abs(value.numerator)}}}{{{value.denominator}}}"
    return without_ordinal(text)


_ORDINAL = re.compile(
    r"(\d{1,9})(?:\^\s*\{?\s*(?:\\(?:text|textrm|mathrm|mbox|rm)\s*\{\s*)?|\\(?:text|textrm|mathrm|mbox)\{)"
    r"(st|nd|rd|th)\s*\}{1,2}\.?",
    re.ASCII,
)


def without_ordinal(text: str) -> str:
    r"""An ordinal as its number; other texts unchanged: ``34^{\text{th}}`` becomes 34, ``34^{st}`` stays.

    Example:
        >>> without_ordinal(r"34^{\text{th}}"), without_ordinal("22^{nd}"), without_ordinal("34^{st}")
        ('34', '22', '34^{st}')
    """
    match = _ORDINAL.fullmatch(text) if text.rstrip(".}")[-2:] in ("st", "nd", "rd", "th") else None
    if match is None:
        return text
    digits, suffix = match.groups()
    return digits if suffix == _suffix(int(digits)) else text


def _suffix(value: int) -> str:
    return "th" if 10 <= value % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(value % 10, "th")


_MONTHS = {
    "jan": "uary", "feb": "ruary", "mar": "ch", "apr": "il", "may": "", "jun": "e", "jul": "y", "aug": "ust",
    "sep": "tember", "oct": "ober", "nov": "ember", "dec": "ember",
}  # fmt: skip
_NUMBERS = {name: number for number, name in enumerate(_MONTHS, start=1)}
_MONTH = "|".join(f"{name}(?:{rest})?" for name, rest in _MONTHS.items()) + "|sept"
_DAYS = "mon|tues|wednes|thurs|fri|satur|sun"
_DATE = re.compile(
    rf"(?:(?P<weekday>{_DAYS})day,? )?(?:the )?(?:(?P<month>{_MONTH})\.? (?P<day>\d{{1,2}})(?:st|nd|rd|th)?"
    rf"|(?P<day2>\d{{1,2}})(?:st|nd|rd|th)? (?:of )?(?P<month2>{_MONTH})\.?)"
    r"(?:,? ?(?P<year>\d{4}))?",
    re.ASCII,
)


class Date(NamedTuple):
    """A day; year and weekday are None where they are left out."""

    month: int
    day: int
    year: int | None
    weekday: str | None

    def agrees(self, other: Date) -> bool:
        """Whether another date is this one; it may say more."""
        return (self.month, self.day) == (other.month, other.day) and all(
            mine in (None, its) for mine, its in ((self.year, other.year), (self.weekday, other.weekday))
        )


def date(text: str) -> Date | None:
    """A date with the month in words; None if it is not such a date.

    Example:
        >>> date("July 4th, 1776"), date("13")
        (Date(month=7, day=4, year=1776, weekday=None), None)
        >>> date("March 4").agrees(date("Monday, 4 March"))
        True
    """
    if len(text) > 60:
        return None
    match = _DATE.fullmatch(" ".join(text.lower().replace(",", ", ").split()).replace(" ,", ","))
    if match is None:
        return None
    month = _NUMBERS[(match["month"] or match["month2"])[:3]]
    day, year = int(match["day"] or match["day2"]), int(match["year"]) if match["year"] else None
    return Date(month, day, year, match["weekday"])
