r"""Finds the final answer of a completion: a pure function, linear in the length of the text.

Only the model's own message is read: the text after the last ``</think>``, up to a control token, another
problem or a word to the grader. Then there are three stages; the first that finds something decides:

1. **Box**: the last ``\boxed{...}`` with those joined to it (`boxes.py`). A later "answer is" replaces it.
2. **Marker**: what follows the last "the answer is", "Answer:", "####", "答案是" (`vocabulary.py`).
3. **Last line**: bold text, a formula, a value, or a sentence that concludes with one (`sentences.py`) or
   says what the problem asks for (`question.py`).

A negated, hedged, corrected or alternative statement is no answer (`doubt.py`), and quotations do not count
(`quotations.py`). Strict mode reads boxes only, from the unchanged text.
"""

from __future__ import annotations

import re

from mars_env.grading.math.boxes import NO_BOX, UNCLOSED_BOX, VALUE, Extraction, boxed, find_boxes
from mars_env.grading.math.doubt import corrects, doubtful, introduces_another, of_another_case
from mars_env.grading.math.question import claimed, is_unasked
from mars_env.grading.math.quotations import Quotations
from mars_env.grading.math.sentences import (
    MATH_SPAN,
    clause,
    concluded,
    hidden,
    is_value,
    last_sentence,
    only_number,
    stated,
    undelimited,
    without_remarks,
)
from mars_env.grading.math.tokens import as_ascii, escape_money
from mars_env.grading.math.vocabulary import CONCLUSION, MARKER, WITHDRAWAL
from mars_env.grading.message import own_message
from mars_env.grading.thinking import UNCLOSED_THINKING, after_thinking

__all__ = ["Extraction", "extract_answer"]

NO_ANSWER = "no answer was found"
WITHDRAWN = "the answer is withdrawn"

