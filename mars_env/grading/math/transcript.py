r"""Separates what a model itself says in a completion from what it only quotes.

Everything here takes linear time in the length of the text.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import cached_property

_NAMES = (
    "im_start|im_end|endoftext|end_of_text|eot_id|eom_id|eot|end|return|call|start|start_header_id|user|system"
    "|assistant|begin_of_text|endofprompt|END_OF_TURN_TOKEN|START_OF_TURN_TOKEN"
)
_CONTROL = re.compile(
    rf"<\|(?:{_NAMES})\|>|</s>|<eos>|<end_of_turn>|<start_of_turn>|\[/?INST\]"
    r"|<｜(?:end▁of▁sentence|User|Assistant|begin▁of▁sentence)｜>"
)
_SIGNS = ("<|", "<｜", "</s>", "<eos>", "_turn>", "INST]")
_OPENING = re.compile(
    r"\s*(?:(?:<s>|<bos>|<\|begin_of_text\|>|<｜begin▁of▁sentence｜>"
    r"|<\|(?:im_start|start_header_id|start)\|>|<start_of_turn>|<\|assistant\|>|<｜Assistant｜>)"
    r"(?:(?:assistant|model)\b)?(?:<\|end_header_id\|>)?\s*)+"
)
_FINAL = "<|channel|>final<|message|>"

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


def own_message(text: str) -> str | None:
    r"""The first message of a completion: up to the first control token of a chat template.

    Returns:
        The message without the tokens that open it; None if a model that thinks in a separate
        channel never reached its final one.

    Example:
        >>> own_message("It is 25.<|im_end|>\n<|im_start|>user\nAnd 26?")
        'It is 25.'
        >>> own_message("<|channel|>analysis<|message|>Hm, 24.<|end|><|channel|>final<|message|>25")
        '25'
    """
    if "<" not in text and ("]" not in text or "INST]" not in text):
        return text
    if not any(sign in text for sign in _SIGNS):
        return text
    if "<|channel|>" in text:
        _, final, text = text.partition(_FINAL)
        if not final:
            return None
    if opening := _OPENING.match(text):
        text = text[opening.end() :]
    for token in _CONTROL.finditer(text):
        if token.group() != "</s>" or text.find("<s>", 0, token.start()) < 0:  # "<s>24</s>" is struck out
            return text[: token.start()]
    return text


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
