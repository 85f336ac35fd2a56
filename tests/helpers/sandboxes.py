"""Which sandboxes work here, and whether a test of one that does not may be skipped."""

import asyncio
import contextlib
import functools
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from mars_env.problems.code import code_problem_from_row
from mars_env.sandbox import BACKENDS, probe
from mars_env.sandbox.backends import landlock_abi

WORKING = {name: asyncio.run(probe(BACKENDS[name]())) for name in ("bubblewrap", "landlock")}


def need(name):
    """Skip a test whose sandbox does not work here; fail if only the library can be to blame."""
    if name in WORKING and not WORKING[name].works:
        skip_or_fail(name, WORKING[name].why)


def need_a_sandbox():
    """Skip a test of programs where no sandbox works; fail if only the library can be to blame."""
    if not any(state.works for state in WORKING.values()):
        for name, state in WORKING.items():
            if _must_work(name, None):
                skip_or_fail(name, state.why)
        pytest.skip(
            "; ".join(f"{name} does not work on this machine: {s.why}" for name, s in WORKING.items())
        )


def skip_or_fail(name, why, user=None):
    """Skip; but fail if the machine has what the sandbox needs."""
    reason = _must_work(name, user)
    if reason:
        pytest.fail(f"{name} does not work, but {reason}: {why}")
    pytest.skip(f"{name} does not work on this machine: {why}")


@functools.cache
def _must_work(name, user):
    """Why a sandbox must work; an empty text if it need not."""
    said = Path(sys.prefix, "sandboxes")  # written by scripts/install.sh
    if user is None and said.exists() and name in said.read_text().split():
        return f"it was installed ({said})"
    if name == "bubblewrap" and plain_bubblewrap_works(user):
        return "bwrap itself does"
    if name == "landlock" and landlock_abi() >= 3:
        return "this kernel has Landlock"
    return ""


def plain_bubblewrap_works(user=None):
    """Whether bwrap itself, without the library, runs a command in new name spaces."""
    if shutil.which("bwrap") is None:
        return False
    command = ["bwrap", "--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "true"]
    return subprocess.run(command, user=user, cwd="/", capture_output=True).returncode == 0


def judge(grader, row, program, **more):
    """The grade of a program for a code problem, given as a row without an id and a prompt."""
    problem = code_problem_from_row({"id": "p", "prompt": "?", **row, **more})
    return asyncio.run(grader.grade(problem, program))


def descendants(pid, depth=99):
    """Processes below one, so many generations: fork servers, bubblewraps around them, boxes, programs."""
    found = []
    with contextlib.suppress(OSError):  # the process has ended
        for thread in Path(f"/proc/{pid}/task").iterdir() if depth else ():
            with contextlib.suppress(OSError):  # the thread has ended
                found += map(int, (thread / "children").read_text().split())
    return found + [each for child in found for each in descendants(child, depth - 1)]


@contextlib.contextmanager
def killing(times, every, depth=99):
    """While the block runs, kill a process below this one so many times, at random, after so many seconds."""
    stop, chance = threading.Event(), random.Random(0)

    def killer():
        for _ in range(times):
            if stop.wait(every):
                return
            if found := descendants(os.getpid(), depth):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(chance.choice(found), signal.SIGKILL)

    thread = threading.Thread(target=killer)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
