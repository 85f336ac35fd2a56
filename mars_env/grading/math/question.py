"""What a problem asks for: formulas, words and units; and what that says about an answer."""

from __future__ import annotations

import re
from functools import lru_cache

from mars_env.grading.math.doubt import doubtful
from mars_env.grading.math.nodes import EXPRESSIONS, Node, OverLimit, Unreadable, operators, word_set
from mars_env.grading.math.parser import plain_integer, read_answer
from mars_env.grading.math.sentences import (
    MATH_SPAN,
    is_value,
    only_number,
    undelimited,
    with_long_unit,
    without_remarks,
)
from mars_env.grading.math.tokens import escape_money
from mars_env.grading.math.units import DIMENSIONS, Unit, letter_unit, unit, value_and_unit
from mars_env.grading.math.vocabulary import PROVISIONAL

_LENGTH = 400  # longest answer or sentence that is looked at
_STATEMENT = 4000  # so many characters at the end of a problem are searched for its questions
_ASKED = re.compile(
    r"(?:\b(?:find|compute|evaluate|determine|calculate|what\s+is|solve\s+for|what\s+values?\s+of)\s+(?:the\s+(?:exact\s+)?value\s+of\s+)?|求[^$。,，]{0,20})"
    r"(?:\$([^$]{1,200})\$|\\\((.{1,200}?)\\\))\s*(?:[.?,:;。，]|\Z|(?:if|given|such|when|where|does|do|will|is)\b)",
    re.IGNORECASE,
)
_SUM = re.compile(r"[-+]|\A\d")
_LISTED = re.compile(r",[^,=]{1,20}=")
_NAME = re.compile(r"(\\?[A-Za-z]+)(_(?:\w|\{\w{1,3}\}))?")
_NUMBERED = re.compile(r"(?<![A-Za-z\\])(\\?[A-Za-z]+)_(?:\{(?=\d\}))?(\d)\}?\s*(?:=\s*|(?=\(-?\d))")
_SENTENCES = re.compile(r"(?<=[.?!])\s+|\n|(?<=[。？])")
_ASKS = re.compile(
    r"[?？求]|计算|展开|分解|化[简为成]|\b(?:find|compute|evaluate|determine|calculate|what|how|give|express|answer|solve|convert|write|expand"
    r"|factor|simplify|rationali[sz]e|reduce|complete)\b",
    re.IGNORECASE,
)
_UNIT = r"((?:(?:square|cubic)\s+)?[A-Za-z]+(?:\s+per\s+[A-Za-z]+|\s*/\s*[A-Za-z]+(?:\^2)?)?)"
_IN_UNIT = re.compile(
    rf"\bhow\s+many\s+{_UNIT}\b(?!\s*(?:,|/|(?:and|or|per)\b))|\b(?:in|to\s+the\s+nearest)\s+(?:\$?\\(?:text|mathrm)\s*\{{\s*)?{_UNIT}"
    r"(?=[\s$}]*(?:[.?,;)(]|\Z|(?:does|do|is|are|of|in|to|as|rounded)\b))",
    re.IGNORECASE,
)
_ASKS_FOR_FORM = re.compile(
    r"\b(?:expand|factor|simplif|rationali[sz]|reduc|convert|writ|express|complet)\w*|展开|分解|化简|化[为成]|写成|表示",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:/\d+|\\?%)?")