_MEANT = re.compile(
    r"(?:\bI\s+meant?(?:\s+to\s+(?:say|write|put|box))?|\bmake\s+(?:that|it)|\b(?:sorry|oops|correction|actually)\b"
    r"|\b(?:no|rather)\s?[,:;–—]"
    r"|\b(?:sorry|oops|wait|no|actually|edit|I\s+was\s+wrong|I\s+made\s+an?\s+(?:error|mistake))\b[.]?[^.\n]{0,40}?"
    r"\b(?:it|that|this|the\s+(?:\w+\s+)?(?:answer|value|result))(?:[’']s|\s+is|\s+should\s+(?:be|have\s+been)))"
    rf"[\s:,.!–—-]{{1,9}}{VALUE}",
    re.IGNORECASE,
)
"""After an answer: the value that was meant instead."""
_IDLE = re.compile(
    r"(?:also\s+)?(?:unique|correct|right|clear|obvious|independent|consistent|verified|confirmed|valid|reasonable"
    r"|positive|as\s+follows|an?\s|the\s+same|in\s+the|well\b|plausible|always)",
    re.IGNORECASE,
)
"""After a marker: a remark on the answer."""
_ANOTHER = re.compile(r"\b(?:book|hint|key|given|part|first|previous)\b", re.IGNORECASE)
"""Within a marker: it is about another answer."""
_BOLD_END = re.compile(r"\*\*([^*\n]{1,400})\*\*[\s.!]*\Z")
_BOLD = re.compile(r"\*\*([^*\n]{1,200})\*\*")
_ALTERNATIVE = re.compile(r"(?:\b(?:or|ou|oder|o|not|nicht|pas|no)|或|不是)[\s:,]*\Z", re.IGNORECASE)
_CONTINUED = re.compile(r"(?:\*\*|\d\$?)\s*(?:,|(?:,\s*)?and)\s*\Z", re.IGNORECASE)
"""Before a bold text: an alternative, or the start of a list."""
_PROBLEM = r"(?:Question|Problem|Q|Human|User|Instruction|题目|问题)[ \t*_]*:"
_NEXT = re.compile(rf"^[ \t*#_]*{_PROBLEM}", re.MULTILINE)
_ANSWERED = re.compile(
    r"\\(?:boxed|fbox)(?![A-Za-z])|^A[ \t]*:[ \t]*\$?-?\d[\d.,/]*%?[ \t]*$"
    rf"|(?:{MARKER.pattern})(?=[ \t*$\\({{]*(?:-?\d|(?:[A-Z]|yes|no)\b|\\))",
    re.IGNORECASE | re.MULTILINE,
)
_TO_GRADER = re.compile(
    r"^[ \t*#_(\[]*(?:note (?:to|for) (?:the )?|)grader(?:['’]s)?(?: note| instructions?)?[ \t*_]*:",
    re.IGNORECASE | re.MULTILINE,
)
_COMMENT = re.compile(r"(?:^|(?<=[.;:!?,]))[ \t]*(?<!\\)%[ \t][^\n]*", re.MULTILINE)
_OFFER = re.compile(
    r"(?:\n[ \t]*|(?<=[.!?)*])[ \t]+)(?:would you like|do you want|let me know|feel free|shall i|i can also"
    r"|if you(?:['’]d| would)? (?:like|want|have|need)|(?:i )?hope (?:this|that) helps)\b[^\n]{0,300}[?!.]\Z"
    r"|(?:\n[ \t]*|(?<=[.!*])[ \t]+)(?P<remark>\([A-Z][^()\n]{1,300}\)\.?)\Z",
    re.IGNORECASE,
)
"""An offer of help, or a bracketed remark, at the end."""
_ENVIRONMENT_END = re.compile(r"\\end\{(?:align|gather|eqnarray)(?:ed)?\*?\}[\s.]*(?:\$\$|\\\])?\Z")
_ITEM = re.compile(r"\s*(?:[-*•]|\d{1,2}[.)])\s+(.{1,400})\Z")
_LABEL = re.compile(r"A[ \t]*:[ \t]+(?=\S)")
"""``A: 18``, as after the questions of a prompt with examples. ``B:`` elsewhere makes it a choice."""
_OTHER_LABEL = re.compile(r"^[ \t*_(]*[B-H][ \t*_]*[:.)]", re.MULTILINE)
_NAMES_A = re.compile(r"(?<!\\)\$[^$]*(?<![A-Za-z\\])A(?![A-Za-z])[^$]*\$")
_RESULT = re.compile(r"=\s*\$?\\?\$?\s*(-?\d[\d,]*(?:\.\d+)?)")
_CLOSING = " \t\n$.*_!\\)]}"  # characters that may close a box's formula or sentence
_TAIL = 20_000  # how many characters at the end of a text the stages after the box search
_MOST_MARKERS = 12
_AFTERTHOUGHT = 120  # how many characters after an answer may say that it was wrong


def extract_answer(text: str, *, strict: bool = False, statement: str = "") -> Extraction:
    r"""The final answer of a completion.

    Args:
        text: What a model wrote; anything at all.
        strict: Take only boxes, from the unchanged text.
        statement: The problem. With it, a last sentence about what it asks for is read.

    Returns:
        The answer as written in the text, without outer delimiters, and how it was found;
        or None and the reason.

    Example:
        >>> extract_answer(r"First \boxed{24}, no: \boxed{\frac{50}{2}}.")
        Extraction(answer='\\frac{50}{2}', how='box')
        >>> extract_answer("The answer is **25**.")
        Extraction(answer='25', how='marker')
        >>> extract_answer("The answer is 25.", strict=True)
        Extraction(answer=None, how='no boxed answer was found')
        >>> extract_answer(r"<think>\boxed{1}").answer is None
        True
    """
    message = text if strict else own_message(text)
    own = None if message is None else after_thinking(message if strict else as_ascii(message))
    if own is None:
        return Extraction(None, UNCLOSED_THINKING)
    text = own if strict else _own_part(own)
    boxes, unclosed_after = find_boxes(text)
    if strict:
        none = not boxes and unclosed_after < 0
        return Extraction(None, NO_BOX) if none else boxed(text, boxes, unclosed_after)
    if not boxes or text[boxes[-1].end :].strip(_CLOSING):  # nothing else can be quoted or corrected
        quoted = Quotations(text)
        boxes = [box for box in boxes if box.start not in quoted]
        unclosed_after = -1 if unclosed_after in quoted else unclosed_after
    if not boxes and unclosed_after < 0:
        return _unboxed(text[-_TAIL:].rstrip(), statement)
    found = boxed(text, boxes, unclosed_after, wide=True)
    return _corrected(text[boxes[-1].end :][-_TAIL:], found) if boxes and found.how != UNCLOSED_BOX else found


