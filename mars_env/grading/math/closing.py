"""Finds the answer at the end of a text that does not announce it: a value, or what a sentence says of it."""

import re
from functools import lru_cache
from itertools import takewhile

from mars_env.grading.math.agreement import in_words, is_near, is_same, telling
from mars_env.grading.math.asked import stems
from mars_env.grading.math.claims import LAST_CLAUSE, claimed, is_equation, number_claimed
from mars_env.grading.math.doubt import QUOTED, doubtful, without_quotations
from mars_env.grading.math.nodes import Node
from mars_env.grading.math.question import asked_formulas, form
from mars_env.grading.math.remarks import without_clauses, without_remark
from mars_env.grading.math.sentences import (
    BOLD,
    hidden,
    is_value,
    last_line,
    last_sentence,
    only_number,
    undelimited,
    with_long_unit,
    without_remarks,
)
from mars_env.grading.math.shapes import normal_text

_COMMON = re.compile(
    r"(?<!\\)\b(?:(lcm|lowest common multiple)|gcd|gcf|hcf|(?:greatest|highest) common factor)\b( ?\()?",
    re.IGNORECASE,
)
_COMMON_CALL = re.compile(r"(?=(?:\$|\\\()\s*\\?(gcd|lcm)\b[^$=]*(?:\$|\\\)))")
_ENVIRONMENT_END = re.compile(r"\\end\{(?:align|gather|eqnarray)(?:ed)?\*?\}[\s.]*(?:\$\$|\\\])?\Z")
_ITEM = re.compile(r"\s*(?:[-*•]|\d{1,2}[.)])\s+(.{1,400})\Z")
_LABEL = re.compile(r"A[ \t]*:[ \t]+(?=\S)")  # as after the questions of a prompt with examples
_OTHER_LABEL = re.compile(r"^[ \t*_(]*[B-H][ \t*_]*[:.)]", re.MULTILINE)
_SIGN = re.compile(r"^(?:(?:#+|[-*>→∴=])\s+|\\end\{\w+\*?\}|\\\]|\$\$(?!.*\$\$))")
_SENTENCES = re.compile(r"[.:;]\s+[A-Za-z]{2}")

_EQUATION_HAS = re.compile(r"\bThe (?:given )?(?:equation|polynomial|function) has(?! .*complex)")
_ROUNDED = re.compile(r"\b(?:round|nearest|approximat|decimal|significant)", re.IGNORECASE)
_NEARLY = re.compile(r"\b(?:about|approximately|roughly)\s+(?=[*$\\]*\d)", re.IGNORECASE)
_EXCLUDED = re.compile(r",?\s+(?:with|where|for|provided)\s+\$?[a-z]\s*(?:≠|\\neq?\b)[^=<>≤≥A-Za-z]*\Z")
_LAST_WORDS = re.compile(r"(?<![\w'’])(?=([A-Za-z'’]+(?: [A-Za-z'’]+){0,3})[.!*]*\Z)")
_ANOTHER_CASE = re.compile(r"[\d−]|(?<!\w)-|\b(?:if|when|left|right|one)\b", re.IGNORECASE)
_RATIO_OF = re.compile(r"\bratio of [^,.:]*?\b(\w+ to) (?:all |the )*(\w+)", re.IGNORECASE)
_END = 500  # so many characters at the end of a text are put in other words
_REMARKS = 5  # at most so many sentences, less one, may follow an answer
_BOLD_AND_ABOUT = re.compile(r"\*\*([^*\n]+)\*\*(?=\s*≈)")


def closing_value(text: str, statement: str, reference: str = "") -> str | None:
    """The answer at the end of a text; None where there is none, or with a doubt.

    With the reference, a last value also counts that chance does not repeat, or that the sentence computes,
    and what stands before a remark (`remarks.py`) counts if it is the reference.
    """
    if without_quotations(text).endswith(QUOTED):
        return None
    end = _COMMON.sub(_in_words, _BOLD_AND_ABOUT.sub(r"\1", text[-_END:]))
    text, statement = text[:-_END] + end, _without_calls(statement)
    first = value = _value_at_end(text, statement, reference)
    for _ in range(_REMARKS if reference else 0):
        if is_same(value, reference):
            return value
        for shorter in without_clauses(text, statement, reference):
            part = _value_at_end(shorter, statement, reference)
            if is_same(part, reference):
                return part
        read = value and not is_near(value, reference)
        before = None if read else without_remark(text, statement, reference)
        if before is None:
            return first
        text, value = before, _value_at_end(before, statement, reference)
    return first


