"""Finds the answer at the end of a text that does not announce it: a value, or what a sentence says of it."""

import re
from contextlib import suppress
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise, takewhile
from typing import NamedTuple

from mars_env.grading.math.asked import alike, contradicts, is_asked, new_measure, question, stems, unshared
from mars_env.grading.math.doubt import QUOTED, doubtful, without_quotations
from mars_env.grading.math.exact import Undefined, exact_value
from mars_env.grading.math.nodes import Node, OverLimit
from mars_env.grading.math.question import asked_formulas, form, given
from mars_env.grading.math.remarks import is_near, is_same, without_clauses, without_remark
from mars_env.grading.math.sentences import (
    BOLD,
    MATH_SPAN,
    NUMBER,
    at_end,
    hidden,
    is_value,
    last_line,
    last_number,
    last_sentence,
    measured,
    only_number,
    undelimited,
    with_long_unit,
    with_part,
    without_remarks,
)
from mars_env.grading.math.shapes import normal_text, value_of
from mars_env.grading.math.spelled import spelled_number
from mars_env.grading.math.tokens import CHINESE_UNITS, FUNCTIONS
from mars_env.grading.math.units import known_unit
from mars_env.grading.math.vocabulary import CONCLUDES, CONCLUSION, OTHER_CASE, RELATIVE

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
_BREAK = re.compile(
    r"(?:[,;:]\s+|\A)(?:(?:and|but)\s+)?(?:(?:so(?!\s+far)|thus|hence|therefore|then)\b"
    r"|(?:since|because)\b[^,;]*,|[a-z]+ing\b[^,;:\d]{0,60},(?=\s+(?:there|the|we|it|this)\b))[\s,:]*"
    r"|(?:\bwe\s+(?:now\s+|then\s+)?(?:get|obtain|find|see|conclude|have)"
    r"|\b(?:giving|(?:which|this|that|formula)\s+(?:gives|yields))|\A[A-Z][a-z]+ing\b[^,;]*?\b(?:gives|yields))\b"
    r"(?:\s+us\b)?(?:\s+that\b)?[\s,:]*"
    r"|(?P<same>(?:,\s+|\A)(?:which|that)\s+(?:is|equals|(?:reduces|simplifies|comes|amounts|corresponds)\s+to|as\s+an?\s+\w+\s+is)\s"
    r"(?:(?:option|choice)\s)?|,?\s(?:namely|i\.e\.|that is),?\s)\s*"
    r"|因此|所以|综上所?述?|故|即|[解可求]?得(?!到)[，,\s]*|得到",
    re.IGNORECASE,
)
"""Where the clause that concludes begins."""
_AGAIN = re.compile(r",\s(?:i\.e\.|that is),?\s")
_CLAUSES = re.compile(r",?\s+(?:and|while|whereas)\s+(?=(?:the|its)\s)", re.IGNORECASE)
_NO_CLAIM = re.compile(r"(?i)\(|not\s\W|(?:what|which|how|find|compute|solve|see|take|let|add|subtract)\b")
_COMPUTATION = re.compile(
    rf"({MATH_SPAN.pattern})|(?<![\w.:,\\^{{}}()+*/×÷·−-])(?<![+*/×÷·−-] )[(√⌊]*\\?\$?\d"
    r"(?:[\d\s.,+×*/÷()⌊⌋−–·\\$!√²³⁴⁵⁶⁷⁸⁹^%-]|x (?=\\?\$?\d)|[a-z]{3,}(?:/[a-z]+)?(?= ?[+×*/÷–=-]| x ))*"
    r"=(?=[\s*$\\(√]*\d)",
    re.DOTALL,
)
"""A formula, which stays, or the left side of a computation."""
_SENTENCES = re.compile(r"[.:;]\s+[A-Za-z]{2}")
_UNKNOWN = re.compile(r"(?<![\\A-Za-z])[xyz](?![A-Za-z])")
_SEVERAL = re.compile(r"\b(?:and|or)\b|[和或]|,\s")
_NONE = re.compile(r"\bno (?:(?:real |integer )?solutions?|(?:such|real (?:number|value)s?)\b[^.]*)\.?\Z")
_VERDICT = re.compile(r"(?:yes|no)\b(?=[,.]|\Z)", re.IGNORECASE)
_LETTERS = re.compile(r"(?<![\\A-Za-z])[A-Za-z]*(?:[a-z][A-Za-z]|[A-Za-z][a-z])[A-Za-z]*|[\u4e00-\u9fff]")
_IN_BRACKETS = re.compile(r"\([^()]*\)|\\text\s*\{[^{}]*\}")
_RELATION = re.compile(r"[<>≤≥]|\\[lg]eq?\b|\\in\b")
_NOT_ALL = re.compile(r"(?:\d|\$),?\s+(?:and|or)\s*\Z")
_IS_ONE = re.compile(r"[\d$]\S* (?:is|are) an?\b")
_OUTSIDE = re.compile(rf"({MATH_SPAN.pattern})|{NUMBER.pattern}", re.DOTALL)
"""A formula, or a number outside of formulas."""
_UNIT = re.compile(
    rf"\s*({'|'.join(CHINESE_UNITS)})|\s+(?!in\b)((?:square |cubic )?[a-z]+(?:\s+per\s+[a-z]+|/[a-z]+)?)"
)

