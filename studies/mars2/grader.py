"""Fast grading of the miniature's programs: by what their operations compute, without running them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Literal

from mars_env.errors import ConfigError
from mars_env.types import Grade, Problem
from studies.common.nibbles import nibble_table
from studies.mars2.protocol import Pair, read_program

BACKEND = "nibble tables"


class NibbleGrader:
    """Grades programs of `nibbles` with two registers as `CodeGrader` does, hundreds of times faster.

    Any program outside the miniature's language is WRONG. Nothing is run: an operation is a table of numbers.
    """

    def __init__(
        self, *, tests: Literal["all", "public"] = "all", score: Literal["all", "fraction"] = "all"
    ) -> None:
        if tests not in ("all", "public") or score not in ("all", "fraction"):
            raise ConfigError("NibbleGrader takes tests='all' or 'public', and score='all' or 'fraction'")
        self._public_only = tests == "public"
        self._score = score

    async def grade(self, problem: Problem, text: str) -> Grade:
        """Judge a completion. See `mars_env.types.Grader`."""
        tests = problem.reference["tests"]  # public ones first
        if self._public_only:
            tests = [test for test in tests if test["public"]]
        pair = read_program(text)
        if pair is None:
            why = "it is not a program of the miniature"
            return Grade.wrong(why, feedback=f"{why.capitalize()}.", backend=BACKEND)
        tables = tables_of(pair)
        returned = [tables[test["arguments"][1]][test["arguments"][0]] for test in tests]
        right = [value in test["accept"] for value, test in zip(returned, tests, strict=True)]
        if all(right):
            return Grade.correct(backend=BACKEND, feedback=f"All {len(tests)} tests passed.")
        first = right.index(False)
        # Testing continues after a failure only if the share of passed tests is needed.
        judged = len(tests) if self._score == "fraction" else first + 1
        passed = sum(right[:judged])
        counted = f"{passed} of {judged} tests passed" if judged == len(tests) else f"{passed} tests passed"
        return Grade.wrong(
            f"test {first + 1} of {len(tests)}: wrong answer",
            score=passed / len(tests) if self._score == "fraction" else 0.0,
            backend=BACKEND,
            feedback=f"{counted}{_detail(tests[first], returned[first])}",
        )


def _detail(test: Mapping[str, Any], returned: int) -> str:
    if not test["public"]:
        return ", then a hidden test failed: wrong answer."
    call = ", ".join(map(str, test["arguments"]))
    values = f"Expected: {test['accept'][0]}\nReturned: {returned}"
    return f". The first failure: wrong answer.\nCall: f({call})\n{values}"


@lru_cache(maxsize=65536)
def tables_of(pair: Pair) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """What a program computes: the outputs of both registers for 0 to 15."""
    return nibble_table(pair.u), nibble_table(pair.v)
