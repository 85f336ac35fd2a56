"""The results of tests, and the words for how a program ended."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from mars_env.gate import quoted
from mars_env.sandbox import Ended, Job, Lease, Limits, Result

SHOWN = 400  # characters of an input, output or value in feedback
SMALL = 16 << 10  # bytes that are read directly, on the event loop; more are read in a thread


@dataclass(frozen=True, slots=True)
class TestResult:
    """The result of one test; the content of one that is not public is not shown."""

    passed: bool
    public: bool
    why: str = ""  # "wrong answer", "it raised ValueError", "it exceeded the CPU time limit"
    detail: str = ""  # the test's content and the program's result; for feedback
    fault: bool = False  # whether the machinery failed, so that nothing is known


@dataclass(frozen=True, slots=True)
class Task:
    """One problem's tests, public ones first, and how to run them."""

    reference: Mapping[str, Any]
    tests: tuple[Mapping[str, Any], ...]
    names: tuple[str, ...]
    run_all: bool
    limits: Limits


async def run_job(lease: Lease, job: Job, limits: Limits, role: str = "") -> Result:
    """Run a job once; its result is LOST only if a harmless program fails, too."""
    return await with_control(lease, await lease.run(job, limits, role))


async def with_control(lease: Lease, result: Result) -> Result:
    """The result of a run. One that was killed or lost is LOST exactly if a harmless program fails, too.

    A program may kill itself or break its sandbox: then it was KILLED, because of what it did.
    """
    if result.ended is not Ended.LOST and not was_killed(result):
        return result
    sound = await lease.is_sound(result.peak_memory)
    return replace(result, ended=Ended.KILLED if sound else Ended.LOST)


def was_killed(result: Result) -> bool:
    """Whether it ended by a SIGKILL that no limit explains."""
    return result.ended is Ended.KILLED and result.signal == 9


_ENDED = {
    Ended.CPU: "it exceeded the CPU time limit",
    Ended.WALL: "it exceeded the time limit (it slept, or waited for something)",
    Ended.LOST: "the sandbox was lost",
}


def badly_ended(result: Result) -> str | None:
    """A few words for a run that ended badly; None if it ended well."""
    if result.ok:
        return None
    if result.ended is Ended.KILLED:
        return f"it was ended by signal {result.signal}" if result.signal else "it broke the sandbox"
    if result.ended is not Ended.EXITED:
        return _ENDED.get(result.ended, f"it exceeded the {result.ended}")
    errors = result.stderr.rstrip()
    line = errors[errors.rfind(b"\n") + 1 :][:200].decode("utf-8", "replace")
    last = re.match(r"([A-Za-z_][\w.]{0,60})(?::|$)", line)
    if last and (b"Traceback (most recent call last)" in result.stderr or last[1].endswith("Error")):
        return f"it raised {last[1]}"
    return f"it exited with status {result.exit_code}"


def failure_of(test: Mapping[str, Any], why: str, detail: str, result: Result) -> TestResult:
    """The result of a run that ended badly; a fault if the sandbox was lost."""
    fault = result.ended is Ended.LOST
    text = f"{why} ({result.detail})" if fault and result.detail else why
    return TestResult(False, test["public"], text, detail, fault)


_PROGRAM_FILE = re.compile(r'File "[^"\n]*?(?:main|program)\.py"')


def quoted_errors(result: Result) -> str:
    """The end of standard error, quoted line by line; a traceback shows only the program's frames."""
    end = result.stderr[-SMALL:].decode("utf-8", "replace")
    text = _PROGRAM_FILE.sub('File "program.py"', end).strip()
    return quoted(text if len(text) <= 1000 else "..." + text[-1000:])


def shortened(text: str) -> str:
    """The start of a text, for feedback."""
    text = text.rstrip("\n")
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}... ({len(text)} characters)"


def quoted_output(output: bytes) -> str:
    """The start of an output, quoted line by line."""
    if len(output) <= SMALL:
        return quoted(shortened(output.decode("utf-8", "replace")))
    return quoted(f"{output[:SMALL].decode('utf-8', 'replace')[:SHOWN]}... ({len(output):,} bytes)")