_NEXT = re.compile(r"(?:,(?!\d)|[，;；和]|,?\s+(?:and|to)\b)\s*(?!\Z)")
_NUMBERS = re.compile(r"\d\$?,? (?:and|or) [$\d]|\d[和或、]\d")
_MONEY = "\\$"
_ANOTHER = re.compile(r"[A-Za-z]\s*=|\b(?:and|or|but|not)\b")
_TEXT = re.compile(r"\s*(?:\\text\s*\{)?([A-Za-z][a-z]+(?: [A-Za-z]+){0,3})\}?\s*")
_PREDICATE = (
    r"\b(?:(?:(?:lie|i)s|are|was|were|be|has|have|on)(?: an?| in| the)*|series|integral|sequence|limit|it) "
)
_WORDS_BEFORE = re.compile(
    r"(?:(?<!\d ):|[;,—]|\b[A-Za-z]{2,}|['’]s|i\.e\.)\s+(?=\S)|[\u4e00-\u9fff，：；]+(?=\S)"
)
_OPERATION = re.compile(r"\d\)?\s*(?:[-+*/×÷·−^!]|\\(?:cdot|times|div)|\()|\\[dt]?frac|\\sqrt|√")
_EQUALITY = re.compile(r"(?:(?<![<>=!≤≥])=(?!=)|≈|\\approx|\\equiv|≡)\s*")
_ABOUT = re.compile(r"\s*(?:≈|\\approx)")
_EQUATION_HAS = re.compile(r"\bThe (?:given )?(?:equation|polynomial|function) has(?! .*complex)")
_ROUNDED = re.compile(r"\b(?:round|nearest|approximat|decimal|significant)", re.IGNORECASE)
_NEARLY = re.compile(r"\b(?:about|approximately|roughly)\s+(?=[*$\\]*\d)", re.IGNORECASE)
_EXCLUDED = re.compile(r",?\s+(?:with|where|for|provided)\s+\$?[a-z]\s*(?:≠|\\neq?\b)[^=<>≤≥A-Za-z]*\Z")
_LAST_WORDS = re.compile(r"(?<![\w'’])(?=([A-Za-z'’]+(?: [A-Za-z'’]+){0,3})[.!*]*\Z)")
_ANOTHER_CASE = re.compile(r"[\d−]|(?<!\w)-|\b(?:if|when|left|right|one)\b", re.IGNORECASE)
_RATIO_OF = re.compile(r"\bratio of [^,.:]*?\b(\w+ to) (?:all |the )*(\w+)", re.IGNORECASE)
_NO = re.compile(r"(no)\b[,.]([^,:;]*?)\b(?:(?:can)?not|\w+n['’]t)\b([^,:;]*)\Z", re.IGNORECASE)
_BOLD_AND_ABOUT = re.compile(r"\*\*([^*\n]+)\*\*(?=\s*≈)")
_MORE = re.compile(r"[\d$,，]")
_CLAUSE = re.compile(r"[,;，；]\s*(?=\S)")


