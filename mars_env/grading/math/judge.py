r"""Decides whether an answer equals a reference; runs in a worker process.

Words and the letters of choices are compared as written, everything else as `parser.py` reads it, by the
rules of `compare.py`. What cannot be read is no answer.
"""

import re
from functools import lru_cache
from itertools import product
from typing import NamedTuple

from mars_env.grading.math.compare import same_answer
from mars_env.grading.math.copied import is_copied
from mars_env.grading.math.exact import Undefined
from mars_env.grading.math.finished import finished
from mars_env.grading.math.nodes import EXPRESSIONS, Node, OverLimit, Unreadable, num
from mars_env.grading.math.parser import read_answer
from mars_env.grading.math.shapes import in_order, normal_text
from mars_env.grading.math.spelled import date
from mars_env.grading.math.vectors import as_tuple

DIFFERENT = "the answer differs from the reference"
NOT_READ = "the answer could not be read"
UNFINISHED = "the answer leaves something to compute"
COPIED = "the answer copies a formula of the problem"
_CYCLES = re.compile(r"(?:\( ?\d(?: \d)+ ?\) ?)+")
_COMMAS = re.compile(r"\d,\d{3}")
_ZEROS = re.compile(r"\d,0\d\d")  # "1,024" is a number and nothing else
_CHOICE = re.compile(r"\(? ?([A-J]) ?\)?[.:]?\Z")
_CHOSEN = re.compile(
    r"(?:\(([A-J])\)|([A-J])[).:])\s*(?!and\b|or\b|[,;&/(])\S(?!.*\([A-J]\))(?!.*\b(?:and|or)\b)"
)
_LETTERS = re.compile(r"\(? ?[A-J] ?\)?(?: ?(?:,|;|、|,? ?and|和) ?\(? ?[A-J] ?\)?)+")
_OFFERED = re.compile(r"(?:\(([A-J])\)|([A-J])[).:])\s*(?![,;&/+*=^_(-]|and\b|or\b)(\S.*)\Z", re.DOTALL)
_FONTS = re.compile(
    r"\\(?:text|textbf|textit|textrm|mathrm|mathbf|mbox|bf|rm)\b\s*|[${}]|\\[ ,;:!()]|\\(?:left|right)\b"
)
_SUBJECT = (
    r"(?:(?:the|it|this|that)"
    r"(?: (?!(?:is|was|are|were|not|no|never|often|always|sometimes|only|[a-z]+ly)\b)[a-z]+){0,2}"
    r" (?:(?:is|was|are|were) )?|[a-z] is )?(?:an? )?"
)
_NOUN = "(?: (?:function|triangle|series|sequence|number|integer))?"
_WORDY = re.compile(r"[A-Za-z][A-Za-z'’ -]*[A-Za-z]\Z")


_OPEN = r"[\s$]*(?P<font>\\(?:text(?:bf|it|rm)?|mathrm|mathbf|mbox)\s*\{\s*)?"
_SAID = (
    r"(?:(?:the|my|our)\s+)?(?:(?:final|correct|right)\s+)?answers?\s*(?:is|are|[:=])"
    r"|the\s+(?:(?:minimum|maximum|smallest|largest|least|greatest|total|required|desired|exact)\s+)?"
    r"(?:value|number|area|sum|length|probability|minimum|maximum|product|ratio|perimeter|volume|distance"
    r"|remainder|total)(?:\s+of\s+[A-Za-z]+)?\s*(?:is|are|[:=])"
    r"|there\s+(?:are|is)(?:\s+(?:exactly|only))?(?=[\s}])|it\s+is(?:\s+an?)?(?=[\s}])|(?:option|choice)(?=[\s}({\\])"
    r"|答案\s*(?:是|为|:)|选项?(?=[\s(A-J])"
)
_LABEL = re.compile(rf"{_OPEN}(?:{_SAID})\s*(?P<shut>\}})?[\s~:]*(?:\\[,;: ]\s*)*", re.IGNORECASE)
_LETTER = re.compile(
    rf"{_OPEN}\(\s*[A-J]\s*\)\s*[.:]?\s*(?P<shut>\}})?"
    r"(?:\\[,;: ]|\\q?quad\b|[\s~])*(?=[-+]?[\d\\$.])(?!\\(?:cdot|times|cup|cap|text\w*\s*\{\s*(?:and|or)\b))"
)