def _own_part(text: str) -> str:
    """The text up to another problem or a word to the grader, without LaTeX's comments after a box."""
    answered = _ANSWERED.search(text)
    if answered and (another := _NEXT.search(text, answered.end())):
        text = text[: another.start()]
    if said := _TO_GRADER.search(text):
        text = text[: said.start()]
    box = text.find("\\boxed") if "%" in text else -1
    return text if box < 0 else text[:box] + _COMMENT.sub("", text[box:])


def _corrected(after: str, found: Extraction) -> Extraction:
    """The answer found in boxes, unless the text after them states another answer or withdraws it."""
    later = _marked(after, boxed=True)
    if later is not None:
        return Extraction(later, "marker")
    if meant := _meant(after):
        return Extraction(meant, "marker")
    return Extraction(None, WITHDRAWN) if WITHDRAWAL.search(after) else found


def _meant(text: str) -> str | None:
    """The value that a text puts in an answer's place: "sorry, I meant 6"."""
    meant = _MEANT.search(text)
    return None if meant is None or introduces_another(text, meant.start()) else undelimited(meant[1])


def _unboxed(text: str, statement: str) -> Extraction:
    while offer := _OFFER.search(text, max(0, len(text) - 1000)):
        if offer["remark"] and (doubtful(offer["remark"], beside_number=True) or corrects(offer["remark"])):
            break
        text = text[: offer.start()].rstrip()
    _, tag, tagged = text.rpartition("<answer>")
    inner = undelimited(tagged.partition("</answer>")[0])
    if tag and inner:
        return (
            Extraction(stated(inner) or inner, "marker") if len(inner) <= 400 else _unboxed(inner, statement)
        )
    said = _marked(text)
    if said is not None:
        if meant := _meant(text[-200:]):
            return Extraction(meant, "marker")
        _, found, after = text.rpartition(said)
        wrong = found and corrects(after[:_AFTERTHOUGHT])
        return Extraction(None, WITHDRAWN) if wrong else Extraction(said, "marker")
    value = _last_line(text, statement)
    return Extraction(value, "last line") if value else Extraction(None, NO_ANSWER)


def _marked(text: str, *, boxed: bool = False) -> str | None:
    """What follows the last marker of a text; None if there is none.

    A marker about another case ("for n = 1, the answer is 3") takes the place of no earlier answer, unless
    the text between them says that this was wrong. After a box, only values count.
    """
    case: tuple[int, str] | None = None
    quoted = Quotations(text)
    for marker in reversed(list(MARKER.finditer(text))[-_MOST_MARKERS:]):
        place = marker.start()
        if place in quoted or introduces_another(text, place) or _ANOTHER.search(marker.group()):
            continue
        said, value = _after(text, marker)
        if said is None or ((boxed or case) and not value):
            continue
        if of_another_case(text, place):
            case = case or (place, said)
        else:
            return case[1] if case and corrects(text[marker.end() : case[0]]) else said
    return case[1] if case and (not boxed or corrects(text[: case[0]])) else None


def _after(text: str, marker: re.Match[str]) -> tuple[str | None, bool]:
    """What follows a marker, and whether it is a value; None for nothing, a question, or a remark."""
    said, asked = clause(escape_money(text[marker.end() : marker.end() + 5000]))
    if not said or asked or _IDLE.match(said):
        return None, False
    if said.startswith("~") and text[marker.end() : marker.end() + 9].lstrip(" *_").startswith("~"):
        return rf"\approx {said[1:]}", False
    if value := stated(said):
        return value, True
    named = marker.group().rstrip("*_ \t\n").endswith((":", "】", "#"))
    if named and (number := only_number(said)):
        return number, False
    bold = _BOLD.findall(text[marker.end() : marker.end() + len(said) + 8])
    sure = len(bold) == 1 and not doubtful(said, beside_number=True)
    return undelimited(bold[0]) if sure else said, False