def _value_at_end(text: str, statement: str, reference: str) -> str | None:
    """The value with which a text ends."""
    if (end := _ENVIRONMENT_END.search(text, max(0, len(text) - 60))) and "\\begin" in text:
        last = text[text.rfind("\\begin") : end.start()].rpartition("\\\\")[2].replace("&", " ").strip()
        return undelimited(last[1:]) if last.startswith("=") else None
    if text.endswith(("$$", "\\]")):
        opening = text.rfind("$$", 0, -2) if text.endswith("$$") else text.rfind("\\[")
        formula = undelimited(text[opening:]).lstrip("= ")
        if "=" not in reference and telling(reference) and is_same(formula, reference):
            return formula.rpartition("=")[2]
        readable = isinstance(form(formula), Node)
        return None if opening < 0 else formula if readable else formula.rpartition("=")[2]
    if items := list_items(text):
        return ", ".join(items)
    line = re.sub(r"(?<!\\)\\[()]", "$", last_line(text)[-4000:])
    if (label := _LABEL.match(line)) and not _OTHER_LABEL.search(text):
        line = line[label.end() :]
    line = _SIGN.sub("", line.replace("**答**", "答")).strip()
    if whole_bold := BOLD.fullmatch(line.strip(" .")):
        line = whole_bold[1]
    line = _rephrased(line, statement, reference)

    sentence = last_sentence(line)
    bare = re.sub(r"\A(?:=|答:)\s*", "", undelimited(without_remarks(line) if sentence == line else line))
    if (of := _RATIO_OF.search(sentence)) and not (of[1] in statement and of[2] in statement):
        return None
    if (word := in_words(reference)) and normal_text(line.strip(" *.")) == normal_text(word):
        return word
    value, said = _asked_formula(statement, sentence), hidden(sentence)
    if value and not doubtful(said) and not doubtful(LAST_CLAUSE.split(said)[-1], beside_number=True):
        return value
    whole = not _SENTENCES.search(bare) and (is_value(bare) or is_equation(bare))
    if whole and len(bolds := BOLD.findall(line)) == 1 and is_value(undelimited(bolds[0])):
        return with_long_unit(undelimited(bolds[0]))
    if whole:
        return with_long_unit(bare)
    value = claimed(statement, sentence, reference)
    return value or number_claimed(statement, text[: text.rfind(sentence[:20])], sentence)


def _rephrased(line: str, statement: str, reference: str) -> str:
    """A line that ends as its reference is written: 3:4 for "3 to 4", "does not exist" for "doesn't"."""
    line = re.sub(r"(?<=\d) mod (\d+)(?=[.$*\s]*\Z)", r" \\pmod{\1}", _EQUATION_HAS.sub("It has", line))
    sentence = last_sentence(line)
    if "ratio" in sentence:
        line = re.sub(r"(?<!from )(?<!\d)(\d+) to (?=\d+[.$*\s]*\Z)", r"\1:", line)
    if "implif" in statement:
        line = _EXCLUDED.sub("", line)
    plain = _NEARLY.sub("", sentence) if "percent" in statement and _ROUNDED.search(statement) else ""
    if only_number(plain) and re.search("percent|%", plain) and stems(plain) <= stems(statement):
        return plain
    if (words := in_words(reference)) and not _ANOTHER_CASE.search(sentence):
        for said in _LAST_WORDS.finditer(line):
            if normal_text(said[1]) == normal_text(words):
                return line[: said.start()] + words + line[said.end(1) :]
    return line


@lru_cache(maxsize=4096)
def _without_calls(statement: str) -> str:
    """A problem that names what it asks for: the greatest common divisor, not only ``gcd(12, 18)``."""
    return _COMMON.sub(_in_words, _COMMON_CALL.sub(r" \1 ", statement))


def _in_words(name: re.Match[str]) -> str:
    """The words for gcd and lcm, but not before their arguments."""
    words = "least common multiple" if name[1] else "greatest common divisor"
    return name[0].lower() if name[2] else words


def list_items(text: str) -> list[str]:
    """The values of a text's last lines, if these are the items of a list and all of them are values."""
    found = list(takewhile(bool, map(_ITEM.match, reversed(text.split("\n")[-20:]))))
    items = [undelimited(match[1]) for match in reversed(found) if match]
    return items if len(items) > 1 and all(map(is_value, items)) else []


def _asked_formula(statement: str, sentence: str) -> str | None:
    """The value of the formula that a problem asks for, if a sentence ends with it: 41 in "So $a_4 = 41$"."""
    for name in asked_formulas(statement)[-1:]:
        written = r"\s*".join(map(re.escape, name.replace(" ", "")))
        plain = undelimited(sentence.replace("$", ""))
        chain = rf"{written}\s*=(?:[^=;]+=)*([^=;]+)\Z"
        said = re.search(rf"(?<![\w^+*/(={{-])(?<![+*/=-] ){chain}", plain)
        if said and is_value(said[1]) and len(re.findall(rf"{written}\s*=", plain)) == 1:
            return said[1].strip()
    return None
