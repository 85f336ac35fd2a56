"""What a problem asks for: formulas, words and units; and what that says about an answer."""

import math
import re
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

from mars_env.grading.math.asked import PHRASE, questions
from mars_env.grading.math.nodes import EXPRESSIONS, Node, OverLimit, Unreadable, operators
from mars_env.grading.math.parser import plain_integer, read_answer
from mars_env.grading.math.sentences import MATH_SPAN, NUMBER, undelimited
from mars_env.grading.math.tokens import CHINESE_UNITS
from mars_env.grading.math.units import is_known, known_unit, letter_unit, value_and_unit
from mars_env.grading.math.vocabulary import NO_LENGTH

_LENGTH = 400  # longest answer or sentence that is looked at
_ASKED = re.compile(
    r"(?:\b(?:find|compute|evaluate|determine|calculate|what\s+is|solve\s+for|what\s+values?\s+of)\s+(?:the\s+(?:exact\s+)?value\s+of\s+)?|求[^$。,，]{0,20})"
    r"(?:\$([^$]{1,200})\$|\\\((.{1,200}?)\\\))\s*(?:[.?,:;。，]|\Z|(?:if|given|such|when|where|does|do|will|is|in|as)\b)"
    r"|则\s*\$([^$]{1,200}?)=\s*(?:\$\s*_|\\_|\\underline)",
    re.IGNORECASE,
)
_ORDER = re.compile(
    r"(?:\A|[.?!:]\s+|\b(?:and|then|to)\s+)(?:arrange|order|sort|rank)\b|\barrange\b.*\border\b|[从按由].{0,6}[顺次]序",
    re.IGNORECASE,
)
_INTEGRATION = re.compile(
    r"(?i)\\int|antideriv|integra|general solution|differential|[a-z]'|积分|原函数|通解"
)
_SUM = re.compile(r"[-+/]|frac|\A\d")
_NAME = re.compile(r"(\\?[A-Za-z]+)(_(?:\w|\{\w{1,3}\}))?")
_NUMBERED = re.compile(r"((?:\\|(?<![A-Za-z\\]))[A-Za-z]+)_(?:\{(?=\d\}))?(\d)\}?\s*(?:=\s*|(?=\(-?\d))")
_UNIT = r"((?:(?:square|cubic)\s+)?[A-Za-z]+(?:\s+per\s+[A-Za-z]+|\s*/\s*[A-Za-z]+(?:\^2)?)?)"
_IN_UNIT = re.compile(
    rf"\b(degrees?)\s+measures?\b|\bhow\s+many\s+(?:(?:full|whole|more|complete)\s+)?{_UNIT}\b(?!\s*(?:,|/|(?:and|or|per)\b))"
    rf"|\b(?:in|to\s+the\s+nearest(?!\s+(?:cent|penny)))\s+(?:\$?\\(?:text|mathrm)\s*\{{\s*)?{_UNIT}"
    r"(?=[\s$}]*(?:[.?,;)(]|\Z|(?:does|do|is|are|of|in|to|as|rounded)\b))",
    re.IGNORECASE,
)
_IN_CHINESE_UNIT = re.compile(rf"(?:几|多少)个?({'|'.join(CHINESE_UNITS)})")
_ASKS_FOR_FORM = re.compile(
    r"\b(?:(?P<factor>factor(?:ed|ing|i[sz]e|i[sz]ed|i[sz]ation)?)|(?P<expand>expan[ds]\w*|partial\s+fractions?)"
    r"|(?P<terms>in\s+the\s+form|complete\s+the\s+square)|(?P<scientific>scientific\s+notation)|(?P<signs>positive\s+exponents)"
    r"|(?P<below>simpl(?:if\w*|est)|lowest\s+terms|rationali[sz]\w*|reduc\w*)"
    r"|convert\w*|writ\w*|express\w*)\b|分解|展开|化[简为成]|写成|表示",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:/\d+|\\?%)?")
_RESIDUE = re.compile(r"(?:\\ |\s)*\\pmod\s*\{?\s*(\d{1,9})\s*\}?\s*\Z")
_ONLY_A_LABEL = re.compile(
    r"\s*(?:e|i|[A-Za-z]\^\{?-1\}?\s*(?:\\left)?\([a-z](?:\\right)?\)|\\lim_\{[^{}=]*\}[^=]*)\s*=(?!=)(?:.*=)?"
)
_RADIANS = re.compile(r"(?<![A-Za-z])rad(?:ians?)?(?![A-Za-z])")
_CALL = re.compile(r"[A-Za-z]'{0,3}(?:\^\{-1\})?\((?:[^()=]|\([^()=]{1,20}\)){1,40}\)")
_OPERATORS = re.compile(r"\\(?:frac\{d\}\{d\w\}|text|left|right|cdot|times|div|bmod|[,;:! ])|\bmod\b")


