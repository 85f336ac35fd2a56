r"""Finds the last box of a text, ``\boxed{...}`` or ``\fbox{...}``, and the boxes joined to it."""

from __future__ import annotations

import re
from typing import NamedTuple

from mars_env.grading.math.sentences import undelimited
from mars_env.grading.math.vocabulary import DENIED_AFTER, DENIED_BEFORE

NO_BOX = "no boxed answer was found"
UNCLOSED_BOX = "the last box is not closed"
EMPTY_BOX = "the last box is empty"
NEGATED_BOX = "the last box is what the answer is not"
ASKED_BOX = "the last box is part of a question"
INNER_BOX = "the last box is part of a larger value"

_BOX_TOKEN = re.compile(r"\\{1,2}(?:boxed|fbox)(?![A-Za-z])[ \t\n]*|\\.|[{}]", re.DOTALL)
_BARE_BOX = re.compile(r"(\\[A-Za-z]+(?:\{[^{}]{0,200}\}){0,2}|[-+]?[\w./]{1,200})")
_JOIN = re.compile(r"[\s$]*(?:,|\band\b|\bor\b|,\s*and\b|,\s*or\b)[\s$]*\Z", re.IGNORECASE)
_LAYOUT = re.compile(
    r"\\(?:quad|qquad|hspace\{[^{}]*\}|text(?:bf|it|rm)?(?=\s*\{)|mathrm(?=\s*\{)|mbox|displaystyle)"
    r"(?![A-Za-z])|\\[,;:! ()\[\]]|[\s$~&*{}]+"
)
_NAME = r"(?:[A-Za-z](?:_\{?\w{1,3}\}?)?|\\[a-z]{2,7})"
_WIDE_JOIN = re.compile(
    rf"(?P<sign>[,;、]?) ?(?P<word>and|or|et|ou|und|oder|y|o|和|与|及|或|或者)? ?(?:{_NAME} ?= ?)?\Z",
    re.IGNORECASE,
)
_NAMED = re.compile(rf"(?<![\w\\}}])({_NAME})[ ]*=[ $]*\Z")
_EITHER = frozenset(("or", "ou", "oder", "o", "或", "或者"))
_WIDE_GAP = 60
_SIGNED = re.compile(r"(?:(?:\A|[=$(\[\s{*])[-−]|[=$({]\s*[-−]\s*|\\pm\s*)\Z")
VALUE = r"(\$[^$\n]{1,200}\$|\\\(.{1,200}?\\\)|[-+]?\d[\d.,/]*)(?=[\s.!*$)]*\Z|[.!$)]{1,3}\s)"
_OR_ELSE = re.compile(
    r"[\s$)\\\]]{0,9}(?:,\s{0,9}(?:\$[^$\n]{1,60}\$|\d{1,9})){0,5},?\s{0,9}\(?(?:or\b|\\text\s*\{\s*or\s*\})\s{0,9}"
    rf"(?:maybe|perhaps|possibly|else|even)?\s{{0,9}}{VALUE}",
    re.IGNORECASE,
)
"""After a box: another value that may be the answer."""
_GOES_ON = re.compile(
    r"\s?(?:\\(?:sqrt|pi|times|cdot|div|pm)(?![A-Za-z])|[+*]|[-/]\s?(?=[\d(]|\\(?:sqrt|pi))|\^(?!\s*\{?\s*\\circ)|!(?=\s*\$)"
    r"|,\s?(?=-?\d[^$\n=&]{0,200}(?:\$|\\\)|\\\])))"
    r"[^$\n=&]{0,200}?(?=\$|\\\)|\\\]|=|\n|\Z)"
)
"""After a box: the rest of its formula."""
_INSIDE = re.compile(r"(?:\d|\\[dtc]?frac\{(?:[^{}]{0,30}\}\{)?|\\sqrt(?:\[[^\[\]]{1,9}\])?\{|[\^_]\{?)\Z")
"""Before a box that is only a part of a value."""
_ASKED = re.compile(r"[\s$*)\]\\]{0,12}\?(?!\s*(?:yes|indeed|correct|right)\b)", re.IGNORECASE)


class Extraction(NamedTuple):
    """The answer's own text and how it was found, or None and why there is none."""

    answer: str | None
    how: str


class Box(NamedTuple):
    """A box: the positions where its command starts, its content starts and ends, and the box ends."""

    start: int
    low: int
    high: int
    end: int


