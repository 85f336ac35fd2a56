r"""Finds the last box of a text, ``\boxed{...}`` or ``\fbox{...}``, and the boxes joined to it."""

import re
from typing import NamedTuple

from mars_env.grading.math.doubt import without_quotations
from mars_env.grading.math.sentences import undelimited
from mars_env.grading.math.vocabulary import DENIED_AFTER, DENIED_BEFORE

UNCLOSED_BOX = "the last box is not closed"

_BOX_TOKEN = re.compile(r"\\{1,2}(?:boxed|fbox)(?![A-Za-z])[ \t\n]*|\\.|[{}]", re.DOTALL)
_BARE_BOX = re.compile(r"\\[A-Za-z]+(?:\{[^{}]{0,200}\}){0,2}|[-+]?[\w./]{1,200}")
_LAYOUT = re.compile(
    r"\\(?:quad|qquad|hspace\{[^{}]*\}|text(?:bf|it|rm)?(?=\s*\{)|mathrm(?=\s*\{)|mbox|displaystyle)"
    r"(?![A-Za-z])|\\[,;:! ()\[\]]|[\s$~&*{}]+"
)
_NAME = r"(?:[A-Za-z](?:_\{?\w{1,3}\}?)?|\\[a-z]{2,7})"
_STRICT_JOINT = re.compile(r"[\s$]*(?:,|,?\s*\b(?:and|or)\b)[\s$]*", re.IGNORECASE)
_JOINT = re.compile(
    rf"(?P<sign>[,;、]?) ?(?P<word>and|or|和|与|及|或者?)? ?(?:{_NAME} ?= ?)?\Z", re.IGNORECASE
)
_NAMED = re.compile(rf"(?<![\w\\}}])({_NAME})\s*=[\s$]*\Z")
_SIGNED = re.compile(r"(?:(?:\A|[=$(\[\s{*])[-−](?:\\[,:;!])*|[=$({]\s*[-−](?:\s|\\[,:;!])*|\\pm\s*)\Z")
VALUE = r"(\$[^$\n]{1,200}\$|\\\(.{1,200}?\\\)|[-+]?\d[\d.,/]*)(?=[\s.!*$)]*\Z|[.!$)]{1,3}\s)"
_OR_ELSE = re.compile(
    r"[\s$)\\\]]{0,9}(?:,\s{0,9}(?:\$[^$\n]{1,60}\$|\d{1,9})){0,5},?\s{0,9}\(?(?:or\b|\\text\s*\{\s*or\s*\})\s{0,9}"
    rf"(?:maybe|perhaps|possibly|else|even)?\s{{0,9}}{VALUE}",
    re.IGNORECASE,
)
_REST_OF_FORMULA = re.compile(
    r"\s?(?:\\(?:sqrt|pi|times|cdot|div|pm)(?![A-Za-z])|[+*]|[-/]\s?(?=[\d(]|\\(?:sqrt|pi))|\^(?!\s*\{?\s*\\circ)|!(?=\s*\$)"
    r"|,\s?(?=-?\d[^$\n=&]{0,200}(?:\$|\\\)|\\\])))"
    r"[^$\n=&]{0,200}?(?=\$|\\\)|\\\]|=|\n|\Z)"
)
_NO_ANSWER_BEFORE = {
    "the last box is what the answer is not": DENIED_BEFORE,
    "the last box is part of a larger value": re.compile(
        r"(?:\d|\\[dtc]?frac\{(?:[^{}]{0,30}\}\{)?|\\sqrt(?:\[[^\[\]]{1,9}\])?\{|[\^_]\{?|[\d})](?:\\left)?\("
        r"|(?:[\d)]|(?<![A-Za-z])[a-z])\s*(?:[-+−*/]|\\cdot|\\times)(?:\s|\\[,:;!])*)\Z"
    ),
}
_NO_ANSWER_AFTER = {
    "the last box is what the answer is not": DENIED_AFTER,
    "the last box is part of a question": re.compile(
        r"[\s$*)\]\\]{0,12}\?(?!\s*(?:yes|indeed|correct|right)\b)", re.IGNORECASE
    ),
}


class Extraction(NamedTuple):
    """The answer's own text and how it was found, or None and why there is none."""

    answer: str | None
    how: str


class _Box(NamedTuple):
    start: int
    low: int
    high: int
    end: int


