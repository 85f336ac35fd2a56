"""The parts of the sandbox suite's checks, and those that are a program and its end: a limit, or ``fine``.

Use `sandbox_suite`.
"""

import socket
import textwrap
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from mars_env.sandbox import Backend, Ended, Guarantee, Job, Limits, Result
from mars_env.sandbox.probe import run_once

SMALL = Limits(
    cpu_seconds=1.0, wall_seconds=60.0, idle_seconds=1.0, memory_bytes=256 << 20, output_bytes=1 << 20
)
"""Small limits for hostile programs, so that they end soon."""

ROOMY = Limits(cpu_seconds=20.0)

TIGHT = Limits(cpu_seconds=10, memory_bytes=256 << 20, disk_bytes=32 << 20, files=200)
"""Limits that programs try to exceed."""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that a backend must do.

    Attributes:
        name: What it checks.
        guarantee: The guarantee that it proves; None for what every backend must do.
        prove: Raises AssertionError, with the result, if the backend fails the check.
    """

    name: str
    guarantee: Guarantee | None
    prove: Callable[[Backend], Awaitable[None]]


CHECKS: list[Check] = []
"""All checks, in order."""

Proof = Callable[[Backend], Awaitable[None]]


def proves(guarantee: Guarantee | None = None) -> Callable[[Proof], Proof]:
    """Make a check from a function whose name says what must be true; None: every backend must do it."""

    def register(function: Proof) -> Proof:
        CHECKS.append(Check(function.__name__, guarantee, function))
        return function

    return register


async def execute(
    backend: Backend, job: Job, limits: Limits = ROOMY, channel: socket.socket | None = None
) -> Result:
    """Run one job in a fresh sandbox of the backend."""
    return await run_once(backend, job, limits, channel)


PRELUDE = """\
import ctypes, fcntl, mmap, os, signal, socket, struct, sys, threading, time
libc = ctypes.CDLL(None)
reached = []
def attempt(name, action):
    try:
        if action() is not False: reached.append(name)
    except Exception: pass
def touch(memory):
    for place in range(0, len(memory), 4096): memory[place] = 1
"""
"""What every program of `run_python` begins with. An attempt has reached something unless it fails."""


async def run_python(
    backend: Backend, source: str, limits: Limits = ROOMY, stdin: bytes = b"", **names: Any
) -> Result:
    """Run source after `PRELUDE`, with each ``<name>`` replaced by the repr of the value with that name."""
    text = PRELUDE + textwrap.dedent(source)
    for name, value in names.items():
        text = text.replace(f"<{name}>", repr(value))
    return await execute(backend, Job(source=text, stdin=stdin), limits)


async def must_be_fine(backend: Backend, source: str, limits: Limits = ROOMY, **names: Any) -> None:
    """Run a program that must come to its end, and reach nothing."""
    result = await run_python(backend, f"{textwrap.dedent(source)}\nprint(*reached, 'fine')", limits, **names)
    assert result.ok and result.stdout == b"fine\n", result


async def _must_end(source: str, ended: Ended, limits: Limits, backend: Backend) -> None:
    # A program that is not stopped before its end stays there until its use has been seen.
    result = await run_python(backend, f"{source}\ntime.sleep(1)", limits)
    assert result.ended is ended or b"refused" in result.stdout, result
    assert max(len(result.stdout), len(result.stderr)) <= limits.output_bytes, result.ended
    if ended is Ended.CPU:
        assert 0.9 < result.cpu_seconds < 2.5, result
    if ended is Ended.WALL:
        assert result.wall_seconds < limits.wall, result  # it was idle for too long before


PROGRAMS: dict[str, str] = {}
"""The programs of checks, by the names of the checks."""


def _check(name: str, must: str, proven: str) -> Check:
    guarantee, source = None if proven == "all" else Guarantee[proven], PROGRAMS[name]
    if must == "is fine":
        limits = TIGHT if guarantee is Guarantee.MEMORY else ROOMY
        return Check(name, guarantee, partial(must_be_fine, source=source, limits=limits))
    ended = Ended[proven]
    limits = TIGHT if ended in (Ended.MEMORY, Ended.DISK, Ended.FILES, Ended.PROCESSES) else SMALL
    return Check(name, guarantee, partial(_must_end, source, ended, limits))


SECTIONS = Path(__file__).with_name("sandbox_programs.txt").read_text(encoding="utf-8").split("\n=== ")[1:]
for section in SECTIONS:
    head, _, program = section.partition("\n")
    must, *proven, name = head.split(" | ")
    PROGRAMS[name] = program
    CHECKS += [_check(name, must, each) for each in proven]
