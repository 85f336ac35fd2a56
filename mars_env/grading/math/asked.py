"""What a problem and the words after a box say about an answer."""

from __future__ import annotations

import re
from functools import lru_cache

from mars_env.grading.math.nodes import EXPRESSIONS, OverLimit, Unreadable, operators
from mars_env.grading.math.parser import read
from mars_env.grading.math.units import DIMENSIONS, Unit, letter_unit, measure, unit

_LENGTH = 400
"""Longest answer, in characters, that is looked at."""
_STATEMENT = 4000
"""How many characters at the end of a problem are searched for its questions."""
_ASKED = re.compile(
    r"(?:\b(?:find|compute|evaluate|determine|calculate|what\s+is|solve\s+for|what\s+values?\s+of)\s+(?:the\s+(?:exact\s+)?value\s+of\s+)?|求[^$。,，]{0,20})"
    r"(?:\$([^$]{1,200})\$|\\\((.{1,200}?)\\\))\s*(?:[.?,;。，]|\Z|(?:if|given|such|when|where|does|do|will|is)\b)",
    re.IGNORECASE,
)
_LOOKS = re.compile(r"\s+|\\[,;:! ]|\\(?:displaystyle|limits|left|right|q?quad)(?![A-Za-z])")
_BRACED = re.compile(r"(?<=[_^])\{(\w)\}")
_SUM = re.compile(r"[-+]|\A\d")
_LISTED = re.compile(r",[^,=]{1,20}=")
_SINGLE_NAME = re.compile(r"(\\?[A-Za-z]+)(_(?:\w|\{\w{1,3}\}))?")
_FORMULA = re.compile(r"\$[^$]{1,400}\$|\\\(.{1,400}?\\\)")
_NUMBERED = re.compile(r"(?<![A-Za-z\\])(\\?[A-Za-z]+)_(?:\{(?=\d\}))?(\d)\}?\s*(?:=\s*|(?=\(-?\d))")
_ARBITRARY = re.compile(
    r"[\s$*)\]}\\.,;]{0,12}(?:where|with|here)\s+(?:\$|\\\()?\s*([A-Za-z])\s*(?:\$|\\\))?\s+is\s+(?:an?\s+)?"
    r"(?:arbitrary|any|free)\s+(?:real\s+)?(?:constant|number)\s*(?:\.|\n|\Z)",
    re.IGNORECASE,
)
_SENTENCES = re.compile(r"(?<=[.?!])\s+|\n|(?<=[。？])")
_ASKS = re.compile(
    r"[?？]|\b(?:find|compute|evaluate|determine|calculate|what|how|give|express|answer|solve|convert|write)\b",
    re.IGNORECASE,
)
_NAME_OF_UNIT = r"((?:(?:square|cubic)\s+)?[A-Za-z]+(?:\s+per\s+[A-Za-z]+|\s*/\s*[A-Za-z]+(?:\^2)?)?)"
_IN_UNIT = re.compile(
    rf"\bhow\s+many\s+{_NAME_OF_UNIT}\b(?!\s*(?:,|and\b|or\b))|\b(?:in|to\s+the\s+nearest)\s+(?:\$?\\(?:text|mathrm)\s*\{{\s*)?{_NAME_OF_UNIT}"
    r"(?=[\s$}]*(?:[.?,;)(]|\Z|(?:does|do|is|are|of|in|to|as|rounded)\b))",
    re.IGNORECASE,
)
_RADIANS = re.compile(r"(?<![A-Za-z])rad(?:ians?)?(?![A-Za-z])")


