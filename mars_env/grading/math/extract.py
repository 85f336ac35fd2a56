r"""Finds the final answer in a completion: a pure function, linear in the length of the text.

The rules, in order; the first match wins:

1. Only the model's own message is read: the text after the last ``</think>``, up to the first control token
   of a chat template (`mars_env.grading.message`). A text whose last ``<think>`` is never closed has
   no answer. Characters that look like ASCII are read as ASCII (`tokens.py`).
   After an answer, a line with "Question:" or the like ends it: a base model goes on with another problem.
   An instruction ("Answer the question", "to find the answer:") or a heading above the problem is no answer.
2. The last box, ``\boxed{...}`` or ``\fbox{...}`` (nested braces count; ``\boxed 5`` works).
   Boxes joined only by a comma, "and" or "or", or by nothing, are one answer: a list. A box inside
   another belongs to it. If the last box is empty or not closed (the completion was cut
   off), there is no answer: an earlier box never replaces it. Boxes in quotations do not count. A box
   after "not", or before a question mark, is not an answer. An "answer is ..." that follows the last box and
   states a value is the model's final answer, unless it is about another case ("for n = 1, ...") and nothing
   says that the box was wrong (`cues.py`).
3. The last "answer is ...", "Answer: ...", ``<answer>``, up to the end of its sentence (`phrases.py`); a
   field "answer" of JSON at the end.
4. Bold text that ends the completion.
5. What ends the completion: a display or a chain of equations, a list whose items are values, the row of a
   table that is called answer, a formula, a number or a few words; or a last sentence that ends in formulas
   introduced by "is", "are", "so", "therefore" or the like, or has one value in bold.

Strict mode reads the text unchanged and takes only the last box, or the last boxes with a comma, "and" or
"or" between them.
"""

from __future__ import annotations

import json
import re
from typing import NamedTuple

from mars_env.grading.math.claims import claim, is_unasked
from mars_env.grading.math.cues import supposed
from mars_env.grading.math.endings import (
    bold_sentence,
    clear_ending,
    is_remark,
    without_aside,
    without_extras,
)
from mars_env.grading.math.phrases import (
    MATH_SPAN,
    concluded,
    is_value,
    last_sentence,
    last_statement,
    leaves_doubt,
    peel,
    stated,
    without_opener,
)
from mars_env.grading.math.tokens import as_ascii, escape_money
from mars_env.grading.math.transcript import Quotations
from mars_env.grading.message import own_message
from mars_env.grading.thinking import UNCLOSED_THINKING, after_thinking