def closing_value(text: str, statement: str, reference: str = "") -> str | None:
    """The answer at the end of a text; None where there is none, or with a doubt.

    With the reference, a last value also counts that chance does not repeat, or that the sentence computes.
    """
    if without_quotations(text).endswith(QUOTED):
        return None
    text = _COMMON.sub(_in_words, _BOLD_AND_ABOUT.sub(r"\1", text))
    statement = _COMMON.sub(_in_words, _COMMON_CALL.sub(r" \1 ", statement))
    first = value = _value_at_end(text, statement, reference)
    if value and reference and not is_same(value, reference):
        last = undelimited(_EQUALITY.split(value)[-1])
        last = undelimited(measured(last))
        if is_same(last, reference) and (
            _telling(reference)
            or _OPERATION.search(_EQUALITY.split(value)[-2] if len(_EQUALITY.split(value)) > 1 else "")
        ):
            return last
    telling = _telling(reference) is not None if 0 < len(reference) <= 400 else None
    while telling is not None and not is_same(value, reference):
        for shorter in (
            () if _TEXT.fullmatch(reference) else without_clauses(text, statement, reference, telling=telling)
        ):
            part = _value_at_end(shorter, statement, reference)
            if is_same(part, reference):
                return part
        before = (
            None
            if value and not is_near(value, reference)
            else without_remark(text, statement, reference, telling=telling)
        )
        if before is None:
            return first
        text = before
        value = _value_at_end(text, statement, reference)
    return value


def _value_at_end(text: str, statement: str, reference: str) -> str | None:
    """The value with which a text ends."""
    if (end := _ENVIRONMENT_END.search(text, max(0, len(text) - 60))) and "\\begin" in text:
        last = text[text.rfind("\\begin") : end.start()].rpartition("\\\\")[2].replace("&", " ").strip()
        return undelimited(last[1:]) if last.startswith("=") else None
    if text.endswith(("$$", "\\]")):
        opening = text.rfind("$$", 0, -2) if text.endswith("$$") else text.rfind("\\[")
        formula = undelimited(text[opening:]).lstrip("= ")
        if reference and _telling(reference) and is_same(formula, reference) and "=" not in reference:
            return formula.rpartition("=")[2]
        readable = isinstance(form(formula), Node)
        return None if opening < 0 else formula if readable else formula.rpartition("=")[2]
    if items := list_items(text):
        return ", ".join(items)
    line = re.sub(r"(?<!\\)\\[()]", "$", last_line(text)[-4000:])
    if (label := _LABEL.match(line)) and not _OTHER_LABEL.search(text):
        line = line[label.end() :]
    line = _SIGN.sub("", line.replace("**答**", "答")).strip()
    line = _rephrased(line, statement, reference)

    sentence = last_sentence(line)
    bare = re.sub(r"\A(?:=|答:)\s*", "", undelimited(without_remarks(line)))
    if (of := _RATIO_OF.search(sentence)) and not (of[1] in statement and of[2] in statement):
        return None
    if (word := _TEXT.fullmatch(reference)) and normal_text(line.strip(" *.")) == normal_text(word[1]):
        return word[1]
    value, said = _asked_formula(statement, sentence), hidden(sentence)
    value = value or _asked_formula(statement, without_remarks(sentence))
    if value and not doubtful(said) and not doubtful(_CLAUSE.split(said)[-1], beside_number=True):
        return value
    whole = not _SENTENCES.search(bare) and (is_value(bare) or _is_equation(bare))
    if whole and len(bolds := BOLD.findall(line)) == 1 and is_value(undelimited(bolds[0])):
        return with_long_unit(undelimited(bolds[0]))
    if whole:
        return with_long_unit(bare)
    value = claimed(statement, sentence, reference)
    return value or _last_number(statement, text[: text.rfind(sentence[:20])], sentence)


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
    if (words := _TEXT.fullmatch(reference)) and not _ANOTHER_CASE.search(sentence):
        for said in _LAST_WORDS.finditer(line):
            if normal_text(said[1]) == normal_text(words[1]):
                return line[: said.start()] + words[1] + line[said.end(1) :]
    return line


