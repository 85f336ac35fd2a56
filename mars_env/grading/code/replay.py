"""Assert-style suites for sandboxes without channels: the conversation is replayed from its start.

The tests run with the answers known so far, up to the first request without an answer. Then the program runs
alone and answers all requests so far. This repeats. So neither is ever in the other's process, just as with
channels. It takes two runs per request, tests that make the same requests each time, and a program that keeps
its objects in the same order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from mars_env.grading.code import values
from mars_env.sandbox import Ended, Job, Lease, Limits, Result

MAX_REQUESTS = 200
"""A suite with more requests than this is not replayed."""

_REPLAY = "from mars_env.grading.code import program\nprogram.replay()\n"


async def replay(
    lease: Lease,
    suite: str,
    spec: Mapping[str, Any],
    files: Mapping[str, bytes],
    limits: tuple[Limits, Limits],
) -> tuple[Result, Result]:
    """Run program and tests in turns until the tests end; returns both results.

    Args:
        lease: Runs them.
        suite: Source that runs the tests.
        spec: The tests.
        files: The program's files.
        limits: For the program, and for the tests.
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
    """The program's answer with that number; None if it ended first or sent something else."""
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