NO_BOX = "no boxed answer was found"
NO_ANSWER = "no answer was found"
UNCLOSED_BOX = "the last box is not closed"
WITHDRAWN = "the answer is withdrawn"
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
    r"(?P<sign>[,;、]?) ?(?P<word>and|or|et|ou|und|oder|y|o|和|与|及|以及|或|或者)? ?"
    rf"(?:(?P<name>{_NAME}) ?= ?)?\Z",
    re.IGNORECASE,
)
_NAMED = re.compile(rf"(?<![\w\\}}])({_NAME})[ ]*=[ $]*\Z")
_EITHER = frozenset(("or", "ou", "oder", "o", "或", "或者"))
_WIDE_GAP = 60
_DENIED = re.compile(
    r"(?:\b(?:can)?not(?: be| equal(?: to)?)?|n[’']t(?: be| equal(?: to)?)?"
    r"|\b(?:wrong|incorrect) (?:answer|value|result)s?(?: is| was)?"
    r"|\b(?:rather|other) than|\binstead of|\\neq?|≠|\\not ?=|\bnever(?: be)?|\bneither|\bnicht|\bpas"
    r"|\bno es|不是|不等于)[\s$*:(]*(?:\\[(\[,;]\s*)?\Z",
    re.IGNORECASE,
)
_DENIALS = (
    "not",
    "Not",
    "n't",
    "n’t",
    "\\ne",
    "≠",
    "ever",
    "either",
    "nicht",
    "pas",
    "no es",
    "不",
    " than",
    "nstead",
    "rong ",
    "ncorrect ",
)
_REFUSED = re.compile(
    r"[\s$*)\].\\]{0,12}(?:(?:is|was|would be) (?:wrong|incorrect|impossible|invalid|too \w+"
    r"|not (?=the|our|my|correct|right))|fails\b|does(?: not|n[’']t) (?:work|fit|hold|satisfy)"
    r"|(?:isn[’']t|can[’']t be|cannot be) (?=the|our|my|correct|right))",
    re.IGNORECASE,
)
_SIGNED = re.compile(r"(?:(?:\A|[=$(\[\s{*])[-−]|[=$({]\s*[-−]\s*|\\pm\s*)\Z")
_VALUE = r"(\$[^$\n]{1,200}\$|\\\(.{1,200}?\\\)|[-+]?\d[\d.,/]*)(?=[\s.!*$)]*\Z|[.!$)]{1,3}\s)"
_OR_ELSE = re.compile(
    r"[\s$)\\\]]{0,9}(?:,\s{0,9}(?:\$[^$\n]{1,60}\$|\d{1,9})){0,5},?\s{0,9}\(?(?:or\b|\\text\s*\{\s*or\s*\})\s{0,9}(?:maybe|perhaps|possibly|else|even)?\s{0,9}"
    rf"{_VALUE}",
    re.IGNORECASE,
)
"""After a box: another value that may be the answer."""
_MEANT = re.compile(
    r"(?:\bI\s+meant?(?:\s+to\s+(?:say|write|put|box))?|\bmake\s+(?:that|it)|\b(?:sorry|oops|correction|actually)\b"
    r"|\b(?:no|rather)\s?[,:;–—]"
    r"|\b(?:sorry|oops|wait|no|actually|edit|I\s+was\s+wrong|I\s+made\s+an?\s+(?:error|mistake))\b[.]?[^.\n]{0,40}?"
    r"\b(?:it|that|this|the\s+(?:\w+\s+)?(?:answer|value|result))(?:[’']s|\s+is|\s+should\s+(?:be|have\s+been)))"
    rf"[\s:,.!–—-]{{1,9}}{_VALUE}",
    re.IGNORECASE,
)
"""After an answer: the value that was meant instead."""
_GOES_ON = re.compile(
    r"\s?(?:\\(?:sqrt|pi|times|cdot|div|pm)(?![A-Za-z])|[+*]|[-/]\s?(?=[\d(]|\\(?:sqrt|pi))|\^(?!\s*\{?\s*\\circ)|!(?=\s*\$)"
    r"|,\s?(?=-?\d[^$\n=&]{0,200}(?:\$|\\\)|\\\])))"
    r"[^$\n=&]{0,200}?(?=\$|\\\)|\\\]|=|\n|\Z)"
)
"""After a box: the rest of its formula."""
_INSIDE = re.compile(r"(?:\d|\\[dtc]?frac\{(?:[^{}]{0,30}\}\{)?|\\sqrt(?:\[[^\[\]]{1,9}\])?\{|[\^_]\{?)\Z")
"""Before a box that is only a part of a value."""
_ASKED = re.compile(r"[\s$*)\]\\]{0,12}\?(?!\s*(?:yes|indeed|correct|right|oui|ja|sí)\b)", re.IGNORECASE)
_BOLD = re.compile(r"\*\*([^*\n]{1,400})\*\*[\s.!]*\Z")
_OPEN_TAG = r"(?:\s[^<>\n]{0,200})?\s*/?>"
_STRONG = re.compile(rf"</?(?:b|strong){_OPEN_TAG}", re.IGNORECASE)
_TAG = re.compile(rf"</?(?:p|div|span|i|em|u|br|h[1-6]){_OPEN_TAG}", re.IGNORECASE)
_END_TAG = re.compile(r"</(?:p|div|span|b|strong|i|em|u|h[1-6])>", re.IGNORECASE)
_PROBLEM = r"(?:Question|Problem|Q|Human|User|Instruction|题目|问题)[ \t*_]*:"
_ANSWERED = re.compile(
    r"\\(?:boxed|fbox)(?![A-Za-z])|^#{4}[ \t]"
    r"|(?P<sought>\bto (?:find|obtain|compute|determine|reach|calculate|derive) (?:the|final) answer:"
    r"(?![ \t*$\\(]*[-\d]))"
    r"|\b(?:the|final) answer"
    r"(?: is\b(?!\s+(?:to\s|an?\s+(?:\w+\s+)?(?:integer|number)\b|required|expected))|:)"
    r"|^(?-i:A)[ \t]*:[ \t]*\$?-?\d[\d.,/]*%?[ \t]*$"
    r"|^\W{0,4}(?:final )?answer\b"
    r"(?!\s+(?:the|this|that|each|all|these|those|every|any|both|my|your|in|with|as|by|using|only)\b)"
    rf"(?!\W*{_PROBLEM})",
    re.IGNORECASE | re.MULTILINE,
)
_NEXT = re.compile(rf"^[ \t*#_]*{_PROBLEM}", re.MULTILINE)
_TO_GRADER = re.compile(
    r"^[ \t*#_(\[]*(?:note (?:to|for) (?:the )?|)grader(?:['’]s)?(?: note| instructions?)?[ \t*_]*:",
    re.IGNORECASE | re.MULTILINE,
)
_COMMENT = re.compile(r"(?:^|(?<=[.;:!?,]))[ \t]*(?<!\\)%[ \t][^\n]*", re.MULTILINE)
_WITHDRAWN = re.compile(
    r"\bI\s+(?:hereby\s+|must\s+|have\s+to\s+)?(?:withdraw|retract|take\s+(?:it|this|that)\s+back)\b"
    r"|\b(?:disregard|ignore)\s+(?:the|this|that|my)\s+(?:above\s+|previous\s+|boxed\s+)?(?:answer|box)\b",
    re.IGNORECASE,
)
_FIELD = re.compile(
    r'"(?:final[_ ])?answer"\s*:\s*("(?:[^"\\\n]|\\.){1,400}"|-?[\d.]{1,40})\s*\}\s*(?:```)?\s*\Z',
    re.IGNORECASE,
)
_CONTROL = re.compile(r"[\b\f\r\t]")
"""What JSON makes of the start of ``\\beta``, ``\\frac``, ``\\rho`` and ``\\theta``."""
_ENVIRONMENT_END = re.compile(r"\\end\{((?:align|gather|equation|eqnarray)(?:ed)?\*?)\}[\s.]*\Z")
_ITEM = re.compile(r"\s*(?:[-*•]|\d{1,2}[.)])\s+(.{1,400})\Z")
_A = re.compile(r"A[ \t]*:[ \t]+(?=\S)")
"""``A: 18``, as after the questions of a prompt with examples. ``B:`` elsewhere makes it a choice."""
_B = re.compile(r"^[ \t*_(]*[B-H][ \t*_]*[:.)]", re.MULTILINE)
_NAMES_A = re.compile(r"(?<!\\)\$[^$]*(?<![A-Za-z\\])A(?![A-Za-z])[^$]*\$")
_NAMED_CELL = re.compile(r"(?:final |the )?(?:answer|result)", re.IGNORECASE)
_CONTINUED = re.compile(r"(?:\*\*|\d\$?)\s*(?:,|(?:,\s*)?(?:and|und|et|y))\s*\Z", re.IGNORECASE)
"""Before a bold text: it is the end of a list."""
_ALTERNATIVE = re.compile(r"(?:\b(?:or|ou|oder|o|not|nicht|pas|no)|或|或者|不是)[\s:,]*\Z", re.IGNORECASE)
_CLOSING = " \t\n$.*_!\\)]}"  # characters that may close a box's formula or sentence
_TAIL = 20_000  # how many characters at the end of a text the patterns without a box search


