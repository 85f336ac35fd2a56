"""The worker process: reads requests, judges them, and writes replies, each as a line of JSON.

The kernel enforces its limits, so that no C code can exceed them: a CPU-time timer whose signal kills, and a
bound on memory. The pool starts another worker in its place. When the parent ends, the worker ends.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import resource
import signal
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from mars_env.grading.math.nodes import OverLimit

_LONGEST = 250
"""Most characters of a string in a reply."""


class Judge(NamedTuple):
    """What a worker asks: why a reference cannot be used, and whether an answer equals it (if not, why)."""

    unfit: Callable[[str], str | None]
    judge: Callable[..., tuple[bool, str]]


def serve_verdicts(settings: dict[str, Any]) -> None:
    """Serve until the end of input. Started by `pool.py`, never by hand."""
    replies = os.dup(1)
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)  # parsers that print must not write to the protocol's channel
    os.dup2(quiet, 2)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    _die_with_parent(settings["parent"])
    try:
        judge: Judge = importlib.import_module(settings["judge"]).JUDGE
        judge.judge(r"$\sqrt{2}$", r"$\frac{2}{\sqrt{2}}$")  # import everything: no verdict pays for that
    except Exception as error:
        _send(replies, {"broken": f"a worker could not start: {type(error).__name__}: {error}"[:_LONGEST]})
        return
    _limit_memory(int(settings["memory_mb"]) << 20)
    _send(replies, {"ready": True})
    for line in sys.stdin.buffer:
        reply = _answer(json.loads(line), replies, settings["cpu_seconds"], judge)
        signal.setitimer(signal.ITIMER_PROF, 0)
        _send(replies, reply)


def _limit_memory(size: int) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        resource.setrlimit(resource.RLIMIT_AS, (size, size))
    except (ValueError, OSError):
        return  # some systems (macOS) have no such limit; the CPU limit still holds


def _answer(request: dict[str, Any], replies: int, cpu_seconds: float, judge: Judge) -> dict[str, Any]:
    phase = "reference"
    signal.setitimer(signal.ITIMER_PROF, cpu_seconds)
    try:
        problem = judge.unfit(request["reference"])
        if request["op"] == "check" or problem:
            return {"unfit": (problem or "")[:_LONGEST]}
        phase = "answer"
        _send(replies, {"phase": phase})
        signal.setitimer(signal.ITIMER_PROF, cpu_seconds)
        options = {key: request[key] for key in ("ordered", "integer") if key in request}
        equal, reason = judge.judge(request["reference"], request["answer"], request["tolerance"], **options)
        return {"equal": equal, "reason": reason[:_LONGEST]}
    except OverLimit as limit:
        return {"limit": str(limit)[:_LONGEST], "phase": phase}
    except MemoryError:
        return {"limit": "the memory limit was reached", "phase": phase, "spent": True}
    except RecursionError:
        return {"limit": "the recursion limit was reached", "phase": phase}
    except Exception as error:  # a fault of the judge must not end the worker
        return {"error": f"{type(error).__name__}: {error}"[:_LONGEST], "phase": phase}


def _send(channel: int, message: dict[str, Any]) -> None:
    os.write(channel, json.dumps(message).encode() + b"\n")


def _die_with_parent(parent: int) -> None:
    """Ask Linux to kill this process when the thread that started it ends."""
    if sys.platform != "linux":
        return
    set_parent_death_signal = 1
    ctypes.CDLL(None, use_errno=True).prctl(set_parent_death_signal, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)  # it ended before this request to the kernel
