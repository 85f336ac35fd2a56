r"""`MathGrader` judges the final answer of a completion against a mathematical reference."""

import re
import time
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from mars_env.errors import ProblemError
from mars_env.grading import pickled
from mars_env.grading.math.exact import Undefined, exact_value
from mars_env.grading.math.extract import extract_answer
from mars_env.grading.math.nodes import OverLimit, Unreadable, num
from mars_env.grading.math.parser import plain_integer, read_answer, read_integer
from mars_env.grading.math.pool import Reply, VerdictLimits, WorkerPool
from mars_env.grading.math.tokens import MAX_LENGTH
from mars_env.grading.math.units import PERCENT
from mars_env.types import Grade, Problem

_PERCENT_WORD = re.compile("|".join(map(re.escape, PERCENT)), re.IGNORECASE)
_RATIO = re.compile(r"\d\s*:\s*1\b")
_PERCENT_SIGN = re.compile(
    r"(?<=[\d}])(?:\\[ ,]|\s)*(?:\\?%|\\text\s*\{\s*(?:%|\\%|percent|per cent)\s*\}|percent)\s*\$?\s*\Z"
)
_ASKS_FOR_PERCENT = re.compile(r"(?:\A|[^\d\s}$\\])[\s$\\]*(?:per\s?cent|%)|百分", re.IGNORECASE)
"""Per cent of which the problem speaks without a number before it: "what percent", but not "20 percent"."""
_FLAGS = ("ordered", "integer")  # fields of a problem's metadata that say how its answers are compared
_INLINE_LENGTH = 400  # longest answer that is read in the caller's own thread

Check = Callable[[Problem, str], str]
"""From a problem and a final answer to why the answer is wrong; empty if it is right."""


class MathGrader:
    r"""Judges completions of problems whose reference is a mathematical answer.

    An integer reference is compared in the caller's own thread; others symbolically, in worker processes with
    limits on CPU time and memory. An answer beyond them is WRONG; only a fault of the machinery is UNKNOWN.
    An answer must be as finished as its reference (`mars_env.grading.math.finished`): 2 + 3 is not 5.

    A problem with ``"ordered": True`` in its metadata requires a list in the reference's order; without
    it, order counts in ``(a, b)`` but not in ``a, b``. One with ``"integer": True`` requires an integer that
    is written as one, not as a fraction.

    Args:
        strict: Whether only boxes count as answers.
        tolerance: Allowed relative difference between two numbers if one of them is written as a
            decimal; None (the default) requires exact equality.
        limits: What one symbolic verdict may use.
        workers: Worker processes; None means one per CPU. They start when first needed.
        check: Judges final answers in place of the comparison, for problems with several right answers, of
            which the reference is one. It runs in this process.

    Example:
        >>> problem = Problem("p", "Half of 50?", "25")
        >>> grader = MathGrader()
        >>> str(grader.grade_sync(problem, r"Halving gives $\boxed{\frac{50}{2}}$.").verdict)
        'CORRECT'
        >>> grader.grade_sync(problem, r"$\boxed{25}$? No: $\boxed{26}$.").reason
        'the answer 26 differs from the reference'
    """

    def __init__(
        self,
        *,
        strict: bool = False,
        tolerance: float | None = None,
        limits: VerdictLimits | None = None,
        workers: int | None = None,
        check: Check | None = None,
    ) -> None:
        if tolerance is not None and not 0 <= tolerance < 1:
            raise ValueError(f"a tolerance must be in [0, 1), got {tolerance}")
        self.strict, self.tolerance, self.check = strict, tolerance, check
        self.pool = WorkerPool(workers, limits)

    def __reduce__(self) -> tuple[Any, ...]:
        return pickled(self, "math")

    def identity(self) -> dict[str, Any]:
        """How it compares."""
        return {"strict": self.strict, "tolerance": self.tolerance, "check": self.check}

    async def grade(self, problem: Problem, text: str) -> Grade:
        """Judge one text, from any event loop."""
        started = time.perf_counter()
        request = self._inline(problem, text, started)
        if isinstance(request, Grade):
            return request
        return graded(await self.pool.run(request), started)

    def grade_sync(self, problem: Problem, text: str) -> Grade:
        """Judge one text, from any thread; blocks it."""
        started = time.perf_counter()
        request = self._inline(problem, text, started)
        if isinstance(request, Grade):
            return request
        return graded(self.pool.submit(request).result(), started)

    def check_reference(self, problem: Problem) -> str | None:
        r"""Why a problem's reference cannot be used to judge answers; None if it can. Loaders call this.

        Example:
            >>> MathGrader().check_reference(Problem("p", "?", r"5^{5^{5^{5^5}}}"))
            'the reference cannot be used: a power is larger than the limit'
        """
        try:
            reference = reference_of(problem)
            for name in _FLAGS:
                _flag(problem, name)
        except ProblemError as error:
            return str(error)
        if self.check is not None:
            wrong = self.check(problem, reference)
            return f"the reference is not a right answer: {wrong}" if wrong else None
        if read_integer(reference) is not None:
            return None
        reply = self.pool.submit({"op": "check", "reference": reference}).result()
        if "fault" in reply:
            raise RuntimeError(
                f"the reference of problem {problem.id!r} could not be checked: {reply['fault']}"
            )
        why = reply.get("limit") or reply.get("reference_fault") or reply.get("error")
        return f"the reference cannot be used: {why}" if why else None

    def close(self) -> None:
        """End the worker processes; the grader cannot be used after that."""
        self.pool.close()

    def _inline(self, problem: Problem, text: str, started: float) -> Grade | dict[str, Any]:
        try:
            reference = reference_of(problem)
            ordered, integer = (_flag(problem, name) for name in _FLAGS)
        except ProblemError as error:
            return Grade.unknown(str(error), backend="math")
        answer, how = extract_answer(text, strict=self.strict)
        if answer is not None and len(answer) > MAX_LENGTH:
            answer, how = None, f"the answer is longer than the limit of {MAX_LENGTH} characters"
        if answer is None:
            return _decided(how, "extraction", started)
        answer = without_percent(problem.statement, reference, answer)
        if self.check is not None:
            return _decided(self.check(problem, answer), "check", started)
        fault = self._integer_fault(problem, reference, answer)
        if fault is not None:
            return _decided(fault, "integer", started)
        texts = {"reference": reference, "answer": answer, "statement": problem.statement}
        flags = {"tolerance": self.tolerance, "ordered": ordered, "integer": integer}
        return {"op": "judge", **texts, **flags}

    def _integer_fault(self, problem: Problem, reference: str, answer: str) -> str | None:
        """Why an answer is not an integer reference; empty if it is, None if a worker must decide."""
        integer = _integer_reference(reference)
        if integer is None:
            return None
        value = plain_integer(answer.strip())
        if value is not None:
            equal: bool | None = value == integer
        else:
            literally = bool(problem.metadata.get("integer"))
            equal = _is_integer(answer, integer, literally, problem.statement)
        if equal:
            return ""
        if equal is None or (self.tolerance is not None and "." in reference + answer):
            return None
        differs = f"the answer {answer} differs" if len(answer) <= 40 else "the answer differs"
        return f"{differs} from the reference"


