r"""Finds what a model only quotes in a completion.

Everything here takes linear time in the length of the text.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import cached_property

_QUOTE_SIGNS = (
    '"',
    "“",
    "«",
    "「",
    "```",
    ">",
    "Problem",
    "PROBLEM",
    "Question",
    "QUESTION",
    "Exercise",
    "题目",
)
_MARKS = re.compile(
    r"(?<![^\s(\[,;:])\"(?=[^\s\"])[^\"\n]{1,1000}\"(?![^\W_])|“[^“”]{1,1000}”|«[^«»]{1,1000}»|「[^「」]{1,1000}」"
)
_BLOCK = re.compile(r"^[ \t]{0,3}>[^\n]*(?:\n[ \t]{0,3}>[^\n]*)*", re.MULTILINE)
_FENCE = re.compile(r"^```[^\n]*\n(?:(?!```)[^\n]*\n)*```", re.MULTILINE)
_TOLD = r"(?:(?!\b(?:Solution|Proof)\b)[^\n])"
_STATEMENT = re.compile(
    r"^[ \t*#_]*(?:Problem|PROBLEM|Question|QUESTION|Exercise|题目)(?:[ \t]+(?:statement|\d{1,4}))?"
    rf"[ \t*_]*[:.：]{_TOLD}*"
    r"(?:\n(?![ \t*#_]*(?:(?:Final[ \t]+)?Answer|ANSWER|Solution|Proof|答案|解)\b)(?!\s*\n)"
    rf"{_TOLD}+)*",
    re.MULTILINE,
)
_BOX_ALONE = re.compile(r"[\s$*]*\\(?:boxed|fbox)\s*\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}[\s$*.]*\Z")


class Quotations:
    """The quoted positions of a text: in quotation marks, block quotes, fences, problem statements.

    If the whole text is one quotation, or a block is at its very end, these are the model's own words.

    Example:
        >>> text = 'The hint says "the answer is 25". I doubt it.'
        >>> text.index("answer") in Quotations(text), text.index("doubt") in Quotations(text)
        (True, False)
    """

    def __init__(self, text: str) -> None:
        self._text = text

    def __contains__(self, place: object) -> bool:
        assert isinstance(place, int)
        starts, ends = self._spans
        before = bisect_right(starts, place) - 1
        return before >= 0 and place < ends[before]

    @cached_property
    def _spans(self) -> tuple[list[int], list[int]]:
        text, found = self._text, list[tuple[int, int]]()
        if any(sign in text for sign in _QUOTE_SIGNS):
            start, end = len(text) - len(text.lstrip()), len(text.rstrip())
            for match in _MARKS.finditer(text):
                whole = match.start() <= start and match.end() >= end
                if not whole and not _BOX_ALONE.match(match.group()[1:-1]):
                    found.append(match.span())
            for pattern in (_BLOCK, _FENCE, _STATEMENT):
                found += [match.span() for match in pattern.finditer(text) if match.end() < end]
        starts, ends = list[int](), list[int]()
        for start, end in sorted(found):
            if ends and start < ends[-1]:
                ends[-1] = max(ends[-1], end)
            else:
                starts.append(start)
                ends.append(end)
        return starts, ends