def boxed(text: str, *, strict: bool) -> tuple[Extraction, int] | None:
    """The last box with the boxes joined to it, and where it ends; None if there is none.

    Unless strict, quoted boxes do not count, and what stands beside a box may deny it or belong to it.
    """
    if "\\boxed" not in text and "\\fbox" not in text:
        return None
    boxes, unclosed = _find(text if strict else without_quotations(text))
    if unclosed >= 0 and (not boxes or unclosed > boxes[-1].start):
        return Extraction(None, UNCLOSED_BOX), len(text)
    if not boxes:
        return None
    chain, either, listed = [boxes[-1]], False, False
    for box in reversed(boxes[-20:-1]):
        joint = _joint(text[box.end : chain[0].start], strict)
        if joint is None:
            break
        chain.insert(0, box)
        either, listed = either or joint == "or", listed or joint == ","
    first, end = chain[0].start, chain[-1].end
    contents = [text[box.low : box.high].strip() for box in chain]
    if not contents[-1]:
        return Extraction(None, "the last box is empty"), end
    if not strict:
        before = text[max(0, first - 40) : first]
        denied = [why for why, pattern in _NO_ANSWER_BEFORE.items() if pattern.search(before)]
        denied += [why for why, pattern in _NO_ANSWER_AFTER.items() if pattern.match(text, end)]
        if denied:
            return Extraction(None, denied[0]), end
        if rest := _REST_OF_FORMULA.match(text, end):
            contents[-1] = rf"\left({contents[-1]}\right){rest.group()}"
    if signed := _SIGNED.search(text, max(0, first - 6), first):
        sign = r"\pm " if "pm" in signed.group() else "-"
        contents[0] = f"{sign}({contents[0]})" if re.search("[-+,]", contents[0]) else f"{sign}{contents[0]}"
    names = [found[1] for box in chain if (found := _NAMED.search(text, max(0, box.start - 40), box.start))]
    if not strict and len(chain) == len(set(names)) > 1:
        contents = [f"{name} = {content}" for name, content in zip(names, contents, strict=True)]
    if not strict and (other := _OR_ELSE.match(text, end)):
        contents.append(undelimited(other[1]))
        either = True
    distinct = list(dict.fromkeys(contents))
    joiner = r" \text{ or } " if either and not listed else ", "
    return Extraction(joiner.join(distinct), "box" if len(distinct) == 1 else "boxes"), end


def _find(text: str) -> tuple[list[_Box], int]:
    """The outermost boxes of a text, and where the last unclosed box starts (-1 if there is none)."""
    first = min((i for i in (text.find("\\boxed"), text.find("\\fbox")) if i >= 0), default=-1)
    if first < 0:
        return [], -1
    boxes, last = list[_Box](), len(text.rstrip(" $"))
    braces: list[tuple[int, int]] = []  # for each open brace: its position, and its box's start or -1
    unclosed = pending = -1  # `pending` starts a box that the next brace opens
    for match in _BOX_TOKEN.finditer(text, first):
        token, end = match.group(), match.end()
        if token == "{":
            braces.append((match.start(), pending))
            pending = -1
        elif token == "}" and braces:
            opened, start = braces.pop()
            if start >= 0:
                while boxes and boxes[-1].start > start:  # boxes inside this one belong to it
                    boxes.pop()
                boxes.append(_Box(start, opened + 1, match.start(), end))
        elif len(token) > 2:
            if text.startswith("{", end):
                pending = match.start()
            elif bare := _BARE_BOX.match(text, end):
                boxes.append(_Box(match.start(), end, bare.end(), bare.end()))
            elif end >= last:
                unclosed = match.start()
    return boxes, max([unclosed, *(start for _, start in braces)])


def _joint(between: str, strict: bool) -> str | None:
    """What joins a box to the next one, ``,`` or ``or``; None if nothing does."""
    if strict:
        return "," if len(between) <= 20 and _STRICT_JOINT.fullmatch(between) else None
    if len(between) > 60:
        return None
    said = " ".join(_LAYOUT.sub(" ", between).split())
    if (not said and "quad" not in between) or (said and not said.strip(". …")):
        return "or"  # nothing says which of the two is meant
    match = _JOINT.match(said)
    if match is None or not (match["sign"] or match["word"] or "quad" in between):
        return None
    return "or" if (match["word"] or "").lower() in ("or", "或", "或者") else ","