_RESIDUE = re.compile(r"(?:\\ |\s)*\\pmod\s*\{?\s*(\d{1,9})\s*\}?\s*\Z")
_ONLY_A_LABEL = re.compile(
    r"\s*(?:e|i|[A-Za-z]\^\{?-1\}?\s*(?:\\left)?\([a-z](?:\\right)?\)|\\lim_\{[^{}=]*\}[^=]*)\s*=(?!=)(?:.*=)?"
)
_RADIANS = re.compile(r"(?<![A-Za-z])rad(?:ians?)?(?![A-Za-z])")
_CLAIM = re.compile(
    r"(?:(?:(?:so|thus|hence|therefore|finally),?|(?:by|from|using)\s[^,=]{1,40},)\s+)?(?:(?:the|its|his|her|their)\s+)?"
    r"(?P<what>[A-Za-z][A-Za-z0-9'’ ,$\\{}^_()+*/-]{1,120}?)\s*"
    r"(?:\b(?P<verb>is|are|was|were|equals)\b(?:\s+(?:therefore|thus|exactly|equal\s+to|(?:located\s+)?at))?|[:=])[\s:]*(?P<value>\S.*)\Z",
    re.IGNORECASE | re.DOTALL,
)
_CLAUSE = re.compile(r",?\s+(?:and|while|whereas)\s+(?=(?:the|its)\s)", re.IGNORECASE)
_PARTS = re.compile(r",(?=[^,=]{1,20}=)")
_MARK = re.compile(r"\$[^$]*\$|\d[\d.,]*\d|\d|(?<![A-Za-z'’])(?!a\b)[A-Za-z](?![A-Za-z])")
"""A formula, a number or a letter among words."""
_COMPUTED = re.compile(r"[\s$(]*[-−]?\s*(?:\\?\$)?[\d\\(√]")
_WORD = re.compile(r"[^\W\d_]+")
_IDLE_WORDS = word_set("the a an of in for is are its his her their this that these to at on s")
_NO_NAMES = _IDLE_WORDS | word_set(
    """if when how what which find solve let in after suppose given and or so we he she they it there be been
    was were has have had will would can could do does did get got all also thus hence therefore equal equals
    plus minus times divided by each from with into you your one than then both only exactly finally per
    take takes took need needs points numbers two people persons ways items units dollars"""
)
_NAMES = re.compile(r"\b[A-Z][a-z]+\b")
_MORE = re.compile(r"\b(?:more|fewer|less|older|younger|longer|taller|farther)\b|\bdifference\b", re.I)
_COMPARES = re.compile(
    r"\bhow (?:many|much) (?:\w+ )?(?:more|fewer|less|\w+er)\b(?=.*\bthan\b(?!\s\$?\d))|\bdifference\b", re.I
)
_CHINESE_SUBJECT = re.compile(
    r"(?:因此|所以|故|则|可得|即|其|该)*([\u4e00-\u9fff]{2,8})(?:是|为|等于)\s*[$\\(]*[-\w\\]"
)
_RESULT = re.compile(r"\b(?:sum|product|ratio|difference)\b", re.I)
_TOGETHER = re.compile(r"\b(?:together|altogether|combined|total|in all)\b", re.I)
_NOT = re.compile(r"\b(?:not|without)\b|n['’]t\b", re.I)
_IMPLIED = {
    "how far": "distance travel far", "how long": "time last length", "how old": "age old", "when": "time",
    "how much": "cost price pay amount total", "how many": "number total", "solve": "root solution",
    "find all": "solution root", "\\lim": "limit", "\\int": "integral", "\\frac{d": "derivative",
}  # fmt: skip
"""What a question asks for without the word."""
_DONE = re.compile(r"\b([a-z]+(?:s|ed))(?: away| out| up| off)? \\?\$?\d")
"""A verb before a number."""
_DEGREE = re.compile(
    r"\b(?:(?:larg|small|great|long|short|high|low|old|young|tall)(?:er|est)|least|most)\b", re.I
)
_CALL = re.compile(r"[A-Za-z]'{0,3}(?:\^\{-1\})?\([^()=]{1,40}\)")
_PHRASE = re.compile(r"[^\W_]+")
_PLAIN_NUMBER = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?")
_IS_ONE = re.compile(r"\d\$? (?:is|are) an?\b")
_OPERATORS = re.compile(r"\\(?:frac\{d\}\{d\w\}|text|left|right|cdot|times|div|bmod|[,;:! ])|\bmod\b")
_UNFINISHED = re.compile(r"[^=A-Za-z]*\d[^=A-Za-z]*=\s*(?=[^=]*\d)")
"""The sides of a computation before its result."""
_ALWAYS_ASKED = word_set("answer value number total it result solution final set")