_ARGUMENT = r"(?:\([^()=]{1,40}\)|\\left\([^()=]{1,40}\\right\))"
_QUANTITY = re.compile(
    rf"[\s$]*(?:\\(?:phi|varphi|tau|sigma|zeta|Gamma|omega|Omega|mu|psi)\s*{_ARGUMENT}"
    r"|\\(?:det|dim|deg|Pr|(?:operatorname|text|mathrm|mathbb)\s*\{\s*(?:[A-Z][A-Za-z]{0,11}|rank|tr|ord|nullity|lcm)\s*\})\s*"
    r"(?:\\left)?(?:[A-Za-z]|\([^()]{1,60}\)|\[[^\[\]]{1,60}\])"
    r"|\\nabla\s*[A-Za-z](?:\([^()=]{1,30}\))?"
    r"|\\mathcal\s*\{?\s*[A-Z]\s*\}?(?:\^\{-1\})?\s*(?:\\left)?\\\{[^=]{1,60}\\\}"
    r"|P\s*(?:\\left)?\([^()=]{1,30}(?:\\mid|\|)[^()=]{1,30}\)"
    r"|(?P<bar>\||\\left\|)?\s*[A-Z](?:\s*(?:\\(?:cap|cup|setminus)|[∩∪])\s*[A-Z]){1,3}\s*(?(bar)(?:\||\\right\|))"
    r"|[A-Za-z](?:_\{?\\(?:max|min|text\{[a-z]{1,12}\}|mathrm\{[a-z]{1,12}\})\}?|\^\{?(?:\*|\\ast)\}?)|(?:s|\\sigma)\^\{?2\}?"
    r"|[ei]|\\(?:int|lim|det)(?![A-Za-z])(?:_\{[^{}]{1,40}\})?[^=]{0,100}"
    r")\s*=(?!=)\s*(?=\S)"
)
_INVERSE = re.compile(r"[\s$]*[A-Za-z]\^\{?-1\}?\s*(?:\\left)?\([a-z](?:\\right)?\)\s*=(?!=)")
_VERDICT = re.compile(
    r"\s*(?:\\text\w*\s*\{\s*)?(?P<word>yes|no|true|false)\s*(?:[.,;:–—]|-)\s*(?P<rest>[^{}]{1,200})\}?\s*\Z",
    re.IGNORECASE,
)
_SECOND_THOUGHT = re.compile(r"\b(?:yes|no|true|false|if|unless|but|maybe|perhaps|wait|or)\b", re.IGNORECASE)

_Parsed = tuple[tuple[Node, ...], str]
"""Every way to read a text (``1,024`` may be a number or a list), and why there is none."""


class Rules(NamedTuple):
    """The arguments of `judge`."""

    tolerance: float | None
    ordered: bool | None
    integer: bool
    statement: str


@lru_cache(maxsize=4096)
def _parse(text: str) -> _Parsed:
    readings, problem = list[Node](), ""
    list_too = _COMMAS.search(text) and not _ZEROS.search(text)
    for commas in (True, False) if list_too else (True,):
        try:
            readings.append(as_tuple(read_answer(text, commas=commas)))
        except Unreadable as error:
            problem = str(error)
    return tuple(readings), problem


def judge(
    reference: str,
    answer: str,
    tolerance: float | None = None,
    *,
    ordered: bool | None = None,
    integer: bool = False,
    statement: str = "",
) -> tuple[bool, str]:
    r"""Whether an answer equals a reference, is as finished, and no formula of the statement; if not, why.

    Example:
        >>> judge(r"\frac{1}{3}", "0.333333")
        (False, 'the answer differs from the reference')
    """
    rules = Rules(tolerance, ordered, integer, statement)
    reference, answer = _INVERSE.sub("", reference, 1), _INVERSE.sub("", answer, 1)
    equal, why = _judge(reference, answer, rules)
    if equal:
        return True, ""
    bare = without_label(reference, answer)
    if bare != answer and bare.strip():
        return _judge(reference, bare, rules)
    return False, why


def _judge(reference: str, answer: str, rules: Rules) -> tuple[bool, str]:
    if len(reference) <= 400 and (offered := _OFFERED.match(_plain(reference))):
        return _judge_offered(offered, answer, rules)
    wordy = _same_words(reference, answer)
    if wordy is not None:
        return wordy, "" if wordy else DIFFERENT
    # a long answer is not remembered: later verdicts have the memory that is left
    parse = _parse if len(answer) <= 400 else _parse.__wrapped__
    (first, _), (second, _), why = _parse(reference), parse(answer), DIFFERENT
    for left, right in product(first, second):
        try:
            ordered = in_order(left, rules.ordered), in_order(right, rules.ordered)
            fault = _form_fault(left, right, rules) if same_answer(*ordered, rules.tolerance) else DIFFERENT
        except (Unreadable, Undefined):
            continue  # different shapes, or no value: not equal
        if not fault:
            return True, ""
        why = fault if fault != DIFFERENT else why
    return False, why if second else NOT_READ


def _form_fault(reference: Node, answer: Node, rules: Rules) -> str:
    if not finished(reference, answer, integer=rules.integer):
        return UNFINISHED
    return COPIED if is_copied(rules.statement, reference, answer) else ""


