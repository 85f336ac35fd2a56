"""Assert-style suites: tests in one sandbox call functions of the program in another, over a channel."""

import asyncio
import math
import socket
from dataclasses import replace
from typing import Any

from mars_env.gate import quoted
from mars_env.grading.code import values
from mars_env.grading.code.extract import complete_prompt, preamble
from mars_env.grading.code.outcomes import (
    Task,
    TestResult,
    badly_ended,
    quoted_errors,
    shortened,
    was_killed,
    with_control,
)
from mars_env.sandbox import Ended, Job, Lease, Result
from mars_env.sync import end_tasks

_SERVE = "from mars_env.grading.code import program\nprogram._Server().run(*program.stored_value('case'))\n"
_SUITE = "from mars_env.grading.code import suite\nsuite._main()\n"

_SPARE = 1.0  # seconds for which a program may at first sleep beyond its idle time, while the tests compute


async def judge_suite(lease: Lease, task: Task, program: str) -> list[TestResult]:
    """The results of an assert-style suite."""
    if not lease.backend.channels:
        why = f"an assert suite needs a sandbox with channels to programs, and {lease.backend.name} has none"
        return [TestResult(False, False, why, fault=True)]
    for spare in (_SPARE, 2 * task.limits.cpu_seconds + _SPARE, math.inf):
        ran, suite = await _converse(lease, task, program, spare)
        lost = Ended.LOST in (ran.ended, suite.ended) or was_killed(suite)
        if not lost and not _stalled(ran, suite):
            break
    ran, suite = await with_control(lease, ran), await with_control(lease, suite)
    results = _results(task, ran, suite)
    failed = [i for i, result in enumerate(results) if not result.passed]
    if failed and (why := await _tests_are_to_blame(lease, task, suite, failed)):
        return [TestResult(False, False, why, fault=True)]
    return results


async def _tests_are_to_blame(lease: Lease, task: Task, suite: Result, failed: list[int]) -> str:
    """Why a failure is not the program's: the suite fails with the reference solution too; empty if it is.

    That can only be if a test does more with objects of a program than can be done from another process.
    """
    if not _held_objects(suite) or not task.reference.get("solutions"):
        return ""
    ran, control = await _converse(lease, task, task.reference["solutions"][0])
    passed = [result.passed for result in _results(task, ran, control)]
    fails_too = _held_objects(control) and any(i >= len(passed) or not passed[i] for i in failed)
    return "the tests fail with the reference solution's objects too" if fails_too else ""


def _report(suite: Result) -> Any:
    """The tests' report. It can be trusted: nothing of the program is in the tests' sandbox."""
    try:
        report = values.decode(suite.data, hashed=False)
    except values.BadValue:
        return None
    return report if isinstance(report, tuple) and report else None


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
    """Run program and tests at the same time, with a channel between them; returns both results."""
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


def _results(task: Task, ran: Result, suite: Result) -> list[TestResult]:
    report = _report(suite)
    if Ended.LOST in (suite.ended, ran.ended):
        why = next((r.detail for r in (suite, ran) if r.ended is Ended.LOST and r.detail), "")
        return [TestResult(False, False, f"the sandbox was lost{why and f' ({why})'}", fault=True)]
    if suite.ended is not Ended.EXITED or report is None:
        # The program's answers can use up the tests' limits, so this is not UNKNOWN.
        return [TestResult(False, False, "the tests did not end within their limits")]
    if report[0] == "broken":
        return [TestResult(False, False, f"the problem's own tests are broken: {report[1]}", fault=True)]
    if _stalled(ran, suite):
        return [TestResult(False, False, "the tests made no progress", fault=True)]
    if report[0] == "load":
        why = f"it raised {report[1]}" if report[1] else badly_ended(ran) or "it ended before the first test"
        # The program fails by itself, before any test, so its traceback reveals nothing about the tests.
        return [TestResult(False, True, why, quoted_errors(ran))]
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
        parts = (code and f"Test: {code}", last_call, quoted(text) if kind == "raised" else "")
        detail = "\n".join(filter(None, parts)) + (f"\n{quoted_errors(ran)}" if gone else "")
        results.append(TestResult(False, test["public"], failure, detail))
    return results
