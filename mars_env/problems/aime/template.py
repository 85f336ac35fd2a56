"""The templates of the `aime` set: their type and their register."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

Topic = Literal["number theory", "combinatorics", "probability", "algebra", "geometry", "sequences"]

LOWEST_TERMS = (
    r"can be written as $\frac{m}{n}$, where $m$ and $n$ are relatively prime positive integers. Find $m+n$."
)
"""The usual end of a statement whose answer is a fraction."""


@dataclass(frozen=True, slots=True)
class Question:
    """One draw of a template.

    Attributes:
        statement: The text, with mathematics in LaTeX.
        answer: Computed in a different way than the one a solver is expected to find; a draw whose
            answer is not an integer from 0 to 999 is discarded.
        parameters: The numbers that were drawn, as plain data; the tests solve the problem again from them.
    """

    statement: str
    answer: int | Fraction
    parameters: Mapping[str, Any]


Draw = Callable[[random.Random], Question | None]
"""Draws a question, or None if the draw is degenerate."""


@dataclass(frozen=True, slots=True)
class Template:
    """A family of problems.

    Attributes:
        name: Name of the function that draws it.
        topic: One of six.
        level: Difficulty, from 1 (like a contest's first problem) to 5 (like its last).
        draw: Draws a question.
    """

    name: str
    topic: Topic
    level: int
    draw: Draw


TEMPLATES: dict[str, Template] = {}
"""All templates by name."""


def template(topic: Topic, level: int) -> Callable[[Draw], Draw]:
    """Register a drawing function as a template, under its own name.

    Args:
        topic: One of the six topics.
        level: 1 to 5.

    Raises:
        ValueError: The name is taken.

    Example:
        >>> sorted({entry.level for entry in TEMPLATES.values()} | {1, 2, 3, 4, 5})
        [1, 2, 3, 4, 5]
    """

    def register(draw: Draw) -> Draw:
        name = draw.__name__
        if name in TEMPLATES:
            raise ValueError(f"two templates are called {name!r}")
        TEMPLATES[name] = Template(name, topic, level, draw)
        return draw

    return register


def parts_sum(value: Fraction) -> int:
    """Numerator plus denominator in lowest terms.

    Example:
        >>> parts_sum(Fraction(6, 8))
        7
    """
    return value.numerator + value.denominator


def latex(value: Fraction) -> str:
    r"""A fraction in LaTeX; an integer as its digits.

    Example:
        >>> latex(Fraction(6, 8)), latex(Fraction(6, 2))
        ('\\frac{3}{4}', '3')
    """
    if value.denominator == 1:
        return str(value.numerator)
    return f"\\frac{{{value.numerator}}}{{{value.denominator}}}"


def signed(number: int) -> str:
    """A number with its sign, for the middle of a formula.

    Example:
        >>> f"x{signed(-3)}", f"x{signed(3)}"
        ('x-3', 'x+3')
    """
    return f"{number:+d}"


def polynomial(*coefficients: int, variable: str = "x") -> str:
    """A polynomial in LaTeX, highest power first.

    Example:
        >>> polynomial(1, -3, 0, 5), polynomial(2, 1), polynomial(1, -1, variable="n")
        ('x^3-3x^2+5', '2x+1', 'n-1')
    """
    text = ""
    for power, c in zip(range(len(coefficients) - 1, -1, -1), coefficients, strict=True):
        if c == 0:
            continue
        size = "" if abs(c) == 1 and power > 0 else str(abs(c))
        factor = "" if power == 0 else variable if power == 1 else f"{variable}^{power}"
        text += ("-" if c < 0 else "+" if text else "") + size + factor
    return text or "0"


def listing(items: list[str]) -> str:
    """Items as a list in words.

    Example:
        >>> listing(["$2$", "$3$", "$5$"]), listing(["$2$", "$3$"])
        ('$2$, $3$, and $5$', '$2$ and $3$')
    """
    if len(items) <= 2:
        return " and ".join(items)
    return ", ".join(items[:-1]) + ", and " + items[-1]