def _last_line(text: str, statement: str) -> str | None:
    """The answer that the end of a text gives; None where it gives none, or with a doubt."""
    if len(text) - 1 in Quotations(text):
        return None
    if (end := _ENVIRONMENT_END.search(text, max(0, len(text) - 60))) and "\\begin" in text:
        last = text[text.rfind("\\begin") : end.start()].rpartition("\\\\")[2].replace("&", " ").strip()
        return undelimited(last[1:]) if last.startswith("=") else None
    if text.endswith(("$$", "\\]")):
        opening = text.rfind("$$", 0, -2) if text.endswith("$$") else text.rfind("\\[")
        return undelimited(text[opening:]) if opening >= 0 else None
    if items := _items(text):
        return ", ".join(items)
    line = escape_money(text[text.rfind("\n") + 1 :].strip())
    if line.startswith(("|", "{")) or line.endswith("[/asy]"):
        return None  # the end of a formula, of a table, of a picture
    label = _LABEL.match(line)
    if label and not _OTHER_LABEL.search(text) and not _NAMES_A.search(escape_money(statement)):
        line = line[label.end() :]
    line = re.sub(r"^(?:(?:#+|[-*>])\s+|\\end\{\w+\*?\}|\\\]|\$\$(?!.*\$\$))", "", line)
    bold = _BOLD_END.search(line)
    if bold and _ALTERNATIVE.search(line, 0, bold.start()):
        return None
    whole = bold is not None and not line[: bold.start()].strip(" =")
    if bold and (whole or _is_answer_in_bold(line[: bold.start()], bold[1])):
        line = bold[1]
    bare, sentence = undelimited(without_remarks(line)), last_sentence(line[-4000:])
    value = claimed(statement, sentence) or (bare if is_value(bare) else None)
    value = value or concluded(sentence) or _repeated(text, sentence)
    value = value or (only_number(without_remarks(sentence)) if whole else None)
    if value:
        return value
    return None if is_unasked(statement, sentence) else _few_words(bare)


def _few_words(line: str) -> str | None:
    """A line of at most three words, without its "so"; numbers among them need an equals sign or "is"."""
    words = re.findall(r"(?<![\\A-Za-z])[A-Za-z]{2,}", re.sub(r"\\[A-Za-z]+", " ", line))
    numbers = re.search(r"\d", line) is not None
    if not line or len(line) > 400 or len(words) > 3 or doubtful(hidden(line), beside_number=numbers):
        return None
    if numbers and not re.search(r"[=+<>≤≥\\]|\bis\b", line):
        return None
    return CONCLUSION.sub("", line, count=1).lstrip(" ,:") or None


def _is_answer_in_bold(before: str, bold: str) -> bool:
    """Whether bold text at the end of a line is its answer: a value or a few words, without doubt."""
    return (
        not _CONTINUED.search(before) and not doubtful(MATH_SPAN.sub(" ", before)) and len(bold.split()) <= 4
    )


def _items(text: str) -> list[str]:
    """The values of a text's last lines, if these are the items of a list and all of them are values."""
    items: list[str] = []
    for line in reversed(text.split("\n")[-20:]):
        match = _ITEM.match(line)
        if match is None:
            break
        items.append(undelimited(match[1]))
    return items[::-1] if len(items) > 1 and all(map(is_value, items)) else []


def _repeated(text: str, sentence: str) -> str | None:
    """The only number of a last sentence, if it is the result of the last computation before it."""
    results = _RESULT.findall(text[-2000 : -len(sentence)])
    number = only_number(sentence) if results and sentence.endswith(".") else None
    same = number is not None and number.lstrip("\\$").replace(",", "") == results[-1].replace(",", "")
    return number if same else None