class Extraction(NamedTuple):
    """The answer's own text and how it was found, or None and why there is none."""

    answer: str | None
    how: str


class _Box(NamedTuple):
    """A box: the positions where its command starts, its content starts and ends, and the box ends."""

    start: int
    low: int
    high: int
    end: int


def extract_answer(text: str, *, strict: bool = False, statement: str = "") -> Extraction:
    r"""The final answer of a completion.

    Args:
        text: What a model wrote; anything at all.
        strict: Take only boxes, from the unchanged text.
        statement: The problem. With it, a last sentence about what it asks for is read (`claims.py`).

    Returns:
        The answer as written in the text, without outer delimiters, and how it was found;
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
    if not strict:
        message = own_message(text)
        if message is None:
            return Extraction(None, UNCLOSED_THINKING)
        text = as_ascii(message)
    answer = after_thinking(text)
    if answer is None:
        return Extraction(None, UNCLOSED_THINKING)
    text = answer if strict else _own_part(answer)
    boxes, unclosed_after = _boxes(text)
    if strict:
        if not boxes and unclosed_after < 0:
            return Extraction(None, NO_BOX)
        return _boxed(text, boxes, unclosed_after)
    if not boxes and unclosed_after < 0:
        return _unboxed(text[-_TAIL:], statement)
    if boxes and unclosed_after < 0 and not text[boxes[-1].end :].strip(_CLOSING):
        return _boxed(
            text, boxes, unclosed_after, wide=True
        )  # nothing follows that could quote or correct it
    quoted = Quotations(text)
    boxes = [box for box in boxes if box.start not in quoted]
    if unclosed_after in quoted:
        unclosed_after = -1
    if not boxes and unclosed_after < 0:
        return _unboxed(text[-_TAIL:], statement)
    found = _boxed(text, boxes, unclosed_after, wide=True)
    return _corrected(text, boxes[-1].end, found) if boxes and found.how != UNCLOSED_BOX else found


def _boxes(text: str) -> tuple[list[_Box], int]:
    """The outermost boxes of a text, and where the last unclosed box starts (-1 if there is none)."""
    first = min((i for i in (text.find("\\boxed"), text.find("\\fbox")) if i >= 0), default=-1)
    if first < 0:
        return [], -1
    boxes: list[_Box] = []
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
                    boxes.append(_Box(match.start(), bare.start(), bare.end(), bare.end()))
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
                boxes.append(_Box(start, opened + 1, match.start(), match.end()))
    return boxes, max([unclosed_after, *(start for _, start in braces)])


def _boxed(text: str, boxes: list[_Box], unclosed_after: int, *, wide: bool = False) -> Extraction:
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
        if (any(sign in before for sign in _DENIALS) and _DENIED.search(before)) or _REFUSED.match(
            text, chain[-1].end
        ):
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
        contents.append(peel(other[1]))
        joints.append("or")
    if len(contents) == 1:
        return Extraction(contents[0], "box")
    if wide and len(chain) > 1:
        contents[: len(chain)] = _named(text, chain, contents[: len(chain)])
    distinct = list(dict.fromkeys(contents))
    joiner = r" \text{ or } " if "or" in joints and "," not in joints else ", "
    return Extraction(joiner.join(distinct), "box" if len(distinct) == 1 else "boxes")


def _joint(text: str, box: _Box, following: _Box, wide: bool) -> str | None:
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


def _named(text: str, chain: list[_Box], contents: list[str]) -> list[str]:
    """``x = 1`` and ``y = 2`` for boxes that hold values, if a name precedes each of them."""
    names = [
        _NAMED.search(" ".join(_LAYOUT.sub(" ", text[max(0, box.start - 40) : box.start]).split()) + " ")
        for box in chain
    ]
    found = [name.group(1) for name in names if name]
    if len(found) < len(chain) or len(set(found)) == 1:
        return contents
    return [f"{name} = {content}" for name, content in zip(found, contents, strict=True)]


def _corrected(text: str, end: int, found: Extraction) -> Extraction:
    """The answer found in boxes, unless the text after them states another answer."""
    after = text[end:][-_TAIL:]
    later = last_statement(after, Quotations(after), boxed=True)
    if later is not None:
        return Extraction(later.answer, "phrase")
    if meant := _meant(after):
        return Extraction(meant, "phrase")
    return Extraction(None, WITHDRAWN) if _WITHDRAWN.search(after) else found


def _meant(text: str) -> str | None:
    """The value that a text puts in an answer's place: "sorry, I meant 6"."""
    meant = _MEANT.search(text)
    return None if meant is None or supposed(text, meant.start()) else peel(meant[1])


