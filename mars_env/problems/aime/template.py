"""The templates of the `aime` set: their type and their register."""

import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

Topic = Literal["number theory", "combinatorics", "probability", "algebra", "geometry", "sequences"]

LOWEST_TERMS = (
    r"can be written as $\frac{m}{n}$, where $m$ and $n$ are relatively prime positive integers. Find $m+n$."
)


@dataclass(frozen=True, slots=True)
class Question:
    """One draw of a template; from its `parameters`, the numbers drawn, tests solve it again."""

    statement: str
    answer: int | Fraction
    parameters: Mapping[str, Any]


DrawQuestion = Callable[[random.Random], Question]
"""Draws a question; `need` gives up a degenerate draw."""


class _Degenerate(Exception):
    """A draw lacks what its template needs."""


def need(condition: bool) -> None:
    """Give up a draw that does not meet a condition; another one follows."""
    if not condition:
        raise _Degenerate


@dataclass(frozen=True, slots=True)
class Template:
    """A family of problems: its level is from 1 (like a contest's first problem) to 5 (like its last)."""

    name: str
    topic: Topic
    level: int
    least: int
    any_question: DrawQuestion

    def draw(self, rng: random.Random) -> Question | None:
        """A question; None if the draw is degenerate, or the answer no integer from `least` to 999."""
        with suppress(_Degenerate):
            question = self.any_question(rng)
            if question.answer == int(question.answer) and self.least <= question.answer <= 999:
                return question
        return None


TEMPLATES: dict[str, Template] = {}


def template(topic: Topic, level: int, *, least: int = 0) -> Callable[[DrawQuestion], DrawQuestion]:
    """Register a drawing function as a template, under its own name; smaller answers are drawn again."""

    def register(draw: DrawQuestion) -> DrawQuestion:
        TEMPLATES[draw.__name__] = Template(draw.__name__, topic, level, least, draw)
        return draw

    return register


def determinant(matrix: Sequence[Sequence[int | Fraction]]) -> Fraction:
    """The exact determinant, by elimination."""
    rows, value = [list(map(Fraction, row)) for row in matrix], Fraction(1)
    for k in range(len(rows)):
        pivot = next((i for i in range(k, len(rows)) if rows[i][k]), None)
        if pivot is None:
            return Fraction(0)
        if pivot > k:
            rows[k], rows[pivot], value = rows[pivot], rows[k], -value
        value *= rows[k][k]
        for i in range(k + 1, len(rows)):
            factor = rows[i][k] / rows[k][k]
            rows[i] = [x - factor * y for x, y in zip(rows[i], rows[k], strict=True)]
    return value


def parts_sum(value: Fraction) -> int:
    """Numerator plus denominator in lowest terms."""
    return sum(value.as_integer_ratio())


def latex(value: Fraction) -> str:
    """A fraction in LaTeX; an integer as its digits."""
    if value.denominator == 1:
        return str(value.numerator)
    return f"\\frac{{{value.numerator}}}{{{value.denominator}}}"


def signed(number: int) -> str:
    """A number with its sign, for the middle of a formula."""
    return f"{number:+d}"


def polynomial(*coefficients: int, variable: str = "x") -> str:
    """A polynomial in LaTeX, highest power first: ``x^3-3x^2+5``."""
    text = ""
    for power, c in zip(range(len(coefficients) - 1, -1, -1), coefficients, strict=True):
        if c == 0:
            continue
        size = "" if abs(c) == 1 and power > 0 else str(abs(c))
        factor = "" if power == 0 else variable if power == 1 else f"{variable}^{power}"
        text += ("-" if c < 0 else "+" if text else "") + size + factor
    return text or "0"


def listing(items: list[str]) -> str:
    """Items as a list in words: ``$2$, $3$, and $5$``."""
    if len(items) <= 2:
        return " and ".join(items)
    return ", ".join(items[:-1]) + ", and " + items[-1]
