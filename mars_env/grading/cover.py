"""Cover exact match: whether the reference occurs in an answer, word by word."""

from __future__ import annotations

import re
import unicodedata

from mars_env.types import Grade, Problem

_WORDS = re.compile(r"\d+(?:[.,]\d+)*|[^\W\d_]+")
_CHOICE = re.compile(r"\b[A-Z]\b")


def words_of(text: str) -> list[str]:
    """The words and numbers of a text: no case, no punctuation, numbers without commas.

    Example:
        >>> words_of("The net profit was $1,204.50, in all.")
        ['the', 'net', 'profit', 'was', '1204.50', 'in', 'all']
    """
    found = _WORDS.findall(unicodedata.normalize("NFKC", text).casefold())
    return [word.replace(",", "") for word in found]


class CoverMatch:
    """CORRECT if the reference's words occur in the answer, one after the other.

    A reference of one capital letter, a choice, must be the last letter that stands alone in the answer.

    The rule of SPELL (arXiv 2509.23863). It is generous to long answers, and misses a right answer in other
    words; SPELL's verifier is there for those.

    Example:
        >>> from mars_env.sync import run_sync
        >>> problem = Problem("p", "What was the profit?", "17 million", "open")
        >>> texts = ("It was 17 million euros.", "It was 117 million.", "seventeen million")
        >>> [run_sync(CoverMatch().grade(problem, text)).verdict.value for text in texts]
        ['CORRECT', 'WRONG', 'WRONG']
    """

    async def grade(self, problem: Problem, text: str) -> Grade:
        """Judge one text; UNKNOWN if the reference has no words."""
        expected = str(problem.reference or "").strip()
        if _CHOICE.fullmatch(expected):
            chosen = _CHOICE.findall(text)
            if chosen and chosen[-1] == expected:
                return Grade.correct(backend="cover")
            return Grade.wrong("another choice, or none", backend="cover")
        reference, answer = words_of(expected), words_of(text)
        if not reference:
            return Grade.unknown("the reference has no words", backend="cover")
        size = len(reference)
        if any(answer[i : i + size] == reference for i in range(len(answer) - size + 1)):
            return Grade.correct(backend="cover")
        return Grade.wrong("the reference does not occur in the answer", backend="cover")