def claimed(statement: str, sentence: str) -> str | None:
    """The value that a sentence gives to what the problem asks for.

    It is a formula whose left side is asked for, or the value of words that a question has in this order;
    None if there is none.
    """
    if len(sentence) > _LENGTH or doubtful(MATH_SPAN.sub(" ", sentence)):
        return None
    for name in filter(_NAME.fullmatch, asked_formulas(statement)):
        named = re.search(
            rf"(?:\A|[a-z]{{2}}[,:]?\s+){re.escape(name)}\s*=\s*([^=,;]+)\Z", undelimited(sentence)
        )
        if named and is_value(named[1]):
            return named[1]
    formulas = [part for span in MATH_SPAN.findall(sentence) for part in _PARTS.split(undelimited(span))]
    found = [part.strip() for part in formulas if _after_asked(statement, part)]
    if len(found) != 1:
        ended = sentence.rstrip(" \t*_")[-1:] in (".", "!")
        bare = without_remarks(sentence.replace("**", ""))
        clauses = [] if is_another(statement, bare) else _CLAUSE.split(undelimited(bare))
        found = [value for one in clauses if (value := _claimed_value(statement, one, ended))]
    return found[0] if len(found) == 1 else None


def restated(statement: str, sentence: str) -> str | None:
    """The value of a whole sentence that repeats what a problem asks for: its words, names and comparisons.

    The problem does not give that value, and every word of the sentence is the problem's.

    Example:
        >>> problem = "A train goes 180 miles in 3 hours. Find its average speed in mph."
        >>> restated(problem, "The average speed of the train is 60 mph.")
        '60 mph'
        >>> restated(problem, "The length of the train is 60 m.") is None
        True
    """
    questions, words = _questions(statement), sentence.replace("**", "").strip()
    if not questions or len(words) > _LENGTH or words[-1:] not in (".", "!") or is_another(statement, words):
        return None
    asked = questions[-1].lower()
    implied = " ".join(more for how, more in _IMPLIED.items() if how in asked)
    known, theirs = _roots(f"{statement} {implied}"), _roots(f"{asked} {implied}")
    mine = _roots(words)
    bare = _UNFINISHED.sub(" ", _unshared(words, statement))
    given = {number.replace(",", "") for number in _PLAIN_NUMBER.findall(statement)}
    units = set(map(_known_unit, asked_units(statement)))
    in_unit = any(_known_unit(word) in units for word in _WORD.findall(words))
    if (
        mine - known
        or _IS_ONE.search(bare)
        or not (mine & theirs or in_unit or (given and given <= set(_PLAIN_NUMBER.findall(words))))
    ):
        return None
    if _TOGETHER.search(asked) and not _TOGETHER.search(words):
        return None
    if any(word[0].lower() not in asked for word in PROVISIONAL.finditer(bare)):
        return None
    if doubtful(MATH_SPAN.sub(" ", bare)) or _ASKS.match(words):
        return None
    if _DEGREE.search(asked) and not _DEGREE.search(words):
        return None
    said = _CLAIM.match(undelimited(words))
    elsewhere = said is not None and any(span not in statement for span in MATH_SPAN.findall(said["what"]))
    value = undelimited(said["value"]) if said and said["verb"] and mine & theirs and not elsewhere else ""
    if is_value(value) and (mine <= theirs or not given.issuperset(_PLAIN_NUMBER.findall(value))):
        return with_long_unit(value)
    return only_number(_PLAIN_NUMBER.sub(lambda n: " " if n[0].replace(",", "") in given else n[0], bare))


def is_another(statement: str, sentence: str) -> bool:
    """Whether a sentence has another name than the question, or lacks its comparison."""
    asked = (_questions(statement) or [""])[-1]
    theirs = set(_WORD.findall(statement))
    everyone = {name for name in _NAMES.findall(statement) if name.lower() not in theirs | _NO_NAMES}
    names = everyone.intersection(_NAMES.findall(sentence))
    others = names.difference(_NAMES.findall(asked))
    if others and len(everyone) > 1 and not (_TOGETHER.search(asked) and len(names) > 1):
        return True
    for subject in _CHINESE_SUBJECT.findall(sentence)[-1:] if not statement.isascii() else ():
        pairs = {subject[i : i + 2] for i in range(len(subject) - 1)}
        if not any(pair in statement + "答案结果" for pair in pairs) and not subject.endswith(("值", "数")):
            return True
    done = _DONE.search(sentence)
    if done and _roots(done[1]) & _roots(statement) - _roots(asked):
        return True
    needed = [_MORE] if _COMPARES.search(asked) else [_RESULT, _NOT]
    return any(pattern.search(asked) and not pattern.search(sentence) for pattern in needed)


