r"""`MathGrader` judges the final answer of a completion against a mathematical reference."""

import copyreg
import re
import time
from functools import lru_cache
from typing import Any

from mars_env.errors import ProblemError
from mars_env.grading.math.checks import check_of
from mars_env.grading.math.exact import Undefined, exact_value
from mars_env.grading.math.extract import extract_answer
from mars_env.grading.math.nodes import OverLimit, Unreadable, num
from mars_env.grading.math.parser import plain_integer, read_answer, read_integer
from mars_env.grading.math.pool import Reply, VerdictLimits, WorkerPool
from mars_env.grading.math.question import (
    asked_value,
    asks_for_order,
    integration_constants,
    is_copied,
    names_another,
    with_asked_unit,
    without_label,
    without_modulus,
    without_numbering,
)
from mars_env.grading.math.tokens import MAX_LENGTH
from mars_env.grading.math.units import PERCENT
from mars_env.types import Grade, Problem

_SHARE = re.compile("|".join(map(re.escape, PERCENT)), re.IGNORECASE)
_RATIO = re.compile(r"\d\s*:\s*1\b")
_PERCENT_SIGN = re.compile(
    r"(?<=[\d}])(?:\\[ ,]|\s)*(?:\\?%|\\text\s*\{\s*(?:%|\\%|percent|per cent)\s*\}|percent)\s*\$?\s*\Z"
)
_ASKS_FOR_PERCENT = re.compile(
    r"\b(?:what|how\s+(?:many|much))\s+percent(?:age)?s?\b"
    r"|\b(?:find|compute|determine|calculate|give|state|what(?:['’]s|\s+(?:is|was|are|were)))\s+(?:the|his|her|their|its)\s+(?:\w+\s+)?percent"
    r"|\bnearest\s+(?:\w+\s+){0,4}percent\b|\b(?:as|in)\s+(?:an?\s+)?percent(?:age)?\b|百分之(?:几|多少)",
    re.IGNORECASE,
)
_FLAGS = ("ordered", "integer")
"""Fields of a problem's metadata that say how its answers are compared."""
_INLINE_LENGTH = 400
"""Longest answer, in characters, that is read in the caller's own thread."""