def asked_value(statement: str, answer: str) -> str:
    r"""The right side of an equation whose left side is what the problem asks for; otherwise the answer.

    Example:
        >>> asked_value(r"Find $x^4+\frac{1}{x^4}$.", r"x^4+\frac1{x^4}=47")
        '47'
        >>> asked_value("Find $x$.", "2x=10")
        '2x=10'
    """
    named = _SINGLE_NAME.fullmatch(answer.partition("=")[0].strip())
    right = None if named or len(answer) > _LENGTH else after_asked(asked_formulas(statement), answer)
    if right is None:
        return answer  # a chain after a single name is read as it is
    try:
        read(right)
    except (Unreadable, OverLimit, RecursionError):
        return right.rpartition("=")[2].strip() or right  # "[x^3]_0^1 = 1"
    return right


def after_asked(asked: tuple[str, ...], equation: str) -> str | None:
    r"""What stands to the right of a formula that is asked for; None if none of them is the left side.

    Example:
        >>> after_asked((r"\sum_{k=1}^9 d(k)",), r"\sum_{k=1}^{9} d(k) = 20 + 3")
        '20 + 3'
        >>> after_asked(("x",), "2x=10") is None
        True
    """
    if not asked or "=" not in equation:
        return None
    written = [_squeezed(formula) for formula in asked]
    places = [match.start() for match in re.finditer("=", equation)]
    for place in places[:4]:
        right = equation[place + 1 :].strip()
        if right and _squeezed(equation[:place]) in written:
            return right
    left, right = equation[: places[0]], equation[places[0] + 1 :].strip()
    for formula in asked:
        try:
            if right and read(formula) == read(left):
                return right
        except (Unreadable, OverLimit, RecursionError):
            continue
    return None


def _squeezed(formula: str) -> str:
    """A formula without white space, and without what changes only its looks."""
    return _BRACED.sub(r"\1", _LOOKS.sub("", formula.replace("dfrac", "frac").replace("tfrac", "frac")))


@lru_cache(maxsize=4096)
def asked_formulas(statement: str) -> tuple[str, ...]:
    r"""The formulas that a problem asks for: ``x`` in "Find $x$".

    Example:
        >>> asked_formulas("Let $a_1=2$. Find $a_4$.")
        ('a_4',)
    """
    return tuple((match[1] or match[2]).strip(" .,") for match in _ASKED.finditer(statement))


def names_another(statement: str, answer: str) -> bool:
    r"""Whether an answer gives the value of another name than the one that the problem asks for.

    That name occurs in the problem, or it differs from the one asked for in its index alone.

    Example:
        >>> statement = "Let $x + y = 7$. Find $x$."
        >>> names_another(statement, "y=5"), names_another(statement, "x=5"), names_another(statement, "s=5")
        (True, False, False)
        >>> names_another("Find $a_4$.", "a_5=41")
        True
    """
    asked = asked_formulas(statement)
    left, sign, _ = answer.strip(" $").partition("=")
    name = _SINGLE_NAME.fullmatch(left.strip())
    if not sign or len(answer) > _LENGTH or len(asked) != 1 or name is None or _LISTED.search(answer):
        return False
    written = re.escape(name[0])
    if re.search(rf"(?<![A-Za-z\\]){written}(?![A-Za-z])", asked[0]):
        return name[0] != asked[0] and _SUM.search(asked[0]) is not None  # "m = 23" for "m + n"
    if name[2] and (other := _SINGLE_NAME.fullmatch(asked[0].strip())):
        return bool(other[1] == name[1] and other[2])
    formulas = _FORMULA.findall(statement)
    if any(re.search(rf"[A-Za-z]\({written}\)", span) for span in formulas):
        return False  # the argument of a function may be solved for
    return any(re.search(rf"(?<![A-Za-z\\(]){written}(?![A-Za-z_^(])", span) for span in formulas)