def _unwrapped(clause: str) -> str:
    return clause.rstrip(" .。)") if clause.count(")") > clause.count("(") and "[" not in clause else clause


def _in_words(name: re.Match[str]) -> str:
    """The words for gcd and lcm, but not before their arguments."""
    words = "least common multiple" if name[1] else "greatest common divisor"
    return name[0].lower() if name[2] else words


def _is_phrase(words: str) -> bool:
    """Whether a bold text is an answer in words: ``Evelyn``, ``an ellipse``."""
    few = len(words.split()) <= 3 and not re.search(r"[\d:：]", words)
    return few and not doubtful(words, beside_number=True)


def _is_equation(line: str) -> bool:
    """Whether a line is one formula: ``P(A) = 3/8 = 0.375``, ``x > 4``, ``17 - 9 = 8 apples``."""
    left, sign, right = line.rpartition("=")
    outside = MATH_SPAN.sub(" ", line)
    words = _LETTERS.findall(_IN_BRACKETS.sub(" ", left if sign else line))
    words += _LETTERS.findall(outside.rpartition("=")[0] or outside) if MATH_SPAN.search(line) else ()
    if len(line) > 400 or set(words) - FUNCTIONS - {"mod"}:
        return False
    return is_value(undelimited(right)) if sign else _RELATION.search(line) is not None


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


def claimed(statement: str, sentence: str, reference: str = "") -> str | None:
    """The value that a sentence gives to what a problem asks for; None if it gives none, or with a doubt."""
    if len(sentence) > 400 or _NO_CLAIM.match(sentence):
        return None
    opening = CONCLUSION.match(sentence)
    if no := _NO.match(sentence, opening.end() + 1 if opening else 0):  # "No, it is not prime"
        said = without_remarks(no[2] + no[3])
        return no[1] if stems(said) and is_asked(statement, said, sure=True) and not doubtful(said) else None
    meant = _telling(reference) if 0 < len(reference) <= 400 else None
    sure = [stop.start() for stop in _BREAK.finditer(hidden(sentence))][-1:] if meant else []
    doubts = sentence[sure[0] :] if sure else sentence
    if doubtful(_without_word(reference, unshared(MATH_SPAN.sub(" ", doubts), statement))):
        return None
    ended = sentence.rstrip(" \t*_")[-1:] in (".", "!", "。")
    sentence = without_remarks(sentence)
    again = _AGAIN.search(hidden(sentence))
    if again and only_number(sentence[again.end() :]) is None and at_end(sentence[: again.start()]):
        sentence = sentence[: again.start()]
    opening, masked = CONCLUSION.match(sentence), hidden(sentence)
    breaks = [stop for stop in _BREAK.finditer(masked) if stop.end() < len(masked.rstrip(" .*。"))]
    start = max([opening.end() if opening else 0, *(stop.end() for stop in breaks)])
    if breaks and breaks[-1]["same"]:  # what the value is stands before
        subject = unshared(MATH_SPAN.sub(" ", sentence[: breaks[-1].start()]), statement)
        if doubtful(re.sub(r"\bor\b", " ", subject), beside_number=True) or new_measure(statement, subject):
            return None
    found = []
    for clause in _CLAUSES.split(_unwrapped(sentence[start:].strip(" ,:，"))):
        if (none := _NONE.search(clause)) or _VERDICT.match(clause):
            return "no solution" if none else undelimited(clause)
        claim = _claim(statement, clause)
        if claim is None or not (ended or claim.marked) or OTHER_CASE.match(claim.words):
            continue
        if _TEXT.fullmatch(reference) and re.search(r"\d", claim.value):
            continue  # "two days after a Wednesday" for a day
        around = re.sub(r"(?<!\()\bor\b", " ", unshared(MATH_SPAN.sub(" ", claim.words), statement))
        if doubtful(around.rstrip(), beside_number=not claim.at_end):
            return None
        if is_asked(statement, claim.words, sure=start > 0 or claim.alone):
            found.append(claim.value)
    asked = question(statement)
    if meant is not None and meant.kind in ("list", "group") and _says_each(sentence, meant.args):
        return reference
    if found and is_same(found[-1], reference):
        return with_long_unit(found[-1])
    if len(found) == 1 or (found and asked and _SEVERAL.search(asked.text)):
        return ", ".join(map(with_long_unit, found))
    return _last_value(statement, sentence, reference, start) if 0 < len(reference) <= 400 else None


