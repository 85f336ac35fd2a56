"""Assert-style suites: tests in one sandbox call functions of the program in another.

Where a sandbox has no channels, the conversation is replayed from its start: the tests run with the answers
known so far, up to the first request without one; then the program runs alone and answers all requests so
far. This repeats, so neither is ever in the other's process. It takes two runs a request, tests that make the
same requests each time, and a program that keeps its objects in the same order.
"""

import asyncio
import math
import socket
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from mars_env.grading.code import values
from mars_env.grading.code.extract import complete_prompt, preamble
from mars_env.grading.code.outcomes import Task, TestResult, badly_ended, errors_shown, shortened, was_killed
from mars_env.sandbox import Ended, Job, Lease, Limits, Result
from mars_env.sync import end_tasks

_SERVE = "from mars_env.grading.code import program\nprogram._serve()\n"
_REPLAY = "from mars_env.grading.code import program\nprogram._replay()\n"
_SUITE = "from mars_env.grading.code import suite\nsuite._main()\n"

MAX_REQUESTS = 200
"""A suite with more requests than this is not replayed."""

_SPARE = 1.0
"""Seconds for which a program may at first sleep beyond its idle time: the tests compute meanwhile."""

_NOT_PLAYED = {
    "long": f"the tests make more than {MAX_REQUESTS} requests to the program",
    "unlike": "the tests do not make the same requests in each run",
}


async def judge_suite(lease: Lease, task: Task, program: str) -> list[TestResult]:
    """Judge a program by an assert-style suite; without channels, by replaying the conversation."""
    for spare in (_SPARE, 2 * task.limits.cpu_seconds + _SPARE, math.inf):
        ran, suite = await _converse(lease, task, program, spare)
        lost = Ended.LOST in (ran.ended, suite.ended) or was_killed(ran) or was_killed(suite)
        if not lost and not _stalled(ran, suite):
            break
    results = _results(task, ran, suite)
    failed = [i for i, result in enumerate(results) if not result.passed]
    if failed and (why := await _tests_are_to_blame(lease, task, suite, failed)):
        return [TestResult(False, False, why, fault=True)]
    return results


async def _tests_are_to_blame(lease: Lease, task: Task, suite: Result, failed: list[int]) -> str:
    """Why a failure is not the program's: its suite fails with the reference solution too; empty if it is.

    That can only be if the suite could not be replayed, or if a test does more with objects of a program than
    can be done from another process. Without a reference solution, the program is to blame: its objects, an
    endless conversation and the order of a set can cause the same.
    """
    why = _not_played(suite)
    if not (why or _held_objects(suite)) or not task.reference.get("solutions"):
        return ""
    ran, control = await _converse(lease, task, task.reference["solutions"][0])
    if why:
        return f"{why}, which needs a sandbox with channels" if _not_played(control) else ""
    passed = [result.passed for result in _results(task, ran, control)]
    fails_too = _held_objects(control) and any(i >= len(passed) or not passed[i] for i in failed)
    return "the tests fail with the reference solution's objects too" if fails_too else ""


def _report(suite: Result) -> Any:
    """The tests' report. It can be trusted: nothing of the program is in the tests' sandbox."""
    report = _plain(suite.data)
    return report if isinstance(report, tuple) and report else None


def _not_played(suite: Result) -> str | None:
    """Why a suite could not be replayed; None if it could."""
    report = _report(suite)
    return _NOT_PLAYED.get(str(report[0])) if report else None


def _last_test(suite: Result) -> tuple[Any, ...]:
    """Outcome, text, last call of the last test that began, and whether it held objects of the program."""
    report = _report(suite)
    return tuple(report[1][-1]) if report and report[0] == "ran" and report[1] else ("", "", "", False)


def _held_objects(suite: Result) -> bool:
    return bool(_last_test(suite)[3])


def _stalled(ran: Result, suite: Result) -> bool:
    """Whether the program came to the end of its time because the tests made no progress."""
    return ran.ended is Ended.WALL and _last_test(suite)[0] == "unasked"


