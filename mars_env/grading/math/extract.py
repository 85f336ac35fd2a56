r"""Finding the final answer in a completion: a pure function, linear in the length of the text.

The order, first match wins:

1. Thinking is set aside: only what follows the last ``</think>`` is read, and a text whose
   last ``<think>`` is never closed has no answer.
2. The last box, ``\boxed{...}`` or ``\fbox{...}`` (nested braces count; ``\boxed 5`` works).
   Boxes joined by nothing but a comma, "and" or "or" are one answer: a list. A box inside
   another belongs to it. If the last box is empty or not closed (a completion that was cut
   off) there is no answer: an earlier box never stands in.
3. The last "answer is ...", "Answer: ...", up to the end of its sentence.
4. Bold text that ends the completion.
5. A bare final line: a formula, a number or a few words; or a final line that ends in a formula
   led in by "is", "so", "therefore" or the like.

Strict mode stops after step 2.
"""

from __future__ import annotations

import re
from typing import NamedTuple

NO_BOX = "no boxed answer was found"
NO_ANSWER = "no answer was found"
UNCLOSED_THINKING = "the thinking block is not closed"
UNCLOSED_BOX = "the last box is not closed"
EMPTY_BOX = "the last box is empty"

_BOX_TOKEN = re.compile(r"\\(?:boxed|fbox)(?![A-Za-z])[ \t\n]*|\\.|[{}]", re.DOTALL)
_BARE_BOX = re.compile(r"(\\[A-Za-z]+(?:\{[^{}]{0,200}\}){0,2}|[-+]?[\w./]{1,200})")
_JOIN = re.compile(r"[\s$]*(?:,|\band\b|\bor\b|,\s*and\b|,\s*or\b)[\s$]*\Z", re.IGNORECASE)
_CUE = re.compile(
    r"\banswers?\b(?:[^.:=\n$\\]{0,60}?\b(?P<verb>is|are|equals?)\b)?"
    r"(?P<mark>[ \t*_]*[:=]?[ \t*_:]*)(?:\n\s*)?",
    re.IGNORECASE,
)
_BOLD = re.compile(r"\*\*([^*\n]{1,400})\*\*[\s.!]*\Z")
_MATH_SPAN = re.compile(
    r"\$\$.{1,2000}?\$\$|\$[^$\n]{1,2000}\$|\\\(.{1,2000}?\\\)|\\\[.{1,2000}?\\\]", re.DOTALL
)
_DISPLAY = re.compile(r"(?:\$\$(.{1,4000}?)\$\$|\\\[(.{1,4000}?)\\\])", re.DOTALL)
_LEAD_IN = re.compile(
    r"(?:\b(?:is|are|be|equals?|so|thus|hence|therefore|gives?|get|obtain|have|conclude)|[:=])\s*[,:]?\s*\Z",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"(?<=[^\s\d])[.!?](?=\s|\*|\Z)|(?<=\d)[.!?](?=\s|\*|\Z)|\n")
_ASIDE = re.compile(r",?\s+(?:because|since|as|which|where|so|thus|hence|therefore)\s", re.IGNORECASE)
_ADVERB = re.compile(
    r"(?:therefore|thus|hence|then|simply|just|indeed|clearly|exactly)\b[\s,:]*", re.IGNORECASE
)
_TAIL = 20_000  # characters at the end of a text in which the patterns without a box are looked for


class Extraction(NamedTuple):
    """What was found: the answer's own text, or None and why not."""

    answer: str | None
    how: str


def extract_answer(text: str, *, strict: bool = False) -> Extraction:
    r"""The final answer of a completion.

    Args:
        text: What a model wrote; anything at all.
        strict: Take boxes only.

    Returns:
        The answer as it stands in the text, outer delimiters stripped, and how it was found;
        or None and the reason.

    Example:
        >>> extract_answer(r"First \boxed{24}, no: \boxed{\frac{50}{2}}.")
        Extraction(answer='\\frac{50}{2}', how='box')
        >>> extract_answer("The answer is **25**.")
        Extraction(answer='25', how='phrase')
        >>> extract_answer("The answer is 25.", strict=True)
        Extraction(answer=None, how='no boxed answer was found')
        >>> extract_answer(r"<think>\boxed{1}").answer is None
        True
    """
    _, closing, rest = text.rpartition("</think>")
    text = rest if closing else text
    if "<think>" in text:
        return Extraction(None, UNCLOSED_THINKING)
    boxed = _last_box(text)
    if boxed is not None:
        return boxed
    if strict:
        return Extraction(None, NO_BOX)
    return _unboxed(text[-_TAIL:])


