"""Cover exact match: whether the reference occurs in an answer, word by word."""

import re
import unicodedata

from mars_env.grading.thinking import UNCLOSED_THINKING, after_thinking
from mars_env.types import Grade, Problem

_UNSPACED = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
"""Chinese and Japanese characters; no spaces stand between words of these, so each is a word here."""
_WORDS = re.compile(
    rf"(?:(?<![\w)\]}}%\-−–—])[-−][$€£]?)?\d+(?:[.,]\d+)*|[{_UNSPACED}]|(?:(?![{_UNSPACED}])[^\W\d_])+"
)
_SIGN = re.compile(r"[-−][$€£]?|,")
_CHOICE = re.compile(rf"(?:(?<!\w)|(?<=[{_UNSPACED}]))[A-Z](?:(?!\w)|(?=[{_UNSPACED}]))")
_PRONOUN = re.compile(r"\bI\b(?=[’'][a-z]|[ \t]+(?!is\b)[a-z])")
_ARTICLE = re.compile(
    r"(\A|\n|[.!?][*\"”)]*\s)[ \t]*A"
    r"(?=[ \t]+(?!(?:is|was|and|or|because|since|as|must|would|seems|fits|follows)\b)[a-z])"
)


def words_of(text: str) -> list[str]:
    """The words and numbers of a text: no case, no punctuation, numbers with their minus and without commas.

    Example:
        >>> words_of("The net profit was $1,204.50, in all.")
        ['the', 'net', 'profit', 'was', '1204.50', 'in', 'all']
        >>> words_of("-$5 in 2019-2020")
        ['-5', 'in', '2019', '2020']
    """
    found = _WORDS.findall(unicodedata.normalize("NFKC", text).casefold())
    return [_SIGN.sub(lambda sign: "" if sign[0] == "," else "-", word) for word in found]


class CoverMatch:
    """CORRECT if the reference's words occur in the answer, one after the other.

    Thinking is not read. A reference of one capital letter, also ``(A)``, is a choice and must be the last
    letter that stands alone in the answer; the words of "I am" and "A check confirms" are not choices.

    The rule of SPELL (arXiv 2509.23863), except for thinking and these words. It is generous to long answers,
    and misses a right answer in other words; SPELL's verifier is there for those.

    Example:
        >>> from mars_env.sync import run_sync
        >>> problem = Problem("p", "What was the profit?", "17 million", "open")
        >>> texts = ("It was 17 million euros.", "It was 117 million.", "seventeen million")
        >>> [run_sync(CoverMatch().grade(problem, text)).verdict.value for text in texts]
        ['CORRECT', 'WRONG', 'WRONG']
    """

    async def grade(self, problem: Problem, text: str) -> Grade:
        """Judge one text; UNKNOWN if the reference has no words."""
        answered = after_thinking(text)
        if answered is None:
            return Grade.wrong(UNCLOSED_THINKING, backend="cover")
        expected = "" if problem.reference is None else str(problem.reference).strip()
        if _CHOICE.fullmatch(letter := expected.strip(" ().")):
            chosen = _CHOICE.findall(_ARTICLE.sub(r"\1", _PRONOUN.sub("", answered)))
            if chosen and chosen[-1] == letter:
                return Grade.correct(backend="cover")
            return Grade.wrong("another choice, or none", backend="cover")
        reference, answer = words_of(expected), words_of(answered)
        if not reference:
            return Grade.unknown("the reference has no words", backend="cover")
        size = len(reference)
        if any(answer[i : i + size] == reference for i in range(len(answer) - size + 1)):
            return Grade.correct(backend="cover")
        return Grade.wrong("the reference does not occur in the answer", backend="cover")
