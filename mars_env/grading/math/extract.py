"""Finds the final answer of a completion, in linear time: docs/grading.md has the four rules.

Only the model's own message is read: neither thinking, nor what follows a control token of a chat template.
"""

import re
from typing import NamedTuple

from mars_env.grading.message import own_message
from mars_env.grading.thinking import UNCLOSED_THINKING, after_thinking

NO_ANSWER = "no answer was found"
NO_BOX = "no boxed answer was found"
UNCLOSED_BOX = "the last box is not closed"
EMPTY_BOX = "the last box is empty"

_BOX_TOKEN = re.compile(r"\\{1,2}(?:boxed|fbox)(?![A-Za-z])[ \t\n]*|\\.|[{}]", re.DOTALL)
_BARE_CONTENT = re.compile(r"\\[A-Za-z]+(?:\{[^{}]{0,200}\}){0,2}|[-+]?[\w./]{1,200}")
_NAME = r"(?:[A-Za-z](?:_\{?\w{1,3}\}?)?|\\[a-z]{2,7})"
_JOINT = re.compile(
    r"(?:[\s$&{}.,;、…]|\\(?:q?quad|text|mbox|mathrm|[,;:! ()\[\]\\])|\b(?:and|or)\b|[和与及]|或者?)*"
    rf"(?:{_NAME}\s*=[\s$]*)?",
    re.IGNORECASE,
)
_OR = re.compile(r"\bor\b|或", re.IGNORECASE)
_AND = re.compile(r"[,;、和与及]|and|quad", re.IGNORECASE)
_NAME_BEFORE = re.compile(rf"(?<![\w\\}}])({_NAME})\s*=[\s$]*\Z")
_SIGN_BEFORE = re.compile(r"(?:[=$({\s]|\A)(?:(\\pm)\s*|[-−])\Z|[=$({]\s*[-−](?:\s|\\[,:;!])*\Z")

_MARKER = re.compile(
    r"\banswers?\b[ \t*]*(?:is|are|[:：=])[\s*:：]*|^[ \t#*]*(?:final[ \t]+)?answer[ \t*]*\n\s*"
    r"|(?<!#)####[ \t]+|<answer>\s*|^A:[ \t]*(?=[^\n]*\s*\Z)|答案(?:是|为|[:：])[\s*:：]*",
    re.IGNORECASE | re.MULTILINE,
)
_LINE = re.compile(r"(?:\\\[.*?\\\]|\$\$.*?\$\$|[^\n])+", re.DOTALL)
_SENTENCE = re.compile(
    r"(?:\\\[.*?\\\]|\$\$.*?\$\$|\$[^$\n]*\$|\\\(.*?\\\)|\.(?!\s|\*|\Z)|<(?!/)|[^\n。.<])+", re.DOTALL
)
_BOLD_SENTENCE = re.compile(r"[.!?:。：]\s*(\*\*[^*]+\*\*)\Z")
_NUMBER = re.compile(r"[-+−]?\\?[$€£]?\.?\d[\d.,/]*(?:[ \t]*\\?%)?")
_DELIMITERS = (("$$", "$$"), ("$", "$"), ("\\(", "\\)"), ("\\[", "\\]"))
_LEFT, _RIGHT = ("$", "\\(", "\\[", "**"), ("$", "\\)", "\\]", "**")
_TAIL = 5000  # characters at the end of a text that may hold an answer without a box


class Extraction(NamedTuple):
    """The answer's own text and how it was found, or None and why there is none."""

    answer: str | None
    how: str


class _Box(NamedTuple):
    start: int
    low: int  # where its content starts, and ends
    high: int
    end: int


def extract_answer(text: str, *, strict: bool = False) -> Extraction:
    r"""The final answer of a completion, as written there.

    Example:
        >>> extract_answer(r"First \boxed{24}, no: \boxed{\frac{50}{2}}.")
        Extraction(answer='\\frac{50}{2}', how='box')
        >>> extract_answer("The answer is **25**."), extract_answer("The answer is 25.", strict=True).answer
        (Extraction(answer='25', how='marker'), None)
    """
    message = text if strict else own_message(text)
    final = None if message is None else after_thinking(message)
    if final is None:
        return Extraction(None, UNCLOSED_THINKING)
    if "\\boxed" in final or "\\fbox" in final:
        return _last_boxes(final)
    if strict:
        return Extraction(None, NO_BOX)
    answer, how = _after_marker(final[-_TAIL:])
    return Extraction(answer, how) if answer else Extraction(None, NO_ANSWER)