async def _converse(lease: Lease, task: Task, program: str, spare: float = math.inf) -> tuple[Result, Result]:
    """Run program and tests at the same time, with a channel between them; returns both results.

    The program may sleep for `spare` seconds beyond its idle time, because the tests compute.
    """
    reference = task.reference
    prompt, name = reference["prompt"], reference["entry_point"]
    if prompt:
        program = complete_prompt(prompt, program, name)
    spec = {
        "tests": [(test["code"], bool(test.get("check"))) for test in task.tests],
        "imports": list(reference["imports"]),
        "helpers": preamble(prompt, name) if prompt else "",
        "entry_point": name,
        "all": task.run_all,
        "patience": task.limits.idle,
    }
    files = {
        "program.py": program.encode("utf-8", "surrogatepass"),
        "case": values.encode((reference["prelude"], list(reference["imports"]))),
    }
    program_limits = replace(task.limits, idle_seconds=task.limits.idle + spare)
    suite_limits = replace(
        task.limits,
        cpu_seconds=2 * task.limits.cpu_seconds,
        idle_seconds=math.inf,
        wall_seconds=task.limits.wall + 30,
    )
    if not lease.backend.channels:
        return await _replay(lease, spec, files, program_limits, suite_limits)
    program_box, suite_box = await asyncio.gather(lease.box(), lease.box())
    ours, theirs = socket.socketpair()
    program_run = asyncio.ensure_future(
        program_box.run(Job(source=_SERVE, files=files), program_limits, theirs)
    )
    suite_job = Job(source=_SUITE, files={"suite": values.encode(spec)})
    suite_run = asyncio.ensure_future(suite_box.run(suite_job, suite_limits, ours))
    try:
        suite = await suite_run
        kind = _last_test(suite)[0]
        # If the tests ended well, or the program left the conversation, its result does not matter.
        matters = not kind or (kind in ("gone", "unasked") and program_run.done())
        return await program_run if matters else Result(Ended.EXITED, exit_code=0), suite
    finally:
        await end_tasks([program_run, suite_run])


async def _replay(
    lease: Lease,
    spec: Mapping[str, Any],
    files: Mapping[str, bytes],
    program_limits: Limits,
    suite_limits: Limits,
) -> tuple[Result, Result]:
    """Run program and tests in turns until the tests end; returns both results."""
    requests: list[bytes] = []
    answers: list[bytes | None] = []
    while True:
        job = Job(source=_REPLAY, files={**files, "requests": values.encode(requests)})
        ran = await lease.run(job, program_limits, role="program")
        if ran.ended is Ended.LOST:
            return ran, ran
        answers = [*answers, _answer(ran.data, len(requests))]
        job = Job(source=_SUITE, files={"suite": values.encode({**spec, "recorded": (requests, answers)})})
        tests = await lease.run(job, suite_limits, role="tests")
        report = _report(tests)
        if report is None or report[0] != "ask":
            return ran, tests
        if len(requests) == MAX_REQUESTS:
            return ran, replace(tests, data=values.encode(("long",)))
        requests = [*requests, report[1].encode("latin-1")]


def _answer(data: bytes, number: int) -> bytes | None:
    """The program's answer with that number; None if it ended first or sent something else."""
    found = _plain(data)
    text = found[number] if isinstance(found, list) and len(found) > number else None
    return text.encode("ascii", "replace") if isinstance(text, str) else None


def _plain(data: bytes) -> Any:
    try:
        return values.decode(data, hashed=False)
    except values.BadValue:
        return None


def _results(task: Task, ran: Result, suite: Result) -> list[TestResult]:
    report = _report(suite)
    # The program cannot reach the tests' sandbox: a kill there came from outside.
    if Ended.LOST in (suite.ended, ran.ended) or was_killed(suite):
        why = next((r.detail for r in (suite, ran) if r.ended is Ended.LOST and r.detail), "")
        return [TestResult(False, False, f"the sandbox was lost{why and f' ({why})'}", fault=True)]
    if suite.ended is not Ended.EXITED or report is None:
        # The program's answers can use up the tests' limits, so this is not UNKNOWN.
        return [TestResult(False, False, "the tests did not end within their limits")]
    if (unplayed := _not_played(suite)) is not None:
        return [TestResult(False, False, unplayed)]
    if report[0] == "broken":
        return [TestResult(False, False, f"the problem's own tests are broken: {report[1]}", fault=True)]
    if _stalled(ran, suite):
        return [TestResult(False, False, "the tests made no progress", fault=True)]
    if report[0] == "load":
        why = f"it raised {report[1]}" if report[1] else badly_ended(ran) or "it ended before the first test"
        # The program fails by itself, before any test, so its traceback reveals nothing about the tests.
        return [TestResult(False, True, why, errors_shown(ran))]
    results = []
    for test, (kind, text, last_call, _) in zip(task.tests, report[1], strict=False):
        if kind == "passed":
            results.append(TestResult(True, test["public"]))
            continue
        if gone := kind in ("gone", "unasked"):
            failure = badly_ended(ran) or "it ended, or sent something that is not a value"
        else:
            failure = "wrong answer" if kind == "failed" else f"it raised {text.partition(':')[0]}"
        code = shortened(test["code"]) if not test.get("check") else ""
        parts = (code and f"Test: {code}", last_call, text if kind == "raised" else "")
        detail = "\n".join(filter(None, parts)) + (f"\n{errors_shown(ran)}" if gone else "")
        results.append(TestResult(False, test["public"], failure, detail))
    return results