class _Claim(NamedTuple):
    """A value, the words around it, and where it stands.

    Attributes:
        marked: It is a formula, in bold, or after a sign.
        alone: It is in bold, or the clause is nothing else but for its opening.
        at_end: The clause ends with it, after "is" or a sign.
    """

    value: str
    words: str
    marked: bool = False
    alone: bool = False
    at_end: bool = False


def _claim(statement: str, clause: str) -> _Claim | None:
    """The value in a clause: in bold, at its end, or its only number."""
    bold = BOLD.findall(clause)
    if len(bold) == 1:
        value = undelimited(bold[0])
        before, _, after = BOLD.sub("**", clause).partition("**")
        if re.search(r"\d", after) and question(statement) is None:
            return None

        if (is_value(value) and not _NOT_ALL.search(before)) or _is_phrase(value):
            said = f"{_before_sign(before)} {_words(value)} {after}"
            return _Claim(value, said, marked=True, alone=True, at_end=not re.search(r"\d", value))
    clause = re.sub(r"(?<=\d)-gon\b", " sides", undelimited(clause.replace("**", "")))
    if is_value(clause) or _is_equation(clause):
        return _Claim(clause, _words(clause), marked="=" in clause, alone=True)
    whole, clause = clause, _COMPUTATION.sub(lambda found: found[1] or "", clause)
    if found := at_end(clause):
        value, before, link = found
        before = _before_sign(before) if link == "=" else before.rstrip() + link * (link > "一")
        said = f"{before} {_words(value)}"
        marked = clause != whole or link in "=:：" or "=" in value or clause.endswith("$")
        return _Claim(_last_member(value), said, marked=marked, at_end=True)
    return _only_new_number(statement, clause)


def _only_new_number(statement: str, clause: str) -> _Claim | None:
    """The only number of a clause that the question does not have, with its unit of measurement."""
    clause, said = re.sub(r"(?<![\\A-Za-z-])[A-Za-z][a-z]+(?![A-Za-z-])", _in_digits, clause), clause
    asked = question(statement)
    text = asked.text if asked else ""
    numbers = set(NUMBER.findall(text if said == clause else MATH_SPAN.sub(" ", text)))

    def new(found: re.Match[str]) -> str:
        known = form(undelimited(found[1])) in given(statement) if found[1] else found[0] in numbers
        return " " if known else found[0]

    bare = _OUTSIDE.sub(new, unshared(clause, statement))
    number = None if _IS_ONE.match(clause) else only_number(bare)
    if number is None:
        return None
    before, _, after = clause.partition(number)
    words = f"{before.rstrip('$')} {after.lstrip('$')}"
    return _Claim(_with_unit(_last_member(number), after), words)


