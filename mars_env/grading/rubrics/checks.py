"""Programmatic criteria: checks by name, because a rubric's file may be untrusted.

What a name means is decided here, or by the user who makes the grader (``RubricGrader(checks={...})``).
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

from mars_env.grading import grader_for
from mars_env.types import Problem, Verdict

Check = Callable[[Problem, str, Any], float | bool | Awaitable[float | bool | None] | None]
"""From problem, response and the criterion's value to the fraction in [0, 1]; None for UNKNOWN."""


async def _answer(problem: Problem, text: str, value: Any) -> bool | None:
    reference = problem.reference if value is None else str(value)
    grade = await grader_for("math").grade(replace(problem, reference=reference, kind="math"), text)
    return None if grade.verdict is Verdict.UNKNOWN else grade.verdict is Verdict.CORRECT


CHECKS: Final[Mapping[str, Check]] = MappingProxyType(
    {
        "answer": _answer,
        "contains": lambda problem, text, value: str(value).casefold() in text.casefold(),
        "most_words": lambda problem, text, value: len(text.split()) <= int(value),
    }
)
"""``answer``: the final answer equals the value (by default the problem's reference); ``contains``: the text
occurs, in any case; ``most_words``: at most so many words."""