def _own_part(text: str) -> str:
    """The text up to another problem or a word to the grader, without LaTeX's comments and simple HTML.

    A base model goes on with a problem of its own once it has answered. Only comments after a box are left
    out; bold text stays bold.
    """
    answered = next((one for one in _ANSWERED.finditer(text) if not one["sought"]), None)
    if answered and (another := _NEXT.search(text, answered.end())):
        text = text[: another.start()]
    if said := _TO_GRADER.search(text):
        text = text[: said.start()]
    box = text.find("\\boxed") if "%" in text else -1
    if box >= 0:
        text = text[:box] + _COMMENT.sub("", text[box:])
    if "</" in text and _END_TAG.search(text):
        text = _TAG.sub("", _STRONG.sub("**", text))
    return text


def _unboxed(text: str, statement: str) -> Extraction:
    text = without_extras(text)
    if text.endswith("</answer>") or "<answer>" in text:
        _, _, tagged = text.rpartition("<answer>")
        inner = tagged.partition("</answer>")[0].strip()
        if inner:
            return (
                Extraction(stated(peel(inner)) or peel(inner), "phrase")
                if len(inner) <= 400
                else _unboxed(inner, statement)
            )
    quoted = Quotations(text)
    if said := last_statement(text, quoted):
        return Extraction(_meant(text[-200:]) or said.answer, "phrase")
    if text.endswith(("}", "```")) and (field := _FIELD.search(text, max(0, len(text) - 500))):
        return Extraction(_written(field[1]), "phrase")
    if (bold := _BOLD.search(text, max(0, len(text) - 420))) and bold.start() not in quoted:
        before = max(0, bold.start() - 40), bold.start()
        if _ALTERNATIVE.search(text, *before):
            return Extraction(None, NO_ANSWER)
        if not _CONTINUED.search(text, *before):
            claimed = claim(statement, f"{bold.group(1)}.") if statement else None
            return Extraction(claimed or bold_sentence(bold.group(1)), "bold")
    if len(text) - 1 in quoted:
        return Extraction(None, NO_ANSWER)
    clear = clear_ending(text)
    return Extraction(clear, "final line") if clear else _final_line(text, statement)


