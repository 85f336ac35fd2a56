r"""Finds the final answer of a completion: a pure function, linear in the length of the text.

The first stage that finds something decides: the last ``\boxed{...}`` (`boxes.py`; a later "answer is"
replaces it), the last marker such as "the answer is" (`vocabulary.py`), the last line (`sentences.py`,
`question.py`). What is negated, hedged, corrected, conditional or quoted is no answer (`doubt.py`).
"""

from __future__ import annotations

import re
from itertools import takewhile

from mars_env.grading.math.boxes import UNCLOSED_BOX, VALUE, Extraction, boxed
from mars_env.grading.math.doubt import QUOTED, doubtful, is_conditional, is_denied, without_quotations
from mars_env.grading.math.question import claimed, is_another, is_unasked, restated, with_unit_after
from mars_env.grading.math.sentences import (
    BOLD,
    MATH_SPAN,
    asserted,
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
from mars_env.grading.math.vocabulary import CONCLUSION, CORRECTION, MARKER, WITHDRAWAL
from mars_env.grading.message import own_message
from mars_env.grading.thinking import UNCLOSED_THINKING, after_thinking

_WITHDRAWN = Extraction(None, "the answer is withdrawn")

_MEANT_INSTEAD = re.compile(
    r"(?:\bI\s+meant?(?:\s+to\s+(?:say|write|put|box))?|\bmake\s+(?:that|it)|\b(?:sorry|oops|correction|actually)\b"
    r"|\b(?:no|rather)\s?[,:;–—]"
    r"|\b(?:sorry|oops|wait|no|actually|edit|I\s+was\s+wrong|I\s+made\s+an?\s+(?:error|mistake))\b[.]?[^.\n]{0,40}?"
    r"\b(?:it|that|this|the\s+(?:\w+\s+)?(?:answer|value|result))(?:[’']s|\s+is|\s+should\s+(?:be|have\s+been)))"
    rf"[\s:,.!–—-]{{1,9}}{VALUE}",
    re.IGNORECASE,
)
_REMARK_ON_THE_ANSWER = re.compile(
    r"(?:also\s+)?(?:unique|correct|right|clear|obvious|independent|consistent|verified|confirmed|valid|reasonable"
    r"|positive|as\s+follows|an?\s|the\s+same|in\s+the|well\b|plausible|always)",
    re.IGNORECASE,
)
_ANOTHERS = re.compile(r"\b(?:book|hint|key|given|part|first|previous|smaller|simpler)\b", re.IGNORECASE)
_BOLD_END = re.compile(r"\*\*([^*\n]{1,400})\*\*[\s.!]*\Z")
_NEXT = re.compile(
    r"^[ \t*#_]*(?:Question|Problem|Q|Human|User|Instruction|题目|问题)[ \t*_]*:", re.MULTILINE
)
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
_OFFER_OR_REMARK = re.compile(
    r"(?:\n[ \t]*|(?<=[.!?)*])[ \t]+)(?:would you like|do you want|let me know|feel free|shall i|i can also"
    r"|that['’]s (?:the|my) answer|if you(?:['’]d| would)? (?:like|want|have|need)"
    r"|(?:i )?hope (?:this|that) helps)\b[^\n]{0,300}[?!.]\Z"
    r"|\n[ \t]*where \$?[A-Z]\$? is (?:the|an?) (?:arbitrary )?constant\b[^\n]{0,40}\Z"
    r"|(?:\n[ \t]*|(?<=[.!*])[ \t]+)(?P<remark>\([A-Z][^()\n]{1,300}\)\.?)\Z",
    re.IGNORECASE,
)
_ENVIRONMENT_END = re.compile(r"\\end\{(?:align|gather|eqnarray)(?:ed)?\*?\}[\s.]*(?:\$\$|\\\])?\Z")
_ITEM = re.compile(r"\s*(?:[-*•]|\d{1,2}[.)])\s+(.{1,400})\Z")
_LABEL = re.compile(r"A[ \t]*:[ \t]+(?=\S)")  # as after the questions of a prompt with examples
_OTHER_LABEL = re.compile(r"^[ \t*_(]*[B-H][ \t*_]*[:.)]", re.MULTILINE)
_NO_SOLUTION = re.compile(r"\bno (?:real |integer )?solutions?(?=\.?\Z)")
_RESULT = re.compile(r"=\s*\$?\\?\$?\s*(-?\d[\d,]*(?:\.\d+)?)")
_KIND = re.compile(r"(?:So|Thus|Hence|Therefore),? [A-Za-z ]+ is ([a-z]+)\Z", re.IGNORECASE)
_TAIL = 20_000  # so many characters at the end of a text the stages after the box search
_AFTERTHOUGHT = 120  # so many characters after an answer may say that it was wrong


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
    """
    message = text if strict else own_message(text)
    own = None if message is None else after_thinking(message if strict else as_ascii(message))
    if own is None:
        return Extraction(None, UNCLOSED_THINKING)
    text = own if strict else _own_part(own)
    found = boxed(text, strict=strict)
    if found is None:
        none = Extraction(None, "no boxed answer was found")
        return none if strict else _unboxed(text[-_TAIL:].rstrip(), statement)
    box, end = found
    return box if strict or box.how == UNCLOSED_BOX else _corrected(text[end:][-_TAIL:], statement, box)


def _own_part(text: str) -> str:
    """The text up to another problem or a word to the grader, without LaTeX's comments after a box."""
    answered = _ANSWERED.search(text)
    if answered and (another := _NEXT.search(text, answered.end())):
        text = text[: another.start()]
    if said := _TO_GRADER.search(text):
        text = text[: said.start()]
    box = text.find("\\boxed") if "%" in text else -1
    return text if box < 0 else text[:box] + _COMMENT.sub("", text[box:])


def _corrected(after: str, statement: str, found: Extraction) -> Extraction:
    """The answer found in boxes, unless the text after them states another answer or withdraws it."""
    later = _marked(after, statement, boxed=True) or _meant(after)
    if later:
        return Extraction(later, "marker")
    return _WITHDRAWN if WITHDRAWAL.search(after) else found


def _meant(text: str) -> str | None:
    """The value that a text puts in an answer's place: "sorry, I meant 6"."""
    meant = _MEANT_INSTEAD.search(text)
    return None if meant is None or is_denied(text, meant.start()) else undelimited(meant[1])


def _unboxed(text: str, statement: str) -> Extraction:
    while offer := _OFFER_OR_REMARK.search(text, max(0, len(text) - 1000)):
        remark = offer["remark"] or ""
        if doubtful(remark, beside_number=True) or CORRECTION.search(remark):
            break
        text = text[: offer.start()].rstrip()
    inner = undelimited(text.rpartition("<answer>")[2].partition("</answer>")[0])
    if inner and "<answer>" in text:
        return (
            Extraction(stated(inner) or inner, "marker") if len(inner) <= 400 else _unboxed(inner, statement)
        )
    said = _marked(text, statement)
    if said is None:
        value = _last_line(text, statement)
        value = value and with_unit_after(statement, last_sentence(text[text.rfind("\n") + 1 :]), value)
        return Extraction(value, "last line") if value else Extraction(None, "no answer was found")
    if meant := _meant(text[-200:]):
        return Extraction(meant, "marker")
    _, found, after = text.rpartition(said)
    return _WITHDRAWN if found and CORRECTION.search(after[:_AFTERTHOUGHT]) else Extraction(said, "marker")


def _marked(text: str, statement: str, *, boxed: bool = False) -> str | None:
    """What follows the last marker of a text; None if there is none.

    A marker about another case ("for n = 1, the answer is 3") counts only if the text before it says that an
    earlier answer was wrong. After a box, only values count.
    """
    case: tuple[int, str] | None = None
    for marker in reversed(list(MARKER.finditer(without_quotations(text)))[-12:]):
        place = marker.start()
        if is_denied(text, place) or _ANOTHERS.search(marker.group()):
            continue
        said, value = _after(text, marker)
        if said is None or ((boxed or case) and not value):
            continue
        if is_conditional(text, place, statement):
            case = case or (place, said)
        else:
            return case[1] if case and CORRECTION.search(text[marker.end() : case[0]]) else said
    return case[1] if case and boxed and CORRECTION.search(text[: case[0]]) else None


def _after(text: str, marker: re.Match[str]) -> tuple[str | None, bool]:
    """What follows a marker, and whether it is a value; None for nothing, a question, or a remark."""
    if marker.group().rstrip("*_ \t\n:").endswith("s") and (items := _items(text[marker.end() :])):
        return ", ".join(items), True
    said, asked = clause(escape_money(text[marker.end() : marker.end() + 5000]))
    if not said or asked or _REMARK_ON_THE_ANSWER.match(said):
        return None, False
    if said.startswith("~") and text[marker.end() : marker.end() + 9].lstrip(" *_").startswith("~"):
        return rf"\approx {said[1:]}", False
    if value := stated(said):
        return value, True
    named = marker.group().rstrip("*_ \t\n").endswith((":", "】", "#"))
    if named and (number := only_number(said)):
        return number, False
    bold = BOLD.findall(text[marker.end() : marker.end() + len(said) + 8])
    sure = len(bold) == 1 and not doubtful(said, beside_number=True)
    return undelimited(bold[0]) if sure else said.replace("**", ""), False


def _last_line(text: str, statement: str) -> str | None:
    """The answer that the end of a text gives; None where it gives none, or with a doubt."""
    if without_quotations(text).endswith(QUOTED):
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
    if label and not _OTHER_LABEL.search(text):
        line = line[label.end() :]
    line = re.sub(r"^(?:(?:#+|[-*>→])\s+|\\end\{\w+\*?\}|\\\]|\$\$(?!.*\$\$))", "", line)
    bold = _BOLD_END.search(line)
    before = line[: bold.start()] if bold else ""
    if bold and doubtful(before.rstrip(" :,").rpartition(" ")[2], beside_number=True):
        return None
    whole = bold is not None and not before.strip(" =")
    listed = "**" in before or re.search(r"\d\$?,?\s+and\s*\Z", before)
    if bold and (
        whole or (len(bold[1].split()) <= 4 and not listed and not doubtful(MATH_SPAN.sub(" ", before)))
    ):
        line = bold[1]
    bare, sentence = undelimited(without_remarks(line)), last_sentence(line[-4000:])
    value = claimed(statement, sentence) or (bare if is_value(bare) else None)
    if not value and is_another(statement, without_remarks(sentence)):
        return None
    value = value or concluded(sentence) or _repeated(text, sentence)
    if whole and not value:
        value = only_number(without_remarks(sentence))
    value = value or restated(statement, without_remarks(sentence)) or _none(sentence)
    if value or is_unasked(statement, sentence) or doubtful(hidden(sentence)):
        return value
    return asserted(sentence) or _few_words(bare)


def _none(sentence: str) -> str | None:
    """What a sentence says that there is none of: "no solution"."""
    none = _NO_SOLUTION.search(sentence)
    return None if none is None or doubtful(_NO_SOLUTION.sub(" ", sentence)) else none[0]


def _few_words(line: str) -> str | None:
    """A line of at most three words, without its "so"; numbers among them need an equals sign or "is"."""
    words = re.findall(r"(?<![\\A-Za-z])[A-Za-z]{2,}", re.sub(r"\\[A-Za-z]+", " ", line))
    numbers = re.search(r"\d", line) is not None
    if not numbers and (kind := _KIND.match(line)) and not doubtful(line):
        return kind[1]
    if not line or len(line) > 400 or len(words) > 3 or doubtful(hidden(line), beside_number=numbers):
        return None
    if numbers and not re.search(r"[=+<>≤≥\\]|\bis\b", line):
        return None
    return CONCLUSION.sub("", line, count=1).lstrip(" ,:") or None


def _items(text: str) -> list[str]:
    """The values of a text's last lines, if these are the items of a list and all of them are values."""
    found = list(takewhile(bool, map(_ITEM.match, reversed(text.split("\n")[-20:]))))
    items = [undelimited(match[1]) for match in reversed(found) if match]
    return items if len(items) > 1 and all(map(is_value, items)) else []


def _repeated(text: str, sentence: str) -> str | None:
    """The only number of a last sentence, if it is the result of the last computation before it."""
    results = _RESULT.findall(text[-2000 : -len(sentence)])
    number = only_number(sentence) if results and sentence.endswith(".") else None
    same = number is not None and number.lstrip("\\$").replace(",", "") == results[-1].replace(",", "")
    return number if same else None
