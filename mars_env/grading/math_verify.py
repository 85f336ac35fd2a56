"""Grades by Math-Verify, for metrics that can be compared with those of other harnesses."""

import importlib.util
import time
from functools import lru_cache
from typing import Any

from mars_env.errors import MissingExtra, ProblemError
from mars_env.grading.math.grader import graded, reference_of
from mars_env.grading.math.pool import VerdictLimits, WorkerPool
from mars_env.sync import run_sync
from mars_env.types import Grade, Problem


class MathVerifyGrader:
    r"""Grades by the extraction and the comparison of Math-Verify (github.com/huggingface/Math-Verify).

    Use it to report metrics beside those of other harnesses, and `MathGrader` to train: Math-Verify takes
    ``0.333333`` for ``1/3``, and drops words that it does not know. It runs in worker processes (by default
    one per CPU), and a completion beyond their limits is WRONG. It needs the extra ``math-verify``.

    Example:
        >>> grader = MathVerifyGrader(workers=1)
        >>> str(grader.grade_sync(Problem("p", "What is 1/3?", r"\frac13"), "It is $0.333333$.").verdict)
        'CORRECT'
        >>> grader.close()
    """

    def __init__(self, *, limits: VerdictLimits | None = None, workers: int | None = None) -> None:
        if importlib.util.find_spec("math_verify") is None:
            raise MissingExtra("MathVerifyGrader needs Math-Verify: pip install 'mars-env[math-verify]'")
        self.pool = WorkerPool(workers, limits, judge=__name__)

    async def grade(self, problem: Problem, text: str) -> Grade:
        """Judge one text, from any event loop."""
        started = time.perf_counter()
        try:
            request = {"op": "judge", "reference": reference_of(problem), "answer": text}
        except ProblemError as error:
            return Grade.unknown(str(error), backend="math-verify")
        return graded(await self.pool.run(request), started, "math-verify")

    def grade_sync(self, problem: Problem, text: str) -> Grade:
        """Judge one text, from any thread; blocks it."""
        return run_sync(self.grade(problem, text))

    def close(self) -> None:
        """End the worker processes; the grader cannot be used after that."""
        self.pool.close()


@lru_cache(maxsize=1024)
def _parsed(reference: str) -> list[Any]:
    import math_verify

    delimited = reference if "$" in reference or "\\boxed" in reference else f"${reference}$"
    return list(math_verify.parse(delimited, parsing_timeout=None))


def reference_fault(reference: str) -> str | None:
    """Why a reference cannot be used; None if it can."""
    return None if _parsed(reference) else "Math-Verify cannot read it"


def judge(reference: str, text: str, tolerance: float | None = None) -> tuple[bool, str]:
    """Whether a completion's answer equals a reference, and if not, why."""
    import math_verify

    answer = math_verify.parse(text, parsing_timeout=None)
    equal = bool(math_verify.verify(_parsed(reference), answer, timeout_seconds=None))
    return equal, "" if equal else "Math-Verify does not take it for the reference"
