"""Assert-style suites where a sandbox has no channels: the conversation is played again from its beginning.

The tests run with what is known of the program's answers, up to the first request that is not; then the
program runs, alone, and answers all requests so far; and again. So neither is ever in the other's process,
as with channels. It takes two runs a request, tests that ask the same each time, and a program that keeps its
objects in the same order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from mars_env.grading.code import values
from mars_env.sandbox import Ended, Job, Lease, Limits, Result

MAX_REQUESTS = 200
"""More than this many requests of one suite are not played."""

_REPLAY = "from mars_env.grading.code import program\nprogram.replay()\n"


async def replay(
    lease: Lease,
    suite: str,
    spec: Mapping[str, Any],
    files: Mapping[str, bytes],
    limits: tuple[Limits, Limits],
) -> tuple[Result, Result]:
    """Play program and tests in turns, to the tests' end: what came of both.

    Args:
        lease: Runs them.
        suite: Source that runs the tests.
        spec: What they are.
        files: The program's.
        limits: Of the program, and of the tests.
    """
    asked: list[bytes] = []
    answers: list[bytes | None] = []
    while True:
        job = Job(source=_REPLAY, files={**files, "asked": values.encode(asked)})
        ran = await lease.run(job, limits[0], role="program")
        if ran.ended is Ended.LOST:
            return ran, ran
        answers = [*answers, _answer(ran.data, len(asked))]
        job = Job(source=suite, files={"suite": values.encode({**spec, "recorded": (asked, answers)})})
        tests = await lease.run(job, limits[1], role="tests")
        report = _plain(tests.data)
        if not (isinstance(report, tuple) and report[0] == "ask"):
            return ran, tests
        if len(asked) == MAX_REQUESTS:
            return ran, replace(tests, data=values.encode(("long",)))
        asked = [*asked, report[1].encode("latin-1")]


def _answer(data: bytes, number: int) -> bytes | None:
    """The program's answer of that number; None where it ended before it, or sent something else."""
    found = _plain(data)
    text = found[number] if isinstance(found, list) and len(found) > number else None
    try:
        return text.encode("latin-1") if isinstance(text, str) else None
    except UnicodeEncodeError:
        return None


def _plain(data: bytes) -> Any:
    try:
        return values.decode(data, hashed=False)
    except values.BadValue:
        return None