def find_boxes(text: str) -> tuple[list[Box], int]:
    """The outermost boxes of a text, and where the last unclosed box starts (-1 if there is none)."""
    first = min((i for i in (text.find("\\boxed"), text.find("\\fbox")) if i >= 0), default=-1)
    if first < 0:
        return [], -1
    boxes: list[Box] = []
    braces: list[tuple[int, int]] = []  # for each open brace: its position, and its box's start or -1
    unclosed_after = -1
    pending = -1  # start of a box command that the next brace opens
    for match in _BOX_TOKEN.finditer(text, first):
        token = match.group()
        if token[0] == "\\":
            if len(token) > 2:
                end = match.end()
                if end < len(text) and text[end] == "{":
                    pending = match.start()
                elif bare := _BARE_BOX.match(text, end):
                    boxes.append(Box(match.start(), bare.start(), bare.end(), bare.end()))
                elif not text[end:].strip(" $"):
                    unclosed_after = match.start()
        elif token == "{":
            braces.append((match.start(), pending))
            pending = -1
        elif braces:
            opened, start = braces.pop()
            if start >= 0:
                while boxes and boxes[-1].start > start:  # boxes inside this one belong to it
                    boxes.pop()
                boxes.append(Box(start, opened + 1, match.start(), match.end()))
    return boxes, max([unclosed_after, *(start for _, start in braces)])


def boxed(text: str, boxes: list[Box], unclosed_after: int, *, wide: bool = False) -> Extraction:
    """The last box with the boxes joined to it; `wide` accepts more joints and recognises denials."""
    if not boxes or unclosed_after > boxes[-1].start:
        return Extraction(None, UNCLOSED_BOX)
    chain, joints = [boxes[-1]], list[str]()
    for box in reversed(boxes[-20:-1]):
        joint = _joint(text, box, chain[-1], wide)
        if joint is None:
            break
        chain.append(box)
        joints.append(joint)
    chain.reverse()
    contents = [text[box.low : box.high].strip() for box in chain]
    if not contents[-1]:
        return Extraction(None, EMPTY_BOX)
    if wide:
        before = text[max(0, chain[0].start - 40) : chain[0].start]
        if DENIED_BEFORE.search(before) or DENIED_AFTER.match(text, chain[-1].end):
            return Extraction(None, NEGATED_BOX)
        if _ASKED.match(text, chain[-1].end):
            return Extraction(None, ASKED_BOX)
        if _INSIDE.search(before):
            return Extraction(None, INNER_BOX)
        if rest := _GOES_ON.match(text, chain[-1].end):
            contents[-1] = rf"\left({contents[-1]}\right){rest.group()}"
    if signed := _SIGNED.search(text, max(0, chain[0].start - 4), chain[0].start):
        sign = r"\pm " if "pm" in signed.group() else "-"
        contents[0] = f"{sign}({contents[0]})" if re.search("[-+,]", contents[0]) else f"{sign}{contents[0]}"
    if wide and (other := _OR_ELSE.match(text, chain[-1].end)):
        contents.append(undelimited(other[1]))
        joints.append("or")
    if len(contents) == 1:
        return Extraction(contents[0], "box")
    if wide and len(chain) > 1:
        contents[: len(chain)] = _named(text, chain, contents[: len(chain)])
    distinct = list(dict.fromkeys(contents))
    joiner = r" \text{ or } " if "or" in joints and "," not in joints else ", "
    return Extraction(joiner.join(distinct), "box" if len(distinct) == 1 else "boxes")


def _joint(text: str, box: Box, following: Box, wide: bool) -> str | None:
    """What joins a box to the next one, ``,`` or ``or``; None if nothing does."""
    gap = following.start - box.end
    if not wide:
        return "," if gap <= 20 and _JOIN.match(text[box.end : following.start]) else None
    if gap > _WIDE_GAP:
        return None
    between = text[box.end : following.start]
    said = " ".join(_LAYOUT.sub(" ", between).split())
    if (not said and "quad" not in between) or (said and not said.strip(". …")):
        return "or"  # nothing says which of the two is meant
    match = _WIDE_JOIN.match(said)
    if match is None or not (match["sign"] or match["word"] or "quad" in between):
        return None
    return "or" if (match["word"] or "").lower() in _EITHER else ","


def _named(text: str, chain: list[Box], contents: list[str]) -> list[str]:
    """``x = 1`` and ``y = 2`` for boxes that hold values, if a name precedes each of them."""
    names = [
        _NAMED.search(" ".join(_LAYOUT.sub(" ", text[max(0, box.start - 40) : box.start]).split()) + " ")
        for box in chain
    ]
    found = [name.group(1) for name in names if name]
    if len(found) < len(chain) or len(set(found)) == 1:
        return contents
    return [f"{name} = {content}" for name, content in zip(found, contents, strict=True)]
