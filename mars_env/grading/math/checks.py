"""Problems with several right answers: an answer is checked against the problem, not against a reference.

A problem whose metadata say ``"answer_check": "subset-sum"`` is judged by the rule of that name, on the
problem's own numbers in its metadata. The reference is then one right answer among others.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from mars_env.errors import ProblemError
from mars_env.types import Problem

Check = Callable[[Mapping[str, Any], str], str]
"""From a problem's metadata and an answer to why the answer is wrong; empty if it is right."""

_LENGTH = 400
"""Longest list, in characters, that is read."""
_NOISE = re.compile(r"\\[ ,;:!{}]|\\(?:text|mathrm|left|right)(?![A-Za-z])|[{}()\[\]$~]")
_LIST = re.compile(r"\s*(\d{1,6}(?:(?:\s*(?:[,;+]|and)\s*)+\d{1,6})*)\s*(?:=\s*\d{1,9})?\s*\.?\s*", re.ASCII)


def check_of(problem: Problem) -> Check | None:
    """The rule that judges a problem's answers; None if they are compared with its reference.

    Raises:
        ProblemError: There is no rule of that name, or the metadata lack what it needs.
    """
    name = problem.metadata.get("answer_check")
    if name is None:
        return None
    if name != "subset-sum":
        raise ProblemError(f"problem {problem.id!r}: there is no check {name!r}; known: subset-sum")
    numbers = problem.metadata.get("numbers")
    values = [*numbers, problem.metadata.get("target")] if isinstance(numbers, list | tuple) else [None]
    if any(type(value) is not int for value in values):
        raise ProblemError(
            f"problem {problem.id!r}: the check {name!r} needs integers 'numbers' and 'target'"
        )
    return _subset_sum


def read_numbers(answer: str) -> tuple[int, ...] | None:
    r"""The numbers of a list or sum, in their order; None if it is neither.

    Example:
        >>> read_numbers(r"\{3,\, 9, 15\}"), read_numbers("3 + 9 + 15 = 27"), read_numbers("none of them")
        ((3, 9, 15), (3, 9, 15), None)
    """
    if len(answer) > _LENGTH:
        return None
    match = _LIST.fullmatch(_NOISE.sub(" ", answer))
    return tuple(int(number) for number in re.findall(r"[0-9]+", match[1])) if match else None


def _subset_sum(metadata: Mapping[str, Any], answer: str) -> str:
    chosen = read_numbers(answer)
    if chosen is None:
        return "the answer is not a list of numbers"
    if extra := Counter(chosen) - Counter(metadata["numbers"]):
        number = next(iter(extra))
        again = number in metadata["numbers"]
        return f"{number} is used too often" if again else f"{number} is not among the numbers"
    found, target = sum(chosen), metadata["target"]
    return "" if found == target else f"the numbers add up to {found}, not to {target}"