def _with_unit(number: str, after: str) -> str:
    """A number with the unit of measurement that follows it."""
    if after.lstrip().startswith("percent"):
        return rf"{number}\%"
    if number.startswith(_MONEY) and (each := re.match(r"\s*(?:per|/)\s*([a-z]+)", after)):
        return rf"{number}\text{{ per {each[1]}}}"
    follows = _UNIT.match(after)
    unit = CHINESE_UNITS.get(follows[1] or "", follows[2]) if follows else ""
    return rf"{number}\text{{ {unit}}}" if unit and known_unit(unit) else number


def _in_digits(word: re.Match[str]) -> str:
    """A number in words in digits; "one" is also a pronoun."""
    value = spelled_number(word[0].lower()) if word[0].lower() != "one" else None
    return word[0] if value is None else str(value)


def _last_member(value: str) -> str:
    """The last member of a computation, ``28`` for ``4(7) = 28``."""
    if "=" not in value or _SEVERAL.search(value) or _UNKNOWN.search(value.partition("=")[0]):
        return value  # the equation of a curve
    last = value.rpartition("=")[2].strip()
    return undelimited(last.replace("$", "", 1) if last.count("$") % 2 else last)


def _before_sign(words: str) -> str:
    """What stands before the first equals sign outside formulas."""
    return words[: (hidden(words) + "=").index("=")]


def _words(value: str) -> str:
    """The words of a value: its unit."""
    return " ".join(re.findall(r"(?<![\\A-Za-z{])[a-z]{2,}", value))


def _last_value(statement: str, sentence: str, reference: str, start: int) -> str | None:
    """The value at the end of a sentence that does not say what it is, where chance cannot have put it there.

    It is in bold, of a kind that chance does not repeat, or just computed.
    """
    whole, sentence = sentence, sentence.rstrip(" .!。*_")
    around = unshared(MATH_SPAN.sub(" ", sentence), statement)
    clause = _CLAUSE.split(around)[-1]
    bold = BOLD.findall(whole)
    single = len(bold) == 1 and not _MORE.search(whole.rpartition("**")[2])
    named = single and not re.search(r"\d", bold[0])
    clause = _without_word(reference, clause)
    if doubtful(clause, beside_number=not named) or new_measure(statement, clause):
        return None
    if single:
        return undelimited(bold[0])
    if words := _TEXT.fullmatch(reference):
        said = re.search(rf"{_PREDICATE}{re.escape(words[1])}(?: [a-z]+)?\Z", sentence, re.IGNORECASE)
        new = words[1].lower() not in statement.lower()  # "odd or even?" has both
        concludes = start > 0 or is_asked(statement, sentence[: said.start()] if said else "?", sure=False)
        return words[1] if said and (new or concludes) else None
    meant = _telling(reference)
    if meant is not None and meant in given(statement):
        return None
    sentence = measured(re.sub(r"(?<=\d) ?percent\b", "%", sentence))
    spans = MATH_SPAN.findall(sentence)
    unit = sentence.rpartition(spans[-1])[2] if spans else ""
    if spans and (not unit or known_unit(unit.strip())):
        found = undelimited(spans[-1]) + rf"\text{{{unit}}}" * bool(unit)
    else:
        starts = [stop.end() for stop in _WORDS_BEFORE.finditer(hidden(sentence))]
        tails = (sentence[start:] for start in reversed([0, *starts]))
        found = next((tail for tail in tails if _balanced(tail) and _is_finished(tail)), "")
        found = sentence[with_part(sentence, len(sentence) - len(found)) :]
        if meant is not None and meant.kind == "list":
            (items, *_) = at_end(sentence) or ("",)  # not any "2,3", which is also a decimal
            return items if len(_NEXT.findall(items)) == len(meant.args) - 1 > 0 else None
    if "." not in reference:
        found = _ABOUT.split(found)[0]
    sides, signs = _EQUALITY.split(found), [sign.end() for sign in _EQUALITY.finditer(found)]
    if meant is None and not (len(sides) > 1 and _OPERATION.search(sides[-2]) and alike(statement, whole)):
        return None
    related = meant is not None and meant.kind in ("relation", "mod")
    value = found[[0, 0, *signs][-2] :] if related else sides[-1]
    return value if is_value(undelimited(value)) else None