def without_percent(statement: str, reference: str, answer: str) -> str:
    """An answer without its sign of per cent, if the problem asks for a number of per cent."""
    sign = _PERCENT_SIGN.search(answer)
    if sign is None or "%" in reference or not _ASKS_FOR_PERCENT.search(statement):
        return answer
    return answer[: sign.start()]


def reference_of(problem: Problem) -> str:
    """The reference's text; a `ProblemError` if it is neither a string nor an integer, or empty."""
    reference = problem.reference
    if isinstance(reference, int) and not isinstance(reference, bool):
        return str(reference)
    if not isinstance(reference, str) or not reference.strip():
        raise ProblemError(f"problem {problem.id!r} needs a non-empty text or an integer as its reference")
    if len(reference) > MAX_LENGTH:
        raise ProblemError(
            f"the reference of problem {problem.id!r} is longer than the limit of {MAX_LENGTH} characters"
        )
    return _boxed_reference(reference) if "\\boxed" in reference or "\\fbox" in reference else reference


@lru_cache(maxsize=1024)
def _boxed_reference(reference: str) -> str:
    return extract_answer(reference).answer or reference


def _flag(problem: Problem, name: str) -> bool | None:
    flag = problem.metadata.get(name)
    if not isinstance(flag, bool | None):
        raise ProblemError(f"problem {problem.id!r}: the field {name!r} must be true or false, not {flag!r}")
    return flag


_integer_reference = lru_cache(maxsize=16_384)(read_integer)


@lru_cache(maxsize=1024)
def _is_integer(answer: str, integer: int, literally: bool, statement: str) -> bool | None:
    """Whether an answer to an integer question is that integer; None if a worker must decide."""
    if "%" in answer or ("p" in answer.lower() and _PERCENT_WORD.search(answer)) or _RATIO.search(answer):
        return False  # 2500 % is 25, but it is not the integer 25; nor is 25:1
    if len(answer) > _INLINE_LENGTH:
        return None
    try:
        node = read_answer(answer)
        number = node.args[1] if node.value == ("=",) and node.args[0].kind == "sym" else node
        value = exact_value(number)
    except Undefined:
        return False
    except (Unreadable, OverLimit, RecursionError):
        return None  # a worker reads more, and allows larger values
    if value != integer:
        return None if value is None else False
    from mars_env.grading.math.copied import is_copied  # not before they are needed: mpmath takes a while
    from mars_env.grading.math.finished import finished

    reference = num(integer)
    right = finished(reference, node, integer=literally) and not is_copied(statement, reference, node)
    return right or None  # a worker says what is wrong


def _decided(fault: str, backend: str, started: float) -> Grade:
    spent: dict[str, Any] = {"seconds": time.perf_counter() - started, "backend": backend}
    return Grade.wrong(fault, **spent) if fault else Grade.correct(**spent)


def graded(reply: Reply, started: float, backend: str = "symbolic") -> Grade:
    """The grade for a worker's reply."""
    spent: dict[str, Any] = {"seconds": time.perf_counter() - started, "backend": backend}
    if "fault" in reply:
        return Grade.unknown(reply["fault"], **spent)
    why = reply.get("reference_fault") or reply.get("limit") or reply.get("error")
    if why is None:
        return Grade.correct(**spent) if reply["equal"] else Grade.wrong(str(reply["reason"]), **spent)
    if "reference_fault" in reply or reply["phase"] == "reference":
        return Grade.unknown(f"the reference cannot be used: {why}", **spent)
    if "limit" in reply:
        return Grade.wrong(f"the answer is beyond the limits of its evaluation: {why}", **spent)
    return Grade.wrong("the answer could not be read", **spent)
