"""The contract suite for graders; run it on your own."""

from __future__ import annotations

import asyncio
import inspect

from mars_env.sync import run_sync
from mars_env.text import raised
from mars_env.types import Grade, Grader, Problem, Verdict

HOSTILE = (
    "",
    " ",
    "\x00",
    "\\boxed{",
    "\\boxed{}",
    "{" * 2000,
    "é" * 1000,
    "\\frac{1}{0}",
    "9" * 5000,
    "\ud800",
)


def check_grader(grader: Grader, problem: Problem, right: str, wrong: str) -> None:
    """Check verdicts, hostile texts, concurrency and event loops.

    Args:
        grader: The grader.
        problem: A problem that it can judge.
        right: A text that it must judge CORRECT.
        wrong: A text that it must judge WRONG.

    Raises:
        AssertionError: A promise is broken; the message says which.
    """
    assert isinstance(grader, Grader), f"a grader needs an async method grade, got {grader!r:.100}"

    async def grade(text: str) -> Grade:
        try:
            asked: object = grader.grade(problem, text)
            assert inspect.isawaitable(asked), "grade() is not async: write `async def`"
            found = await asked
        except AssertionError:
            raise
        except Exception as error:
            raise AssertionError(f"grade() raises on the text {text!r:.60}: {raised(error)}") from error
        assert isinstance(found, Grade), f"a grader gives a Grade, not {found!r:.100}"
        return found

    async def many() -> list[Grade]:
        return list(await asyncio.gather(*(grade(right if i % 2 else wrong) for i in range(64))))

    for run in (asyncio.run, run_sync):  # two event loops, two threads
        assert run(grade(right)).verdict is Verdict.CORRECT, f"the right text {right!r} is not CORRECT"
        assert run(grade(wrong)).verdict is Verdict.WRONG, f"the wrong text {wrong!r} is not WRONG"
    for text in HOSTILE:
        verdict = run_sync(grade(text)).verdict
        assert verdict is not Verdict.CORRECT, f"the hostile text {text!r:.60} is CORRECT"
        assert verdict is not Verdict.UNKNOWN, f"the hostile text {text!r:.60} made its own verdict UNKNOWN"
    verdicts = [found.verdict for found in run_sync(many())]
    assert verdicts == [Verdict.WRONG, Verdict.CORRECT] * 32, "64 concurrent verdicts differ from single ones"