def _without_word(reference: str, words: str) -> str:
    """Words without the reference, if that is one, such as "false"."""
    of = _TEXT.fullmatch(reference)
    return re.sub(rf"\b{re.escape(of[1])}\b", " ", words, flags=re.IGNORECASE) if of else words


def _says_each(sentence: str, values: tuple[Node, ...]) -> bool:
    """Whether it gives so many values, in their order: "the maximum is 2, and the minimum is -2".

    Those of one name may stand in any order: "The critical points are at $x = 2$ and $x = -2$".
    """
    stops = [0, *(stop.end() for stop in _NEXT.finditer(hidden(sentence))), len(sentence)]
    said, names, bracketed = [], set[str](), re.search(r"[(\[]", hidden(sentence)) is not None
    for part in (sentence[start:end] for start, end in pairwise(stops)):
        formulas, part = MATH_SPAN.findall(part), _NEXT.sub("", part)
        number = (at_end(part) or (not bracketed and last_number(part) or ("", ""))[1:])[0]
        value = undelimited(formulas[-1]) if formulas else number
        if value:
            *sides, last = _EQUALITY.split(value)
            said.append(form(last))
            names.add(sides[-1].strip() if sides else str(len(said)))
    theirs = [*map(value_of, values)]
    return said == theirs or (len(names) == 1 and sorted(map(repr, said)) == sorted(map(repr, theirs)))


def _last_number(statement: str, context: str, sentence: str) -> str | None:
    """The last number of a sentence that does not speak of something else than the problem asks for.

    It is sure to be the answer if the sentence concludes, or repeats what the `context` has just computed.
    """
    whole, sentence = sentence, without_remarks(sentence.replace("**", "")).rstrip(" .!。")
    ended = whole.rstrip(" *_").endswith((".", "!", "。"))
    conclusion = CONCLUDES.search(sentence)
    said = sentence[conclusion.end() :] if conclusion else sentence
    last = last_number(said)
    if last is None or len(sentence) > 400 or _NO_CLAIM.match(sentence):
        return None
    before, number, after = last
    value = _last_member(number)
    repeats = rf"=[\s$*\\]*{re.escape(value.lstrip(_MONEY))}(?!\.?\d)[^=\d]{{0,40}}\Z"
    sure = conclusion is not None or re.search(repeats, context) is not None
    if not (sure or ended) or contradicts(statement, before, after, sure=sure):
        return None
    words = unshared(MATH_SPAN.sub(" ", said if sure else whole), statement)
    if doubtful(words, beside_number=True) or RELATIVE.search(before):
        return None
    if _NUMBERS.search(said) or _ANOTHER.search(after) or form(value) in given(statement):
        return None
    return _with_unit(value, after) if is_value(value) else None


def _is_finished(tail: str) -> bool:
    return is_value(undelimited(_EQUALITY.split(tail)[-1]))


def _balanced(text: str) -> bool:
    """Whether all brackets are closed; those of ``[0, 1)`` are, too."""
    opening, closing = (sum(map(text.count, signs)) for signs in ("([", ")]"))
    return opening == closing and text.count("{") == text.count("}")


@lru_cache(maxsize=4096)
def _telling(reference: str) -> Node | None:
    """What a reference means, unless chance may repeat it: a small integer, 14.5, a letter, words."""
    node, value = form(reference), None
    if isinstance(node, str):
        return None
    with suppress(OverLimit, Undefined):
        value = exact_value(node)
    if isinstance(value, Fraction) and node.kind != "based":
        digits = len(str(abs(value.numerator))) + len(str(value.denominator))
        return node if digits > (4 if value.denominator == 1 else 3) else None
    return None if node.kind in ("sym", "const", "text") else node
