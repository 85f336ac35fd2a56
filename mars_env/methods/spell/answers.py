"""Short answers: what SPELL's rule and its Verifier read of a Responder, and when two of them are equal."""

import re
import unicodedata
from decimal import Decimal
from typing import Final

from mars_env.grading.thinking import after_thinking
from mars_env.types import Grade, Problem

MOST_ANSWER: Final = 300
"""A longer last line is no short answer, in characters."""

NUMBER: Final = re.compile(r"([-−+]?)[$€£]?\s?(\d{1,30}(?:,\d{3}){0,9}(?:\.\d{1,30})?)\s?%?")
"""One number: a sign, a currency, digits, and per cent."""

_LABEL = re.compile(r"(?:the )?(?:final )?answer(?: is)?[*_ ]*[:：]", re.IGNORECASE)
_LETTER = re.compile(r"^\(([a-z])\)$")
_BEFORE, _AFTER = " \t\r*_`#>\"'", " \t\r*_`\"'.,;!"


def read_answer(text: str) -> str:
    r"""The short answer of a text: the last line with a word after the thinking, without "Answer:".

    Empty if there is none, or if it has more than `MOST_ANSWER` characters.

    Example:
        >>> read_answer("The profit of both years is asked for.\n\n**Answer: 17 million.**")
        '17 million'
        >>> read_answer("1 2 3 4 5 " * 100), read_answer("<think>17")
        ('', '')
    """
    lines = (after_thinking(text) or "").split("\n")
    last = next((line for line in reversed(lines) if any(map(str.isalnum, line))), "")
    last = last.strip(_BEFORE)
    label = _LABEL.match(last)
    answer = last[label.end() if label else 0 :].lstrip(_BEFORE).rstrip(_AFTER)
    return answer if len(answer) <= MOST_ANSWER else ""


def comparable(answer: str) -> Decimal | str:
    """What is compared of a short answer: the value of a number; other texts without case and outer marks.

    Example:
        >>> comparable("$1,204.50") == comparable("1204.5"), comparable("(B)") == comparable("b")
        (True, True)
        >>> comparable("17 or 18") == comparable("17"), comparable("-5") == comparable("5")
        (False, False)
    """
    text = " ".join(unicodedata.normalize("NFKC", answer).casefold().split())
    text = _LETTER.sub(r"\1", text).rstrip("?!. ")
    number = NUMBER.fullmatch(text)
    if number is None:
        return text
    value = Decimal(number[2].replace(",", ""))
    return -value if number[1] in ("-", "−") else value


class SameAnswer:
    r"""CORRECT if the short answer of a text equals the reference; WRONG otherwise.

    The rule of SPELL's paper asks whether the reference occurs in the answer, which a list of all numbers
    passes. Here both are compared as a whole (`comparable`). A right answer in other words is the Verifier's.

    Example:
        >>> from mars_env.sync import run_sync
        >>> problem = Problem("p", "What was the profit?", "17 million", "open")
        >>> texts = ("So it was:\n17 Million.", "It was certainly not 17 million.", "seventeen million")
        >>> [run_sync(SameAnswer().grade(problem, text)).verdict.value for text in texts]
        ['CORRECT', 'WRONG', 'WRONG']
    """

    async def grade(self, problem: Problem, text: str) -> Grade:
        """Judge one text; UNKNOWN if there is no reference."""
        reference = read_answer("" if problem.reference is None else str(problem.reference))
        answer = read_answer(text)
        if not reference:
            return Grade.unknown("there is no reference", backend="same answer")
        if not answer:
            return Grade.wrong("there is no short answer on the last line", backend="same answer")
        if comparable(answer) == comparable(reference):
            return Grade.correct(backend="same answer")
        return Grade.wrong("the answer is another one than the reference", backend="same answer")
