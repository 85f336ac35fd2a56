"""The one test of doubt: a negated, hedged, conditional or quoted statement is no answer."""

import re
from functools import lru_cache

from mars_env.grading.math.vocabulary import BOUND, CONCLUDES, DOUBT, NOT_MINE, OTHER_CASE

_HARMLESS = re.compile(r"不同|约数|\b(?:in|of|and) May\b|\bif and only if\b|\b[Tt]he equation of\b")
_STOP = re.compile(r"[.!?](?=\s)|[\n。！？]")
_CLAUSE_STOP = re.compile(r"[.;!?\n，。；]|(?<!Conjecture):|,(?!\s*that\b)")
_REACH = 200
_QUOTE_SIGNS = (*'"“«「>', "```", "Problem", "PROBLEM", "Question", "QUESTION", "Exercise", "题目")
_MARKS = re.compile(
    r"(?<![^\s(\[,;:])\"(?=[^\s\"])[^\"\n]{1,1000}\"(?![^\W_])|“[^“”]{1,1000}”|«[^«»]{1,1000}»|「[^「」]{1,1000}」"
)
_LINE = r"(?:(?!\b(?:Solution|Proof)\b)[^\n])"
_BLOCKS = re.compile(
    r"^(?:[ \t]{0,3}>[^\n]*(?:\n[ \t]{0,3}>[^\n]*)*"
    r"|```[^\n]*\n(?:(?!```)[^\n]*\n)*```"
    r"|[ \t*#_]*(?:Problem|PROBLEM|Question|QUESTION|Exercise|题目)(?:[ \t]+(?:statement|\d{1,4}))?"
    rf"[ \t*_]*[:.：]{_LINE}*"
    r"(?:\n(?![ \t*#_]*(?:(?:Final[ \t]+)?Answer|ANSWER|Solution|Proof|答案|解)\b)(?!\s*\n)"
    rf"{_LINE}+)*)",
    re.MULTILINE,
)
"""Block quotes, fences, and problem statements."""
_ONLY_BOX = re.compile(r"[\s$*]*\\(?:boxed|fbox)\s*\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}[\s$*.]*\Z")
QUOTED = "\0"
"""Stands for every character of a quotation."""


def doubtful(words: str, *, beside_number: bool = False) -> bool:
    """Whether words around an answer (a sentence without its formulas) say that it may not be the answer.

    With `beside_number`, nothing but these words says what a number is. Then bounds ("at least"), reasons and
    announced work ("we must check") count too.

    Example:
        >>> doubtful("there may not be"), doubtful("it is said that x is"), doubtful("the longer side is")
        (False, True, False)
        >>> doubtful("so there are at least"), doubtful("so there are at least", beside_number=True)
        (False, True)
    """
    words = _HARMLESS.sub(" ", words)
    return bool(DOUBT.search(words) or (beside_number and BOUND.search(words)))


def is_denied(text: str, place: int) -> bool:
    """Whether the clause before a marker denies, supposes or reports the answer that follows."""
    clause = _CLAUSE_STOP.split(text[max(0, place - _REACH) : place])[-1]
    return doubtful(clause) or bool(NOT_MINE.search(clause))


def is_conditional(text: str, place: int, statement: str) -> bool:
    """Whether the sentence before a marker states a condition, not that of the problem, and no conclusion."""
    before = _STOP.split(text[max(0, place - _REACH) : place])[-1]
    case = OTHER_CASE.search(before)
    if case is None or CONCLUDES.search(before):
        return False
    _, _, condition = re.sub(r"[$]", "", before[case.start() :]).partition(",")[0].partition(" ")
    return not condition or "".join(condition.split()) not in re.sub(r"[\s$]", "", statement)


@lru_cache(maxsize=4)  # the stages of one text
def without_quotations(text: str) -> str:
    """A text of the same length with `QUOTED` for what is in quotation marks or another's block.

    If the whole text is one quotation, or a block is at its very end, these are the model's own words.
    """
    if not any(sign in text for sign in _QUOTE_SIGNS):
        return text
    start, end = len(text) - len(text.lstrip()), len(text.rstrip())

    def marked(match: re.Match[str]) -> str:
        whole = match.start() <= start and match.end() >= end
        return match[0] if whole or _ONLY_BOX.match(match[0][1:-1]) else QUOTED * len(match[0])

    def block(match: re.Match[str]) -> str:
        return match[0] if match.end() >= end else QUOTED * len(match[0])

    return _BLOCKS.sub(block, _MARKS.sub(marked, text))