@lru_cache(maxsize=4096)
def _asked_forms(statement: str) -> frozenset[str]:
    """The forms that a problem asks for; "" among them if it only asks for another one than is given."""
    found = (form for question in questions(statement) for form in _ASKS_FOR_FORM.finditer(question))
    return frozenset(form.lastgroup or "" for form in found)


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
    theirs = iter(PHRASE.findall(statement.lower()))
    mine = PHRASE.findall(_OPERATORS.sub(" ", left).lower())
    right = equation.rpartition("=")[2].strip()
    same = mine and all(any(word.startswith(one) or (one in word > "一") for word in theirs) for one in mine)
    return right if same and _parsed(right) else None


def _after_asked(statement: str, equation: str) -> str | None:
    """What stands to the right of a formula that is asked for; None if none of them is the left side."""
    asked = list(map(form, asked_formulas(statement))) if "=" in equation else []
    for sign in list(re.finditer("=", equation))[:4] if asked else ():
        right = equation[sign.end() :].strip()
        if right and form(equation[: sign.start()]) in asked:
            return right
    return None


def form(formula: str) -> Node | str:
    """What a formula means; what cannot be read, without what changes only its looks."""
    return _parsed(formula) or re.sub(r"\s+|\\[,;:! ]|\\displaystyle|[{}]", "", formula)


@lru_cache(maxsize=4096)
def _parsed(formula: str) -> Node | None:
    try:
        return read_answer(formula)
    except (Unreadable, OverLimit, RecursionError):
        return None


@lru_cache(maxsize=4096)
def asked_formulas(statement: str) -> tuple[str, ...]:
    """The formulas that a problem asks for: ``x`` in "Find $x$"."""
    return tuple(next(filter(None, match.groups())).strip(" .,") for match in _ASKED.finditer(statement))


def names_another(statement: str, answer: str) -> bool:
    """Whether an answer gives the value of another name than the one that the problem asks for.

    That name occurs in the problem, or it differs from the one asked for in its index alone.
    """
    left, sign, _ = answer.strip(" $").partition("=")
    if not sign:
        return False
    left, last = left.strip(), (questions(statement) or ("",))[-1]
    if re.fullmatch("[A-Z]{2}", left) and NO_LENGTH.search(last):
        return True  # "MC = 3" for an area
    if len(asked := asked_formulas(last)) != 1:
        return False
    if len(answer) > _LENGTH or form(left) == form(asked[0]):
        return False
    if _CALL.fullmatch(left) and _CALL.fullmatch(asked[0]):
        return True
    if (name := _NAME.fullmatch(left)) is None or name[0] == r"\det":
        return False
    other = _NAME.fullmatch(asked[0])
    if other and (
        re.fullmatch("[a-z]{2}", name[0] + other[0]) or (name[2] and name[1] == other[1] and other[2])
    ):
        return True
    written = re.compile(rf"(?<![A-Za-z\\(]){re.escape(name[0])}(?![A-Za-z_^(])")
    if written.search(asked[0]):
        return _SUM.search(asked[0]) is not None  # "m = 23" for "m + n"
    return any(map(written.search, MATH_SPAN.findall(statement)))


def is_copied(statement: str, reference: str, answer: str) -> bool:
    r"""Whether an answer repeats what a problem gives, or lacks the form that it wants: factored, expanded.

    Example:
        >>> is_copied(r"Simplify $\sqrt{72}$.", r"6\sqrt{2}", r"\sqrt{72}")
        True
        >>> is_copied("Factor $x^3-x$.", "x(x-1)(x+1)", "x(x^2-1)")
        True
        >>> is_copied("How many grams are 3 kg?", "3000", "3 kg"), is_copied("What is 3?", "3", "3 kg")
        (True, False)
    """
    if len(answer) > _LENGTH:
        return False
    units = () if NUMBER.fullmatch(answer) else asked_units(statement)
    if units and isinstance(mine := form(answer), Node) and mine.kind == "quantity":
        of = known_unit(mine.name)
        if of is not None and all(known_unit(name) != of for name in units):
            return mine.args[0] in given(statement)
    if answer == reference or not (forms := _asked_forms(statement)):
        return False
    theirs, mine = form(reference), form(answer)
    if isinstance(mine, Node) and {*operators(mine)} == {"="} and "=" not in reference:
        mine = mine.args[-1]
    if isinstance(theirs, str) or isinstance(mine, str):
        return theirs != mine and mine in given(statement)
    if _sorted(theirs) != _sorted(mine) and _sorted(mine) in map(_sorted, given(statement)):
        return True
    if {theirs.kind, mine.kind} - EXPRESSIONS - {"ratio", "time"}:
        return False
    return any(of(mine) > of(theirs) for form in filter(None, forms) for of in _MEASURES[form])


def _sorted(node: Node | str) -> Node | str:
    """A formula with the factors of each product in one order."""
    if isinstance(node, str) or not node.args:
        return node
    args = tuple(map(_sorted, node.args))
    if node.kind == "mul":
        args = tuple(sorted(args, key=repr))
    return Node(node.kind, args, node.value, node.decimal)  # type: ignore[arg-type]


def _cancels(node: Node) -> int:
    """The largest integer that can be cancelled in a fraction or a ratio of the formula."""
    lines = (part.args for part in node.walk() if part.kind in ("div", "ratio"))
    return max((math.gcd(*map(_literal, line)) for line in lines), default=1)