def _roots(text: str) -> set[str]:
    """The first letters of the words that mean something."""
    words = _WORD.findall(MATH_SPAN.sub(" ", escape_money(text)).lower())
    meant = (word for word in words if len(word) > 1 and word not in _NO_NAMES)
    return {_stem(word)[:5] for word in meant if _known_unit(word) is None}


def _unshared(sentence: str, statement: str) -> str:
    """A sentence without the phrases of the problem: "not red", "less than 20"."""
    tokens = _PHRASE.findall(sentence)
    theirs = f" {' '.join(_PHRASE.findall(statement))} ".lower()
    for size in (3, 2):
        for i in range(len(tokens) - size + 1):
            phrase = tokens[i : i + size]
            if not doubtful(phrase[-1], beside_number=True) and f" {' '.join(phrase)} ".lower() in theirs:
                sentence = re.sub(r"[\W_]+".join(map(re.escape, phrase)), " ", sentence)
    return sentence


def with_unit_after(statement: str, sentence: str, value: str) -> str:
    """A number with the unit of measurement that follows it in its sentence, if the problem asks for one."""
    after = re.search(rf"{re.escape(value)}\s+{_UNIT}", sentence) if asked_units(statement) else None
    known = after and re.fullmatch(r"[\d.,]+", value) and _known_unit(after[1])
    return rf"{value}\text{{ {after[1]}}}" if known and after else value


def _claimed_value(statement: str, clause: str, ended: bool) -> str | None:
    said = _CLAIM.match(clause)
    if said is None or (said["verb"] and not ended):
        return None
    if not _in_order(_subject(said["what"]), _asked_words(statement)):
        return None
    marks = _MARK.findall(said["what"])
    if any(not re.search(rf"(?<!\w){re.escape(mark)}(?!\w)", statement) for mark in marks):
        return None
    value = undelimited(said["value"])
    if "=" in value and _COMPUTED.match(value):
        last = value.rpartition("=")[2].strip()
        value = undelimited(f"${last}" if last.count("$") % 2 else last)
    return with_long_unit(value) if is_value(value) else None


def is_unasked(statement: str, sentence: str) -> bool:
    """Whether a sentence gives a number to other words than those of the problem's questions."""
    said, asked = _CLAIM.match(sentence[:_LENGTH]), _asked_words(statement)
    numeric = said is not None and said["verb"] and re.search(r"\d", said["value"])
    return bool(said and numeric and asked and not _in_order(_subject(said["what"]), asked))


def _subject(what: str) -> list[str]:
    return [_stem(word) for word in _WORD.findall(_MARK.sub(" ", what.lower())) if word not in _IDLE_WORDS]


def _in_order(subject: list[str], asked: tuple[str, ...]) -> bool:
    """Whether the words of a subject, one at least, are in a question in the same order."""
    rest = iter(asked)
    return bool(subject) and all(word in _ALWAYS_ASKED or word in rest for word in subject)


@lru_cache(maxsize=4096)
def _asked_words(statement: str) -> tuple[str, ...]:
    """The stems of the words in a problem's questions, in their order."""
    text = MATH_SPAN.sub(" ", " ".join(_questions(statement))).lower()
    return tuple(_stem(word) for word in _WORD.findall(text))


