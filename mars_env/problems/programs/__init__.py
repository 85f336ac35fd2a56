"""The embedded set `programs`: small original problems in three forms and three levels, with solutions."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache

from mars_env.errors import ConfigError
from mars_env.problems.problem_set import ProblemSet
from mars_env.problems.programs.easy import EASY
from mars_env.problems.programs.hard import HARD
from mars_env.problems.programs.medium import MEDIUM
from mars_env.problems.programs.spec import LICENCE, problem_of
from mars_env.types import Problem

VERSION = 1


@cache
def _problems() -> tuple[Problem, ...]:
    return tuple(problem_of(program) for program in (*EASY, *MEDIUM, *HARD))


def programs_problems(
    *, seed: int = 0, split: str | None = None, level: int | Collection[int] | None = None
) -> ProblemSet:
    """The embedded programming problems, with two public tests each and the others private.

    Args:
        seed: Has no effect: the problems and their order are fixed.
        split: ``"train"``, ``"test"`` (every fourth problem), or None for all.
        level: 1, 2 or 3, or several of them; None for all.

    Raises:
        ConfigError: There is no such split or level.

    Example:
        >>> problems = programs_problems(level=1)
        >>> problems[0].metadata["form"], problems[0].metadata["public_tests"]
        ('stdin', 2)
    """
    if split not in (None, "train", "test"):
        raise ConfigError(f"the problem set 'programs' has the splits 'train' and 'test', not {split!r}")
    levels = {1, 2, 3} if level is None else {level} if isinstance(level, int) else set(level)
    if not levels or levels - {1, 2, 3}:
        raise ConfigError(f"the problem set 'programs' has the levels 1, 2 and 3, not {level!r}")
    chosen = [
        problem
        for index, problem in enumerate(_problems())
        if problem.metadata["level"] in levels and (split is None or (index % 4 == 3) == (split == "test"))
    ]
    return ProblemSet(
        "programs",
        chosen,
        revision=f"version {VERSION}" + (f", split {split}" if split else ""),
        licence=LICENCE,
        reference_field="tests",
    )


__all__ = ["programs_problems"]


LOADERS = {"programs": programs_problems}
"""The set's loader by name, for the registry."""
