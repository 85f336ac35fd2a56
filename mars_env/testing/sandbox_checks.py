"""The parts from which the sandbox suite's checks are made; use `mars_env.testing.sandbox_suite`."""

from __future__ import annotations

import socket
import textwrap
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from mars_env.sandbox import Backend, Guarantee, Job, Limits, Result
from mars_env.sandbox.probe import run_once
from mars_env.sandbox.service import on_service_loop

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
    return await on_service_loop(run_once(backend, job, limits, channel))


IMPORTS = "import ctypes, fcntl, mmap, os, signal, socket, sys, threading, time\n"
"""What every program of `run_python` begins with."""


async def run_python(
    backend: Backend, source: str, limits: Limits = ROOMY, stdin: bytes = b"", **names: Any
) -> Result:
    """Run source after `IMPORTS`, with each ``<name>`` replaced by the repr of the value with that name."""
    text = IMPORTS + textwrap.dedent(source)
    for name, value in names.items():
        text = text.replace(f"<{name}>", repr(value))
    return await execute(backend, Job(source=text, stdin=stdin), limits)


async def must_print(backend: Backend, source: str, expected: str, **names: Any) -> None:
    """Run a program that must end well and print these words."""
    result = await run_python(backend, source, **names)
    assert result.ok and result.stdout.decode(errors="replace").split() == expected.split(), result
