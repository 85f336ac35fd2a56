r"""Finds the final answer of a completion: a pure function, linear in the length of the text.

The first stage that finds something decides: the last ``\boxed{...}`` (`boxes.py`; a later "answer is"
replaces it), the last marker such as "the answer is" (`vocabulary.py`), the end of the text
(`closing.py`). What is negated, hedged, corrected, conditional or quoted is no answer (`doubt.py`).
"""

import re

from mars_env.grading.math.boxes import UNCLOSED_BOX, VALUE, Extraction, boxed
from mars_env.grading.math.closing import closing_value, list_items
from mars_env.grading.math.doubt import doubtful, is_conditional, is_denied, without_quotations
from mars_env.grading.math.remarks import without_checks
from mars_env.grading.math.sentences import BOLD, clause, only_number, stated, undelimited
from mars_env.grading.math.tokens import as_ascii, escape_money
from mars_env.grading.math.vocabulary import CORRECTION, MARKER, MARKER_WORDS, WITHDRAWAL
from mars_env.grading.message import own_message
from mars_env.grading.thinking import UNCLOSED_THINKING, after_thinking

_WITHDRAWN = Extraction(None, "the answer is withdrawn")

_MEANT_INSTEAD = re.compile(
    r"(?:\bI\s+meant?(?:\s+to\s+(?:say|write|put|box))?|\bmake\s+(?:that|it)|\b(?:sorry|oops|correction|actually)\b"
    r"|\b(?:no|rather)\s?[,:;–—]"
    r"|\b(?:sorry|oops|wait|no|actually|edit|I\s+was\s+wrong|I\s+made\s+an?\s+(?:error|mistake))\b[.]?[^.\n]{0,100}?"
    r"\b(?:it|that|this|the\s+(?:\w+\s+)?(?:answer|value|result))(?:[’']s|\s+is|\s+should\s+(?:be|have\s+been)))"
    rf"[\s:,.!–—-]{{1,9}}{VALUE}",
    re.IGNORECASE,
)
_REMARK_ON_THE_ANSWER = re.compile(
    r"(?:also\s+)?(?:unique|correct|right|clear|obvious|independent|consistent|verified|confirmed|valid|reasonable"
    r"|positive|as\s+follows|an?\s(?!=)|the\s+same|in\s+the|well\b|plausible|always)",
    re.IGNORECASE,
)
_ANOTHERS = re.compile(r"\b(?:book|hint|key|given|part|first|previous|smaller|simpler)\b", re.IGNORECASE)
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
_EVERY_INTEGER = re.compile(
    r"(?<!\s),?\s+(?:where|with|for)\s+(?:(?:any|all|every|each)\s+integers?\s+\$?([a-z])\$?"
    r"|\$?([a-z])\$?\s+(?:is\s+)?(?:an|any)(?:\s+arbitrary)?\s+integer)(?=\.?\s*\Z)"
)
_END_MARK = re.compile(r"(?<!\s)\s*\$?\\(?:blacksquare|square|Box|qed)\$?\.?\s*\Z")
_TAIL = 20_000  # so many characters at the end of a text the stages after the box search
_LAST = 200  # so many characters at its end may say "for every integer k", or end a proof
_AFTERTHOUGHT = 120  # so many characters after an answer may say that it was wrong


def extract_answer(
    text: str, *, strict: bool = False, statement: str = "", reference: str = ""
) -> Extraction:
    r"""The final answer of a completion.

    Args:
        text: What a model wrote; anything at all.
        strict: Take only boxes, from the unchanged text.
        statement: The problem. With it, a last sentence about what it asks for is read.
        reference: With it, more endings are read: of several readings, the one that gives the reference.

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
        return none if strict else _unboxed(text[-_TAIL:].rstrip(), statement, reference)
    box, end = found
    return box if strict or box.how == UNCLOSED_BOX else _corrected(text[end:][-_TAIL:], statement, box)


def _own_part(text: str) -> str:
    """The text up to another problem or a word to the grader, without LaTeX's comments after a box."""
    answered = _ANSWERED.search(text) if _NEXT.search(text) else None
    if answered and (another := _NEXT.search(text, answered.end())):
        text = text[: another.start()]
    if "grader" in text.lower() and (said := _TO_GRADER.search(text)):
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


def _unboxed(text: str, statement: str, reference: str) -> Extraction:
    text, end = text[:-_LAST], _END_MARK.sub("", text[-_LAST:])
    text += _EVERY_INTEGER.sub(r", $\1\2\\in\\mathbb{Z}$", end) if "integer" in end else end
    text = without_checks(text)
    inner = undelimited(text.rpartition("<answer>")[2].partition("</answer>")[0])
    if inner and "<answer>" in text:
        return (
            Extraction(stated(inner) or inner, "marker")
            if len(inner) <= 400
            else _unboxed(inner, statement, reference)
        )
    said = _marked(text, statement)
    if said is None:
        value = closing_value(text, statement, reference)
        return Extraction(value, "last line") if value else Extraction(None, "no answer was found")
    if meant := _meant(text[-200:]):
        return Extraction(meant, "marker")
    _, found, after = text.rpartition(said)
    return _WITHDRAWN if found and CORRECTION.search(after[:_AFTERTHOUGHT]) else Extraction(said, "marker")


def _marked(text: str, statement: str, *, boxed: bool = False) -> str | None:
    """What follows the last marker of a text that is about its problem; None if there is none.

    A marker about another case ("for n = 1, the answer is 3") does not count, unless it corrects a box.
    After a box, only values count.
    """
    lower = text.lower()
    if not any(word in lower for word in MARKER_WORDS):
        return None
    for marker in reversed(list(MARKER.finditer(without_quotations(text)))[-12:]):
        place = marker.start()
        if is_denied(text, place) or _ANOTHERS.search(marker[0]):
            continue
        corrects = boxed and CORRECTION.search(text[:place])
        if is_conditional(text, place, statement) and not corrects:
            continue
        said, value = _after(text, marker)
        if said is not None and (value or not boxed):
            return said
    return None


def _after(text: str, marker: re.Match[str]) -> tuple[str | None, bool]:
    """What follows a marker, and whether it is a value; None for nothing, a question, or a remark."""
    if marker.group().rstrip("*_ \t\n:").endswith("s") and (items := list_items(text[marker.end() :])):
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