def without_numbering(statement: str, answer: str) -> str:
    r"""A list of ``x_1 = 3, x_2 = 1`` without the names, if the problem has no ``x_``.

    Example:
        >>> without_numbering("Solve $x^2-4x+3=0$.", "x_1 = 3, x_2 = 1")
        '3, 1'
        >>> without_numbering("Find $x_1$ and $x_2$.", "x_1 = 3, x_2 = 1")
        'x_1 = 3, x_2 = 1'
    """
    if "_" not in answer or len(answer) > _LENGTH:
        return answer
    names = _NUMBERED.findall(answer)
    letters, numbers = {name[0] for name in names}, [name[1] for name in names]
    if len(letters) != 1 or numbers != [str(k + 1) for k in range(len(names))] or len(names) < 2:
        return answer
    return answer if f"{letters.pop()}_" in statement else _NUMBERED.sub("", answer)


def with_its_constant(text: str, answer: str, reference: str) -> str:
    r"""The answer, with a name that the words after it call arbitrary, unless the reference has that name.

    Example:
        >>> with_its_constant(r"\boxed{y=A\,x}$, where $A$ is an arbitrary constant.", r"y=A\,x", "y = Cx")
        'y=A\\,x,\\ A\\in\\mathbb{R}'
    """
    place = text.rfind(answer)
    said = _ARBITRARY.match(text, place + len(answer)) if place >= 0 else None
    if said is None or said[1] in reference or not re.search(rf"(?<![\\A-Za-z]){said[1]}", answer):
        return answer
    return rf"{answer},\ {said[1]}\in\mathbb{{R}}"


def questions(statement: str) -> list[str]:
    """The sentences of a problem that ask for something."""
    return [one for one in _SENTENCES.split(statement[-_STATEMENT:]) if _ASKS.search(one)]


@lru_cache(maxsize=4096)
def asked_units(statement: str) -> tuple[str, ...]:
    """The units of measurement that a problem's questions ask for: "how many minutes", "in km/h".

    Example:
        >>> asked_units("A train goes 180 km in 2.5 hours. What is its speed in km/h?")
        ('km/h',)
        >>> asked_units("How many apples does he buy in 3 days?")
        ()
    """
    found = []
    for question in questions(statement):
        for names in _IN_UNIT.findall(question):
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
        if of is not None and all(base in DIMENSIONS for base, _ in of.dimension):
            return of
    return None


def with_asked_unit(statement: str, reference: str, answer: str) -> str:
    r"""The reference with the unit that the problem asks for, if the answer has another one of its kind.

    Example:
        >>> with_asked_unit("What is the energy in joules?", "72", r"72 \text{ kJ}")
        '72\\text{ joules}'
        >>> with_asked_unit("What is the energy in joules?", "72", r"72 \text{ J}")
        '72'
    """
    if len(answer) > _LENGTH or not re.search("[A-Za-z¢$]", answer) or not (names := asked_units(statement)):
        return reference
    if "degrees" in names:
        return rf"{reference}^\circ" if _RADIANS.search(answer) and _is_bare(reference) else reference
    expected = {of.dimension: (name, of) for name in names if (of := _known_unit(name))}
    if len(expected) < len(names) or not _is_bare(reference):
        return reference  # "how many hours and minutes", or a unit of its own
    try:
        node = read(answer)
        node = node.args[-1] if operators(node) == ("=",) else node
        value, given = measure(node)
        for name, of in expected.values():
            found = letter_unit(value, of)[1] if given is None else given
            written_otherwise = given is None and found is not None
            if isinstance(found, Unit) and _bases(found) == _bases(of):
                other = found != of or written_otherwise
                return rf"{reference}\text{{ {name}}}" if other else reference
    except (Unreadable, OverLimit, RecursionError):
        pass
    return reference


def _bases(of: Unit) -> frozenset[str]:
    """The kinds of a unit: an area and a length are alike."""
    return frozenset(base for base, _ in of.dimension)


@lru_cache(maxsize=4096)
def _is_bare(reference: str) -> bool:
    """Whether a reference is a number without a unit."""
    try:
        node = read(reference)
    except (Unreadable, OverLimit, RecursionError):
        return False
    return node.kind in EXPRESSIONS and node.kind != "add" and all(part.kind != "sym" for part in node.walk())
