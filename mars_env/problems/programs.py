"""The embedded set `programs`: small original problems in three forms and three levels, with solutions.

`scripts/make_programs.py` makes `data/programs.jsonl`, with every expected result found by brute force.
"""

import json
from collections.abc import Collection
from functools import cache
from pathlib import Path
from typing import Final

from mars_env.errors import ConfigError
from mars_env.problems.problem_set import ProblemSet
from mars_env.problems.written import parse_problem
from mars_env.types import Problem

_DATA: Final = Path(__file__).parent / "data" / "programs.jsonl"
_VERSION: Final = 1


@cache
def _problems() -> tuple[Problem, ...]:
    return tuple(parse_problem(json.loads(line)) for line in _DATA.read_text(encoding="utf-8").splitlines())


def programs_problems(
    *, seed: int = 0, split: str | None = None, level: int | Collection[int] | None = None
) -> ProblemSet:
    """The embedded programming problems, with two public tests each and the others private.

    They and their order are fixed. ``"test"`` is every fourth problem; None for all splits, or all levels. A
    `ConfigError` if there is no such split or level.

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
    revision = f"version {_VERSION}" + (f", split {split}" if split else "")
    return ProblemSet("programs", chosen, revision=revision, licence="Apache-2.0", reference_field="tests")