def _stem(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def _questions(statement: str) -> list[str]:
    return [one for one in _SENTENCES.split(statement[-_STATEMENT:]) if _ASKS.search(one)]


def asked_value(statement: str, answer: str) -> str:
    """The right side of an equation whose left side is what the problem asks for; otherwise the answer."""
    named = _NAME.fullmatch(answer.partition("=")[0].strip())
    if len(answer) > _LENGTH or (named and _parsed(answer)):
        return answer
    right = _after_asked(statement, answer) or _after_words(statement, answer)
    if right is None or _parsed(right):
        return right or answer  # a chain after a single name is read as it is
    return right.rpartition("=")[2].strip() or right  # "[x^3]_0^1 = 1"


def _after_words(statement: str, equation: str) -> str | None:
    """The last side of an equation that cannot be read, if its first side is in the problem's words."""
    left, sign, _ = equation.partition("=")
    if not sign or "\n" in equation or _parsed(equation):
        return None
    theirs = iter(_PHRASE.findall(statement.lower()))
    mine = _PHRASE.findall(_OPERATORS.sub(" ", left).lower())
    right = equation.rpartition("=")[2].strip()
    same = mine and all(any(word.startswith(one) or (one in word > "一") for word in theirs) for one in mine)
    return right if same and _parsed(right) else None


def _after_asked(statement: str, equation: str) -> str | None:
    """What stands to the right of a formula that is asked for; None if none of them is the left side."""
    asked = list(map(_form, asked_formulas(statement))) if "=" in equation else []
    for sign in list(re.finditer("=", equation))[:4] if asked else ():
        right = equation[sign.end() :].strip()
        if right and _form(equation[: sign.start()]) in asked:
            return right
    return None


def _form(formula: str) -> Node | str:
    """What a formula means; what cannot be read, without what changes only its looks."""
    return _parsed(formula) or re.sub(r"\s+|\\[,;:! ]|[{}]", "", formula)


@lru_cache(maxsize=4096)
def _parsed(formula: str) -> Node | None:
    try:
        return read_answer(formula)
    except (Unreadable, OverLimit, RecursionError):
        return None


@lru_cache(maxsize=4096)
def asked_formulas(statement: str) -> tuple[str, ...]:
    """The formulas that a problem asks for: ``x`` in "Find $x$"."""
    return tuple((match[1] or match[2]).strip(" .,") for match in _ASKED.finditer(statement))


def names_another(statement: str, answer: str) -> bool:
    """Whether an answer gives the value of another name than the one that the problem asks for.

    That name occurs in the problem, or it differs from the one asked for in its index alone.
    """
    asked = asked_formulas(statement)
    left, sign, _ = answer.strip(" $").partition("=")
    name = _NAME.fullmatch(left.strip())
    if sign and len(asked) == 1 and _CALL.fullmatch(left.strip()) and _CALL.fullmatch(asked[0]):
        return _form(left.strip()) != _form(asked[0])
    if not sign or len(answer) > _LENGTH or len(asked) != 1 or name is None or _LISTED.search(answer):
        return False
    written = re.escape(name[0])
    if len(name[0]) == len(asked[0]) == 1 and name[0].islower() and asked[0].islower():
        return name[0] != asked[0]
    if re.search(rf"(?<![A-Za-z\\]){written}(?![A-Za-z])", asked[0]):
        return name[0] != asked[0] and _SUM.search(asked[0]) is not None  # "m = 23" for "m + n"
    if name[2] and (other := _NAME.fullmatch(asked[0].strip())):
        return bool(other[1] == name[1] and other[2])
    formulas = MATH_SPAN.findall(statement)
    if any(re.search(rf"[A-Za-z]\({written}\)", span) for span in formulas):
        return False  # the argument of a function may be solved for
    return any(re.search(rf"(?<![A-Za-z\\(]){written}(?![A-Za-z_^(])", span) for span in formulas)


def is_copied(statement: str, reference: str, answer: str) -> bool:
    r"""Whether an answer only repeats what a problem gives, where it wants another form or unit.

    Example:
        >>> is_copied(r"Simplify $\sqrt{72}$.", r"6\sqrt{2}", r"\sqrt{72}")
        True
        >>> is_copied("How many grams are 3 kg?", "3000", "3 kg"), is_copied("What is 3?", "3", "3 kg")
        (True, False)
    """
    if len(answer) > _LENGTH:
        return False
    units, asks_for_form = asked_units(statement), _ASKS_FOR_FORM.search(statement)
    if not units and not asks_for_form:
        return False
    mine = _form(answer)
    if units and isinstance(mine, Node) and mine.kind == "quantity":
        of = _known_unit(mine.name)
        if of is not None and all(_known_unit(name) != of for name in units):
            return mine.args[0] in _given(statement)
    asked = " ".join(_questions(statement)) if asks_for_form else ""
    return bool(_ASKS_FOR_FORM.search(asked)) and mine in _given(statement) and mine != _form(reference)


@lru_cache(maxsize=4096)
def _given(statement: str) -> frozenset[Node | str]:
    """The formulas and numbers of a problem."""
    formulas = list(map(undelimited, MATH_SPAN.findall(statement)))
    return frozenset(map(_form, formulas + _NUMBER.findall(MATH_SPAN.sub(" ", statement))))


def without_label(text: str) -> str:
    r"""A value without a label that can be read as something else, or is none: ``e =``, ``f^{-1}(x) =``."""
    label = _ONLY_A_LABEL.match(text) if len(text) <= _LENGTH else None
    return text[label.end() :] if label else text


def without_modulus(statement: str, answer: str) -> str:
    r"""A remainder without its modulus: 3 for ``3 \pmod 7``, if the problem has that modulus."""
    mod = _RESIDUE.search(answer) if "\\pmod" in answer and len(answer) <= _LENGTH else None
    if mod is None or mod[1] not in statement:
        return answer
    left, _, right = answer[: mod.start()].rpartition("\\equiv")
    value = plain_integer(right.strip())
    given = not left or _form(left.strip()) in _given(statement)
    return right.strip() if given and value is not None and 0 <= value < int(mod[1]) else answer


def without_numbering(statement: str, answer: str) -> str:
    """``3, 1`` for a list of ``x_1 = 3, x_2 = 1``, if the problem has no ``x_``."""
    names = _NUMBERED.findall(answer) if "_" in answer and len(answer) <= _LENGTH else []
    letters, numbers = {name[0] for name in names}, [name[1] for name in names]
    if len(letters) != 1 or len(names) < 2 or numbers != [str(k + 1) for k in range(len(names))]:
        return answer
    return answer if f"{letters.pop()}_" in statement else _NUMBERED.sub("", answer)


@lru_cache(maxsize=4096)
def asked_units(statement: str) -> tuple[str, ...]:
    """The units of measurement that a problem's questions ask for: "how many minutes", "in km/h"."""
    found = []
    for names in (match for question in _questions(statement) for match in _IN_UNIT.findall(question)):
        name = next(filter(None, names)).replace(" /", "/").replace("/ ", "/")
        if name.lower() in ("degree", "degrees"):
            found.append("degrees")
        elif (of := _known_unit(name)) is not None and of.dimension:
            found.append(name)
    return tuple(found)


def _known_unit(name: str) -> Unit | None:
    """The unit of measurement that a name means; None for apples."""
    for written in (name, name.lower()):
        try:
            of = unit(written)
        except Unreadable:
            continue
        if _is_known(of):
            return of
    return None


def _is_known(of: Unit | str | None) -> bool:
    return isinstance(of, Unit) and all(base in DIMENSIONS for base, _ in of.dimension)


def with_asked_unit(statement: str, reference: str, answer: str) -> str:
    r"""The reference with the unit that the problem asks for, if the answer has another one of its kind."""
    if len(answer) > _LENGTH or not re.search("[A-Za-z¢$]", answer) or not (names := asked_units(statement)):
        return reference
    if not _is_bare(reference):
        return reference
    if "degrees" in names:
        return rf"{reference}^\circ" if _RADIANS.search(answer) else reference
    expected = {of.dimension: (name, of) for name in names if (of := _known_unit(name))}
    node = _parsed(answer)
    if len(expected) < len(names) or node is None:
        return reference  # "how many hours and minutes"
    try:
        value, given = value_and_unit(node.args[-1] if operators(node) == ("=",) else node)
        for name, of in expected.values():
            found = letter_unit(value, of)[1] if given is None else given
            another = given is not None and len(expected) == 1 and _is_known(given)
            if isinstance(found, Unit) and (_bases(found) == _bases(of) or another):
                return rf"{reference}\text{{ {name}}}" if found != of or given is None else reference
    except (Unreadable, OverLimit, RecursionError):
        pass
    return reference


def _bases(of: Unit) -> frozenset[str]:
    """The kinds of a unit: an area and a length are alike."""
    return frozenset(base for base, _ in of.dimension)


def _is_bare(reference: str) -> bool:
    """Whether a reference is a number without a unit."""
    node = _parsed(reference)
    if node is None or node.kind not in EXPRESSIONS or node.kind == "add":
        return False
    return all(part.kind != "sym" for part in node.walk())