def _written(value: str) -> str:
    r"""The answer in a field of JSON; where LaTeX's commands are not escaped (``"\frac12"``), as it stands.

    Example:
        >>> [_written(value) for value in (r'"\\frac12"', r'"\frac12"', r'"\sqrt2"', "1.50", "1.2.3")]
        ['\\frac12', '\\frac12', '\\sqrt2', '1.50', '1.2.3']
    """
    if value[0] != '"':
        return value
    try:
        text = str(json.loads(value))
    except ValueError:
        return value[1:-1]
    return value[1:-1] if _CONTROL.search(text) else text


def _final_line(text: str, statement: str) -> Extraction:
    if text.endswith(("$$", "\\]")):
        opening = text.rfind("$$", 0, -2) if text.endswith("$$") else text.rfind("\\[")
        if opening >= 0:
            display = peel(text[opening:])
            return Extraction(_end_of_chain(display) or display, "final line")
    if chained := _end_of_chain(text):
        return Extraction(chained, "final line")
    if items := _items(text):
        return Extraction(", ".join(items), "final line")
    line = escape_money(text[text.rfind("\n") + 1 :].strip())
    if line.startswith("|") and line.endswith("|"):
        cells = [peel(cell) for cell in line.strip("|").split("|")]
        named = len(cells) > 1 and _NAMED_CELL.fullmatch(cells[0]) and is_value(cells[-1])
        return Extraction(cells[-1], "final line") if named else Extraction(None, NO_ANSWER)
    if (labelled := _A.match(line)) and not _B.search(text) and not _NAMES_A.search(escape_money(statement)):
        line = line[labelled.end() :]
    line = re.sub(r"^(?:.*\s)?#{2,}\s+|^(?:#|[-*>])\s+", "", line)
    sentence = without_aside(last_sentence(line[-4000:]))
    if statement and not is_remark(sentence) and (claimed := claim(statement, sentence)):
        return Extraction(claimed, "final line")
    bare = peel(line)
    if bare and len(bare) <= 400 and is_value(bare):
        return Extraction(bare, "final line")
    if is_remark(sentence):
        return Extraction(None, NO_ANSWER)
    value = concluded(sentence)
    if value:
        return Extraction(value, "final line")
    words = re.findall(r"(?<![\\A-Za-z])[A-Za-z]{2,}", re.sub(r"\\[A-Za-z]+", " ", bare))
    bare = without_opener(bare)
    beside = statement and is_unasked(statement, sentence)
    doubted = re.search(r"\d", bare) and leaves_doubt(MATH_SPAN.sub(" ", bare))
    if bare and len(bare) <= 400 and len(words) <= 3 and not beside and not doubted:
        return Extraction(bare, "final line")
    return Extraction(None, NO_ANSWER)


def _items(text: str) -> list[str]:
    """The values of a text's last lines, if these are the items of a list and all of them are values."""
    items: list[str] = []
    for line in reversed(text.split("\n")[-20:]):
        match = _ITEM.match(line)
        if match is None:
            break
        items.append(peel(match[1]))
    return items[::-1] if len(items) > 1 and all(map(is_value, items)) else []


def _end_of_chain(text: str) -> str | None:
    """What follows the last sign of a chain of equations that ends a text, one line for each step."""
    end = _ENVIRONMENT_END.search(text, max(0, len(text) - 60))
    start = text.rfind(rf"\begin{{{end[1]}}}", max(0, len(text) - 4000)) if end else -1
    if end is None or start < 0:
        return None
    last = text[start : end.start()].rsplit("\\\\", 1)[-1].replace("&", " ").strip()
    return peel(last[1:]) if last.startswith("=") else None