def _literal(node: Node) -> int:
    """The integer factor of a product."""
    if node.kind == "mul":
        return math.prod(map(_literal, node.args))
    return int(node.value) if isinstance(node.value, Fraction) and node.value.denominator == 1 else 1


def _factors(node: Node) -> int:
    """How many factors a product has, without numbers."""
    if node.kind in ("mul", "neg"):
        return sum(map(_factors, node.args))
    return int(any(part.kind == "sym" for part in node.walk()))


def _terms(node: Node) -> int:
    return sum(map(_terms, node.args)) if node.kind in ("add", "neg") else 1


def _degree(node: Node) -> int:
    """The degree of a polynomial."""
    if node.kind in ("mul", "neg"):
        return sum(map(_degree, node.args))
    if node.kind == "pow" and (exponent := _exponent(node)):
        return exponent * _degree(node.args[0])
    return max(map(_degree, node.args), default=0) if node.kind == "add" else int(node.kind == "sym")


def _exponent(power: Node) -> int:
    """A small exponent above 0; otherwise 0."""
    value = power.args[1].value
    return int(value) if isinstance(value, Fraction) and value.denominator == 1 and 0 < value < 100 else 0


def _mantissa(node: Node) -> float:
    r"""1.5 in ``-1.5 \cdot 10^8``; 0 if there is none."""
    while node.kind in ("neg", "mul"):
        node = node.args[0]
    return float(node.value) if isinstance(node.value, Fraction) else 0


_MEASURES: dict[str, tuple[Callable[[Node], float], ...]] = {
    "factor": (lambda node: -_factors(node),),
    "expand": (lambda node: -_terms(node),),
    "terms": (_terms,),
    "below": (
        lambda node: sum(_degree(part.args[1]) for part in node.walk() if part.kind == "div"),
        lambda node: sum(part.kind == "pow" and part.args[0].kind in ("mul", "div") for part in node.walk()),
        _cancels,
    ),
    "signs": (lambda node: sum(part.kind == "pow" and part.args[1].kind == "neg" for part in node.walk()),),
    "scientific": (lambda node: not 1 <= _mantissa(node) < 10,),
}
"""What must not be larger in an answer than in the reference, if a problem asks for this form."""


@lru_cache(maxsize=4096)
def given(statement: str) -> frozenset[Node | str]:
    """The formulas and numbers of a problem."""
    formulas = list(map(undelimited, MATH_SPAN.findall(statement)))
    return frozenset(map(form, formulas + _NUMBER.findall(MATH_SPAN.sub(" ", statement))))


def integration_constants(statement: str) -> str:
    """The letters that may name a constant of integration: those that the problem does not use."""
    if not _INTEGRATION.search(statement):
        return ""
    used = re.findall(r"(?<![A-Za-z\\])[A-Za-z](?![A-Za-z])", " ".join(MATH_SPAN.findall(statement)))
    return " ".join(letter for letter in "ABCDKck" if letter not in used)


def asks_for_order(statement: str) -> bool:
    """Whether a problem asks to put what it lists into an order."""
    return _ORDER.search(statement) is not None


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
    same = not left or form(left.strip()) in given(statement)
    return right.strip() if same and value is not None and 0 <= value < int(mod[1]) else answer


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
    asked = questions(statement)
    chinese = (CHINESE_UNITS[name] for question in asked for name in _IN_CHINESE_UNIT.findall(question))
    found = [name for name in chinese if (of := known_unit(name)) is not None and of.dimension]
    for names in (match for question in asked for match in _IN_UNIT.findall(question)):
        name = next(filter(None, names)).replace(" /", "/").replace("/ ", "/")
        if name.lower() in ("degree", "degrees"):
            found.append("degrees")
        elif (of := known_unit(name)) is not None and of.dimension:
            found.append(name)
    return tuple(found)


def with_asked_unit(statement: str, reference: str, answer: str) -> str:
    r"""The reference with the unit that the problem asks for, if the answer has another one of its kind."""
    plain = len(answer) > _LENGTH or NUMBER.fullmatch(answer)
    names = () if plain else asked_units(statement)
    if not names or not _is_bare(reference):
        return reference
    if "degrees" in names:
        return rf"{reference}^\circ" if _RADIANS.search(answer) else reference
    of, node = known_unit(names[0]), _parsed(answer)
    if len(set(names)) > 1 or of is None or node is None:
        return reference  # "how many hours and minutes"
    try:
        value, own = value_and_unit(node.args[-1] if operators(node) == ("=",) else node)
        found = letter_unit(value)[1] if own is None else own
    except (Unreadable, OverLimit, RecursionError):
        return reference
    if not is_known(found):
        return reference
    another = found.dimension == of.dimension if own is None else found != of
    return rf"{reference}\text{{ {names[0]}}}" if another else reference


def _is_bare(reference: str) -> bool:
    """Whether a reference is a number without a unit."""
    node = _parsed(reference)
    if node is None or node.kind not in EXPRESSIONS or node.kind == "add":
        return False
    return all(part.kind != "sym" for part in node.walk())