def _last_boxes(text: str) -> Extraction:
    boxes, unclosed = _find_boxes(text)
    if unclosed >= 0 and (not boxes or unclosed > boxes[-1].start):
        return Extraction(None, UNCLOSED_BOX)
    if not boxes:
        return Extraction(None, NO_BOX)
    chain, joiner = _joined(text, boxes)
    contents = [text[box.low : box.high].strip() for box in chain]
    if not contents[-1]:
        return Extraction(None, EMPTY_BOX)
    start = chain[0].start
    if sign := _SIGN_BEFORE.search(text, max(0, start - 6), start):
        contents[0] = (sign[1] or "-") + (contents[0] if contents[0].isdigit() else f" ({contents[0]})")
    names = [_name_before(text, box) for box in chain]
    if all(names) and len(chain) == len({*names}) > 1:
        contents = [f"{name} = {content}" for name, content in zip(names, contents, strict=True)]
    distinct = list(dict.fromkeys(contents))
    return Extraction(joiner.join(distinct), "box" if len(distinct) == 1 else "boxes")


def _name_before(text: str, box: _Box) -> str | None:
    match = _NAME_BEFORE.search(text, max(0, box.start - 40), box.start)
    return match[1] if match else None


def _joined(text: str, boxes: list[_Box]) -> tuple[list[_Box], str]:
    chain, joiner = [boxes[-1]], ", "
    for box in reversed(boxes[-20:-1]):
        between = text[box.end : chain[0].start]
        if len(between) > 40 or not _JOINT.fullmatch(between):
            break
        chain.insert(0, box)
        if _OR.search(between) or not _AND.search(between):
            joiner = r" \text{ or } "  # nothing says that both are meant
    return chain, joiner


def _find_boxes(text: str) -> tuple[list[_Box], int]:
    """The outermost boxes of a text, and where the last unclosed box starts (-1 if there is none)."""
    first = min(place for place in (text.find("\\boxed"), text.find("\\fbox")) if place >= 0)
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
            elif bare := _BARE_CONTENT.match(text, end):
                boxes.append(_Box(match.start(), end, bare.end(), bare.end()))
            elif end >= last:
                unclosed = match.start()
    return boxes, max([unclosed, *(start for _, start in braces)])


def _after_marker(text: str) -> tuple[str, str]:
    """What follows the last marker, or the last line if that is a value; empty if there is neither."""
    markers = list(_MARKER.finditer(text))
    if not markers:
        return _last_line(text), "last line"
    marker = markers[-1]
    until = _LINE if "\n" in marker.group() else _SENTENCE  # on a line of its own, "1." may begin a list
    match = until.match(text, marker.end())
    return undelimited(match.group()) if match else "", "marker"


def _last_line(text: str) -> str:
    text = text.rstrip(" \n\t.。")
    start = text.rfind("\n") + 1
    for left, right in (("$$", "$$"), ("\\[", "\\]")):
        if text.endswith(right):
            start = text.rfind("\n", 0, max(0, text.rfind(left, 0, -2))) + 1
    line = text[start:].strip()
    if bold := _BOLD_SENTENCE.search(line):
        line = bold[1]
    value = undelimited(line)
    is_formula = value != line and line.startswith(_LEFT) and line.endswith(_RIGHT)
    return value if is_formula or _NUMBER.fullmatch(value) else ""


def undelimited(text: str) -> str:
    """A text without white space, bold type, a full stop, and the delimiters around one whole formula."""
    before = None
    while text != before:
        before, text = text, text.strip().strip("*").rstrip(".,").strip()
        for left, right in _DELIMITERS:
            inner = text.removeprefix(left).removesuffix(right)
            if len(inner) == len(text) - len(left) - len(right) and left not in inner and right not in inner:
                text = inner.strip()
    return text