def _last_box(text: str) -> Extraction | None:
    first = min((i for i in (text.find("\\boxed"), text.find("\\fbox")) if i >= 0), default=-1)
    if first < 0:
        return None
    spans: list[tuple[int, int, int, int]] = []  # box start, content start, content end, box end
    braces: list[tuple[int, int]] = []  # of each open brace: its place, and its box's start or -1
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
                    spans.append((match.start(), bare.start(), bare.end(), bare.end()))
                elif not text[end:].strip(" $"):
                    unclosed_after = match.start()
        elif token == "{":
            braces.append((match.start(), pending))
            pending = -1
        elif braces:
            opened, box = braces.pop()
            if box >= 0:
                while spans and spans[-1][0] > box:  # boxes inside this one belong to it
                    spans.pop()
                spans.append((box, opened + 1, match.start(), match.end()))
    unclosed_after = max([unclosed_after, *(box for _, box in braces)])
    if not spans and unclosed_after < 0:
        return None
    if not spans or unclosed_after > spans[-1][0]:
        return Extraction(None, UNCLOSED_BOX)
    start, low, high, _ = spans[-1]
    contents = [text[low:high].strip()]
    for before in reversed(spans[-20:-1]):
        if start - before[3] > 20 or not _JOIN.match(text[before[3] : start]):
            break
        contents.append(text[before[1] : before[2]].strip())
        start = before[0]
    if not contents[0]:
        return Extraction(None, EMPTY_BOX)
    distinct = list(dict.fromkeys(reversed(contents)))
    return Extraction(", ".join(distinct), "box" if len(distinct) == 1 else "boxes")


def _unboxed(text: str) -> Extraction:
    text = text.rstrip()
    cue = None
    for match in _CUE.finditer(text):
        # "answer is", "Answer:", or a heading, "**Final answer**", with the answer on the next line
        if match.group("verb") or set(match.group("mark")) & set(":=") or match.group().endswith("\n"):
            cue = match
    if cue is not None:
        answer = _clause(text[cue.end() :])
        if answer:
            return Extraction(answer, "phrase")
    if bold := _BOLD.search(text, max(0, len(text) - 420)):
        return Extraction(_peel(bold.group(1)), "bold")
    return _final_line(text)


def _clause(text: str) -> str:
    """The beginning of a text up to the end of its sentence, formulas kept whole."""
    text = _ADVERB.sub("", text.lstrip(" \t\n*_:"))
    if display := _DISPLAY.match(text):
        return _peel(display.group())
    kept, place = "", 0
    while place < len(text):
        span = _MATH_SPAN.search(text, place)
        stop = _SENTENCE_END.search(text, place)
        if span and (stop is None or span.start() < stop.start()):
            kept += text[place : span.end()]
            place = span.end()
            continue
        kept += text[place : stop.start() if stop else len(text)]
        break
    if aside := _ASIDE.search(kept):
        kept = kept[: aside.start()]
    return _peel(kept)


def _final_line(text: str) -> Extraction:
    if text.endswith(("$$", "\\]")):
        opening = text.rfind("$$", 0, -2) if text.endswith("$$") else text.rfind("\\[")
        if opening >= 0:
            return Extraction(_peel(text[opening:]), "final line")
    line = text[text.rfind("\n") + 1 :].strip()
    line = re.sub(r"^(?:#+|[-*>])\s+", "", line)
    bare = _peel(line)
    words = re.findall(r"(?<![\\A-Za-z])[A-Za-z]{2,}", re.sub(r"\\[A-Za-z]+", " ", bare))
    if bare and len(bare) <= 400 and len(words) <= 3:
        return Extraction(bare, "final line")
    spans = list(_MATH_SPAN.finditer(line))
    if spans and not line[spans[-1].end() :].strip(" .!*_"):
        lead = line[: spans[-1].start()].rstrip("*_ ")
        if _LEAD_IN.search(lead):
            return Extraction(_peel(spans[-1].group()), "final line")
    return Extraction(None, NO_ANSWER)


def _peel(text: str) -> str:
    """Strip white space, emphasis, a full stop, and the delimiters around one whole formula."""
    while True:
        before = text
        text = text.strip().strip("*_`").strip()
        if text.endswith((".", ",", ";")) and not text.endswith(("...", "\\,", "\\;")):
            text = text[:-1]
        for left, right in (("$$", "$$"), ("$", "$"), ("\\(", "\\)"), ("\\[", "\\]")):
            if text.startswith(left) and text.endswith(right) and len(text) > len(left) + len(right) - 1:
                inner = text[len(left) : -len(right)]
                if left not in inner and right not in inner and not inner.endswith("\\"):
                    text = inner
                    break
        if text == before:
            return text
