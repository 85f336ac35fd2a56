"""Grading: takes a problem and a text, returns a `Grade`."""

import copyreg
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from mars_env.errors import ConfigError
from mars_env.sync import run_sync
from mars_env.types import Grade, Grader, Problem

if TYPE_CHECKING:
    from mars_env.grading.math.grader import MathGrader

__all__ = ["agrade", "check_reference", "grade", "grader_for"]


@cache
def grader_for(kind: str) -> Grader:
    """The shared grader, one per process, for ``"math"`` or ``"code"``; a `ConfigError` for another kind."""
    if kind == "math":
        from mars_env.grading.math.grader import MathGrader

        return MathGrader()
    if kind == "code":
        from mars_env.grading.code.grader import CodeGrader

        return CodeGrader()
    if kind == "open":
        raise ConfigError(
            "open problems have no single answer: pass grader=RubricGrader(judge) (mars_env.grading.rubrics)"
        )
    raise ConfigError(f"there is no grader for problems of the kind {kind!r}; pass your own")


def pickled(grader: Grader, kind: str) -> tuple[Any, ...]:
    """What `pickle` stores of a grader: it is made again, but of the shared one, each process has its own."""
    if grader is grader_for(kind):
        return grader_for, (kind,)
    return copyreg.__newobj__, (type(grader),), grader.__dict__  # type: ignore[attr-defined]


async def agrade(problem: Problem, text: str) -> Grade:
    """`grade`, from async code."""
    return await grader_for(problem.kind).grade(problem, text)


def grade(problem: Problem, text: str) -> Grade:
    r"""Judge a model's text: CORRECT, WRONG with its reason, or UNKNOWN if the machinery failed.

    A `ConfigError` if there is no grader for problems of this kind.

    Example:
        >>> problem = Problem("p", "What is 5 times 5?", "25")
        >>> str(grade(problem, r"It is $\boxed{25}$.").verdict)
        'CORRECT'
    """
    grader = grader_for(problem.kind)
    grade_sync = getattr(grader, "grade_sync", None)
    return grade_sync(problem, text) if grade_sync else run_sync(grader.grade(problem, text))


def check_reference(problem: Problem) -> str | None:
    """Why a problem's reference cannot be used to judge answers, or None; loaders reject such problems."""
    if problem.kind != "math":
        return None
    return cast("MathGrader", grader_for("math")).check_reference(problem)