class MathGrader:
    r"""Judges completions of problems whose reference is a mathematical answer.

    If the reference is an integer, the exact integer in the last box decides, in the caller's
    own thread, unless there is a tolerance and a decimal. Otherwise the two answers are compared
    symbolically in a pool of worker processes with limits on CPU time and memory. An answer beyond the
    limits is WRONG; only a fault of the machinery is UNKNOWN.

    Args:
        strict: Whether only boxes count as answers.
        tolerance: Allowed relative difference between two numbers if one of them is written as a
            decimal; None (the default) requires exact equality.
        limits: What one symbolic verdict may use.
        workers: Worker processes; None means one per CPU. They start when first needed.

    An answer must be as finished as its reference (`mars_env.grading.math.finished`): 2 + 3 is not 5.

    A problem with ``"ordered": True`` in its metadata requires a list in the reference's order; without
    it, order counts in ``(a, b)`` but not in ``a, b``. One with ``"integer": True`` requires an integer that
    is written as one, not as a fraction. One with an ``"answer_check"`` has several right answers, and each
    is accepted (`mars_env.grading.math.checks`).

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
    ) -> None:
        if tolerance is not None and not 0 <= tolerance < 1:
            raise ValueError(f"a tolerance must be in [0, 1), got {tolerance}")
        self.strict = strict
        self.tolerance = tolerance
        self.pool = WorkerPool(workers, limits)

    def __reduce__(self) -> tuple[Any, ...]:
        """A pickled grader is made again; of the shared one, each process has its own."""
        from mars_env.grading import grader_for

        if self is grader_for("math"):
            return grader_for, ("math",)
        return copyreg.__newobj__, (type(self),), self.__dict__  # type: ignore[attr-defined]

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
        r"""Why a problem's reference cannot be used to judge answers; None if it can.

        Loaders call this: a reference that cannot be read, or whose value is beyond
        the limits, is refused when its problem is loaded.

        Example:
            >>> grader = MathGrader()
            >>> grader.check_reference(Problem("p", "?", "25")) is None
            True
            >>> grader.check_reference(Problem("p", "?", r"5^{5^{5^{5^5}}}"))
            'the reference cannot be used: a power is larger than the limit'
        """
        try:
            reference = reference_of(problem)
            for name in _FLAGS:
                _flag(problem, name)
            check = check_of(problem)
        except ProblemError as error:
            return str(error)
        if check is not None:
            wrong = check(problem.metadata, reference)
            return f"the reference is not a right answer: {wrong}" if wrong else None
        if read_integer(reference) is not None:
            return None
        reply = self.pool.submit({"op": "check", "reference": reference}).result()
        if "fault" in reply:
            raise RuntimeError(
                f"the reference of problem {problem.id!r} could not be checked: {reply['fault']}"
            )
        why = reply.get("limit") or reply.get("unfit") or reply.get("error")
        return f"the reference cannot be used: {why}" if why else None

    def close(self) -> None:
        """End the worker processes; the grader cannot be used after that."""
        self.pool.close()

    def _inline(self, problem: Problem, text: str, started: float) -> Grade | dict[str, object]:
        """The grade if it needs no worker, otherwise the request for one."""

        def wrong(reason: str, backend: str = "extraction") -> Grade:
            return Grade.wrong(reason, seconds=time.perf_counter() - started, backend=backend)

        def correct(backend: str) -> Grade:
            return Grade.correct(seconds=time.perf_counter() - started, backend=backend)

        try:
            reference, check = reference_of(problem), check_of(problem)
            flags = {name: _flag(problem, name) for name in _FLAGS}
        except ProblemError as error:
            return Grade.unknown(str(error), backend="math")
        answer, how = extract_answer(
            text, strict=self.strict, statement=problem.statement, reference=reference
        )
        if answer is None:
            return wrong(how)
        if len(answer) > MAX_LENGTH:
            return wrong(f"the answer is longer than the limit of {MAX_LENGTH} characters")
        if "%" not in reference and _asks_for_percent(problem.statement):
            answer = _PERCENT_SIGN.sub("", answer)
        if not self.strict:
            if "=" not in reference and names_another(problem.statement, answer):
                return wrong("the answer names something else than the problem asks for")
            if is_copied(problem.statement, reference, answer):
                return wrong("the answer repeats what the problem gives")
            reference = without_label(reference)
            if "=" not in reference:
                answer = without_modulus(problem.statement, without_label(answer))
            answer = without_numbering(problem.statement, answer)
            answer = asked_value(problem.statement, answer)
            reference = with_asked_unit(problem.statement, reference, answer)
            if flags["ordered"] is None and "," in reference and asks_for_order(problem.statement):
                flags["ordered"] = True
        if check is not None:
            why = check(problem.metadata, answer)
            return wrong(why, "check") if why else correct("check")
        integer = _integer_reference(reference)
        if integer is not None:
            found = plain_integer(answer.strip())
            equal = (
                found == integer if found is not None else _small_value_is(answer, integer, flags["integer"])
            )
            if equal:
                return correct("integer")
            if equal is False and (self.tolerance is None or "." not in reference + answer):
                differs = f"the answer {answer} differs" if len(answer) <= 40 else "the answer differs"
                return wrong(f"{differs} from the reference", "integer")
        request: dict[str, object] = {
            "op": "judge",
            "reference": reference,
            "answer": answer,
            "tolerance": self.tolerance,
            "constants": integration_constants(problem.statement),
        }
        return request | {name: flag for name, flag in flags.items() if flag is not None}


def reference_of(problem: Problem) -> str:
    """The reference's text.

    Raises:
        ProblemError: It is not a string or an integer, or it is empty.
    """
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
    """The boxed answer, if the reference is a whole solution."""
    return extract_answer(reference).answer or reference


def _flag(problem: Problem, name: str) -> bool | None:
    """A field of the metadata that is true, false, or absent (None).

    Raises:
        ProblemError: It is something else.
    """
    flag = problem.metadata.get(name)
    if flag is not None and not isinstance(flag, bool):
        raise ProblemError(f"problem {problem.id!r}: the field {name!r} must be true or false, not {flag!r}")
    return flag


def _asks_for_percent(statement: str) -> bool:
    """Whether a problem asks for a number of per cent, so that ``25`` and ``25%`` are the same answer."""
    return ("ercent" in statement or "百分" in statement) and bool(_ASKS_FOR_PERCENT.search(statement))


_integer_reference = lru_cache(maxsize=16_384)(read_integer)


@lru_cache(maxsize=1024)
def _small_value_is(answer: str, integer: int, literally: bool | None) -> bool | None:
    """Whether an answer to an integer question is that integer, finished; None if symbols must decide."""
    from mars_env.grading.math.finished import finished  # not before it is needed: mpmath takes a while

    if "%" in answer or ("p" in answer.lower() and _SHARE.search(answer)) or _RATIO.search(answer):
        return False  # 2500 % is 25, but it is not the integer 25; nor is 25:1
    if len(answer) > _INLINE_LENGTH:
        return None
    try:
        node = read_answer(answer)
        if node.kind == "relation" and node.value == ("=",) and node.args[0].kind == "sym":
            node = node.args[1]
        value = exact_value(node)
    except Undefined:
        return False
    except (Unreadable, OverLimit, RecursionError):
        return None  # a worker reads more, and allows larger values
    if value is None or value != integer:
        return None if value is None else False
    return finished(num(integer), node, integer=bool(literally)) or None


def graded(reply: Reply, started: float, backend: str = "symbolic") -> Grade:
    """The grade for what a worker says of an answer."""
    spent: dict[str, Any] = {"seconds": time.perf_counter() - started, "backend": backend}
    if "fault" in reply:
        return Grade.unknown(reply["fault"], **spent)
    why = reply.get("unfit") or reply.get("limit") or reply.get("error")
    if why is None:
        return Grade.correct(**spent) if reply["equal"] else Grade.wrong(str(reply["reason"]), **spent)
    if "unfit" in reply or reply["phase"] == "reference":
        return Grade.unknown(f"the reference cannot be used: {why}", **spent)
    if "limit" in reply:
        return Grade.wrong(f"the answer is beyond the limits of its evaluation: {why}", **spent)
    return Grade.wrong("the answer could not be read", **spent)
