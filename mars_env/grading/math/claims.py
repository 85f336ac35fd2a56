"""Finds the value that a last sentence gives to what a problem asks for."""

import re
from itertools import pairwise
from typing import NamedTuple

from mars_env.grading.math.agreement import in_words, is_same, telling
from mars_env.grading.math.asked import alike, contradicts, is_asked, new_measure, question, stems, unshared
from mars_env.grading.math.doubt import doubtful
from mars_env.grading.math.nodes import Node
from mars_env.grading.math.question import form, given
from mars_env.grading.math.sentences import (
    BOLD,
    MATH_SPAN,
    NUMBER,
    at_end,
    hidden,
    is_value,
    last_number,
    measured,
    only_number,
    undelimited,
    with_long_unit,
    with_part,
    without_remarks,
)
from mars_env.grading.math.shapes import value_of
from mars_env.grading.math.spelled import spelled_number
from mars_env.grading.math.tokens import CHINESE_UNITS, FUNCTIONS
from mars_env.grading.math.units import known_unit
from mars_env.grading.math.vocabulary import CONCLUDES, CONCLUSION, OTHER_CASE, RELATIVE

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
_PREDICATE = (
    r"\b(?:(?:(?:lie|i)s|are|was|were|be|has|have|on)(?: an?| in| the)*|series|integral|sequence|limit|it) "
)
_WORDS_BEFORE = re.compile(
    r"(?:(?<!\d ):|[;,—]|\b[A-Za-z]{2,}|['’]s|i\.e\.)\s+(?=\S)|[\u4e00-\u9fff，：；]+(?=\S)"
)
_OPERATION = re.compile(r"\d\)?\s*(?:[-+*/×÷·−^!]|\\(?:cdot|times|div)|\()|\\[dt]?frac|\\sqrt|√")
_EQUALITY = re.compile(r"(?:(?<![<>=!≤≥])=(?!=)|≈|\\approx|\\equiv|≡)\s*")
_ABOUT = re.compile(r"\s*(?:≈|\\approx)")
_NO = re.compile(r"(no)\b[,.]([^,:;]*?)\b(?:(?:can)?not|\w+n['’]t)\b([^,:;]*)\Z", re.IGNORECASE)
_MORE = re.compile(r"[\d$,，]")
LAST_CLAUSE = re.compile(r"[,;，；]\s*(?=\S)")


def _is_phrase(words: str) -> bool:
    """Whether a bold text is an answer in words: ``Evelyn``, ``an ellipse``."""
    few = len(words.split()) <= 3 and not re.search(r"[\d:：]", words)
    return few and not doubtful(words, beside_number=True)


def is_equation(line: str) -> bool:
    """Whether a line is one formula: ``P(A) = 3/8 = 0.375``, ``x > 4``, ``17 - 9 = 8 apples``."""
    left, sign, right = line.rpartition("=")
    outside = MATH_SPAN.sub(" ", line)
    words = _LETTERS.findall(_IN_BRACKETS.sub(" ", left if sign else line))
    words += _LETTERS.findall(outside.rpartition("=")[0] or outside) if MATH_SPAN.search(line) else ()
    if len(line) > 400 or set(words) - FUNCTIONS - {"mod"}:
        return False
    return is_value(undelimited(right)) if sign else _RELATION.search(line) is not None


def claimed(statement: str, sentence: str, reference: str = "") -> str | None:
    """The value that a sentence gives to what a problem asks for; None if it gives none, or with a doubt."""
    if len(sentence) > 400 or _NO_CLAIM.match(sentence):
        return None
    opening = CONCLUSION.match(sentence)
    if no := _NO.match(
        sentence[opening.end() if opening else 0 :].replace("**", "").strip()
    ):  # "No, it is not prime"
        said = without_remarks(no[2] + no[3])
        return no[1] if stems(said) and is_asked(statement, said, sure=True) and not doubtful(said) else None
    meant = telling(reference)
    starts = [stop.start() for stop in _BREAK.finditer(hidden(sentence))] if meant else []
    concluding = sentence[starts[-1] if starts else 0 :]
    if doubtful(_without_word(reference, unshared(MATH_SPAN.sub(" ", concluding), statement))):
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
    for clause in _CLAUSES.split(sentence[start:].strip(" ,:，")):
        if (none := _NONE.search(clause)) or _VERDICT.match(clause):
            return "no solution" if none else undelimited(clause)
        claim = _claim(statement, clause)
        if claim is None or not (ended or claim.marked) or OTHER_CASE.match(claim.words):
            continue
        if in_words(reference) and re.search(r"\d", claim.value):
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
    if is_value(clause) or is_equation(clause):
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
    clause = LAST_CLAUSE.split(around)[-1]
    bold = BOLD.findall(whole)
    single = len(bold) == 1 and not _MORE.search(whole.rpartition("**")[2])
    named = single and not re.search(r"\d", bold[0])
    clause = _without_word(reference, clause)
    if doubtful(clause, beside_number=not named) or new_measure(statement, clause):
        return None
    if single:
        return undelimited(bold[0])
    if words := in_words(reference):
        said = re.search(rf"{_PREDICATE}{re.escape(words)}(?: [a-z]+)?\Z", sentence, re.IGNORECASE)
        new = words.lower() not in statement.lower()  # "odd or even?" has both
        concludes = start > 0 or is_asked(statement, sentence[: said.start()] if said else "?", sure=False)
        return words if said and (new or concludes) else None
    meant = telling(reference)
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
        found = next(filter(_is_whole, tails), "")
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
    of = in_words(reference)
    return re.sub(rf"\b{re.escape(of)}\b", " ", words, flags=re.IGNORECASE) if of else words


def _says_each(sentence: str, values: tuple[Node, ...]) -> bool:
    """Whether it gives so many values, in their order: "the maximum is 2, and the minimum is -2".

    Those of one name may stand in any order: "The critical points are at $x = 2$ and $x = -2$".
    """
    stops = [0, *(stop.end() for stop in _NEXT.finditer(hidden(sentence))), len(sentence)]
    said, names = [], set[str]()
    bracketed = re.search(r"[(\[]", hidden(sentence)) is not None
    for part in (sentence[start:end] for start, end in pairwise(stops)):
        formulas, part = MATH_SPAN.findall(part), _NEXT.sub("", part)
        if formulas:
            value = undelimited(formulas[-1])
        elif found := at_end(part):
            value = found[0]
        else:
            number = None if bracketed else last_number(part)
            value = number[1] if number else ""
        if value:
            *sides, last = _EQUALITY.split(value)
            said.append(form(last))
            names.add(sides[-1].strip() if sides else str(len(said)))
    theirs = [*map(value_of, values)]
    return said == theirs or (len(names) == 1 and sorted(map(repr, said)) == sorted(map(repr, theirs)))


def number_claimed(statement: str, context: str, sentence: str) -> str | None:
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


def _is_whole(text: str) -> bool:
    """Whether a text ends with a value, and all its brackets are closed; those of ``[0, 1)`` are, too."""
    opening, closing = (sum(map(text.count, signs)) for signs in ("([{", ")]}"))
    return opening == closing and is_value(undelimited(_EQUALITY.split(text)[-1]))