def _judge_offered(offered: re.Match[str], answer: str, rules: Rules) -> tuple[bool, str]:
    """Judge an answer to ``(C) 48``: the letter, the value, or both."""
    letter, value = offered[1] or offered[2], offered[3]
    picked = _plain(answer) if len(answer) <= 400 else ""
    if choice := _CHOICE.match(picked):
        same = choice[1] == letter
        return same, "" if same else DIFFERENT
    if also := _OFFERED.match(picked):
        if (also[1] or also[2]) != letter:
            return False, DIFFERENT
        answer = also[3]
    return judge(value, answer, **rules._asdict())


@lru_cache(maxsize=8192)  # many answers are judged against one reference
def reference_fault(reference: str) -> str | None:
    r"""Why a reference cannot be used; None if it can."""
    try:
        readings, problem = _parse(reference)
        for reading in readings:
            try:
                _evaluate(reading)
            except Unreadable:
                continue
        if not (readings or _wordy(reference) or _CYCLES.fullmatch(_plain(reference))):
            return f"it cannot be read: {problem}"
        if not judge(reference, reference)[0]:
            return f"not even the same text would equal it: {problem}"
    except OverLimit as limit:
        return str(limit)
    except Undefined as undefined:
        return f"it has no value: {undefined}"
    return None


def _evaluate(node: Node) -> None:
    """Compare each expression in a reference with itself plus one, to detect now what is too large."""
    if node.kind in ("list", "set", "group", "relation", "row", "matrix", "quantity"):
        for part in node.args:
            _evaluate(part)
    elif node.kind in EXPRESSIONS:
        same_answer(node, Node("add", (node, num(1))))


def _plain(text: str) -> str:
    return " ".join(_FONTS.sub(" ", text).split()).rstrip(". ")


def _wordy(text: str) -> bool:
    return bool(_WORDY.match(_plain(text)))


def _same_words(reference: str, answer: str) -> bool | None:
    """Equality of texts, and of letters of choices; None if mathematics must decide."""
    r, a = _plain(reference), _plain(answer)
    if _CYCLES.fullmatch(r) and _CYCLES.fullmatch(cycles := a.rpartition("=")[2].strip()):
        return _cycles(r) == _cycles(cycles)
    if r and r == a and "^" not in r and "_" not in r:
        return True if _wordy(reference) else None
    words = re.search(r"[A-Za-z]{3}", r) and _WORDY.match(r) and _WORDY.match(a)
    if words and (
        normal_text(a) in (phrase := normal_text(r), phrase.removeprefix("quadrant "))
        or re.fullmatch(_SUBJECT + re.escape(r) + _NOUN, a, re.IGNORECASE)
    ):
        return True
    if (day := date(r)) and (other := date(a)):
        return day.items() <= other.items()  # it may say more
    if len(a) <= 400 and (choice := _CHOICE.match(r)) and (picked := _CHOICE.match(a) or _CHOSEN.match(a)):
        return choice.group(1) == next(g for g in picked.groups() if g)
    for joined, listed in ((r, a), (a, r)):
        if len(listed) <= 100 and re.fullmatch(r"\(?[A-J]{2,10}\)?", joined) and _LETTERS.fullmatch(listed):
            letters = sorted(letter for letter in listed if letter.isupper())  # "ACD" picks A, C and D
            return letters == [letter for letter in joined if letter.isupper()] or None
    return None


def _cycles(permutation: str) -> set[tuple[str, ...]]:
    """The cycles of ``(1 3 5)(2 4)``, each from its smallest member."""
    cycles = (tuple(cycle.split()) for cycle in re.findall(r"\(([^)]*)\)", permutation))
    return {cycle[(start := cycle.index(min(cycle))) :] + cycle[:start] for cycle in cycles}


def without_label(reference: str, answer: str) -> str:
    """An answer without what stands before its value: words, a quantity's name, a choice's letter."""
    verdict = _VERDICT.match(answer)
    if verdict and not _SECOND_THOUGHT.search(verdict["rest"]):
        return verdict["word"]
    bare = _without(_LABEL.match(answer), answer)
    if "=" not in reference and (named := _QUANTITY.match(bare)):
        bare = bare[named.end() :]
    if re.search(r"\d", reference) and not re.search(r"[A-J]\b", _plain(reference)):
        bare = _without(_LETTER.match(bare), bare)
    return bare


def _without(label: re.Match[str] | None, answer: str) -> str:
    """The answer after a label; a font that is opened in the label and not shut there stays."""
    if label is None or label.end() == len(answer) or (label["shut"] and not label["font"]):
        return answer
    return ("" if label["shut"] else (label["font"] or "").strip()) + answer[label.end() :]
