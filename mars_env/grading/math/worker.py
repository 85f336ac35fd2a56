"""The worker process: a supervisor that has imported everything, and a forked child that judges.

The child reads requests from stdin and writes replies to stdout, one at a time, as frames (four
bytes of length, little-endian, then JSON). The kernel enforces its limits, so that no C code can
exceed them: a CPU-time timer whose signal kills, and a bound on memory. When the child ends, the
supervisor reports this in a separate frame and forks the next one, which costs milliseconds because
nothing is imported again. When the parent ends, both end.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import resource
import select
import signal
import struct
import sys
from typing import Any

from mars_env.grading.math.nodes import OverLimit

MAX_REPLY = 3500
"""Replies stay below PIPE_BUF, so that they are written completely or not at all."""
LONGEST = 250
"""Most characters of a text in a reply; JSON writes each in at most 12 bytes."""
RECYCLE = 17
"""Exit status of a child that asks to be replaced."""


def main() -> None:
    """Serve until the end of input. Started by `pool.py`, never by hand."""
    replies = os.dup(1)
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)  # parsers that print must not write to the protocol's channel
    os.dup2(quiet, 2)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    settings = _receive()
    if settings is None:
        return
    _die_with_parent(settings["parent"])
    try:
        judge = importlib.import_module(settings["judge"])
        judge.warm()
    except Exception as error:
        _send(replies, {"broken": f"a worker could not start: {type(error).__name__}: {error}"[:LONGEST]})
        return
    gc.freeze()
    supervisor = os.getpid()
    _send(replies, {"ready": os.getpid()})
    while True:
        child = os.fork()
        if child == 0:
            _die_with_parent(supervisor)
            _serve(replies, settings, judge)
            os._exit(0)
        status = _wait(child)
        if status is None or (os.WIFEXITED(status) and os.WEXITSTATUS(status) == 0):
            return
        if not (os.WIFEXITED(status) and os.WEXITSTATUS(status) == RECYCLE):
            killed = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
            _send(replies, {"died": killed})


def _wait(child: int) -> int | None:
    """The child's exit status; None if the parent ended first and the child was therefore killed."""
    if hasattr(os, "pidfd_open"):  # elsewhere a busy child ends after its verdict
        ended = os.pidfd_open(child)
        poll = select.poll()
        poll.register(ended, select.POLLIN)
        poll.register(0, 0)  # only the hang-up of its input
        ready = [descriptor for descriptor, _ in poll.poll()]
        os.close(ended)
        if ended not in ready:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return None
    return os.waitpid(child, 0)[1]


def _serve(replies: int, settings: dict[str, Any], judge: Any) -> None:
    """Answer requests until the end of input, or until a fresh child is due."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    memory = int(settings["memory_mb"]) << 20
    try:
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    except (ValueError, OSError):
        memory = 0  # some systems (macOS) have no such limit; the CPU limit still holds
    for served in range(1, int(settings["recycle_after"]) + 1):
        request = _receive()
        if request is None:
            os._exit(0)
        signal.setitimer(signal.ITIMER_PROF, settings["cpu_seconds"])
        reply, spent = _answer(request, replies, settings, judge)
        signal.setitimer(signal.ITIMER_PROF, 0)
        _send(replies, {"id": request["id"], **reply})
        if spent or served == settings["recycle_after"]:
            os._exit(RECYCLE)


def _answer(
    request: dict[str, Any], replies: int, settings: dict[str, Any], judge: Any
) -> tuple[dict[str, Any], bool]:
    """The reply to one request, and whether this child should be replaced after it."""
    phase = "reference"
    try:
        problem = judge.unfit(request["reference"])
        if request["op"] == "check" or problem:
            return {"unfit": (problem or "")[:LONGEST]}, False
        phase = "answer"
        _send(replies, {"id": request["id"], "phase": phase})
        signal.setitimer(signal.ITIMER_PROF, settings["cpu_seconds"])
        options = {key: request[key] for key in ("ordered", "integer") if key in request}
        equal, reason = judge.judge(request["reference"], request["answer"], request["tolerance"], **options)
        return {"equal": equal, "reason": reason[:LONGEST]}, False
    except OverLimit as limit:
        return {"limit": str(limit)[:LONGEST], "phase": phase}, False
    except MemoryError:
        return {"limit": "the memory limit was reached", "phase": phase}, True
    except RecursionError:
        return {"limit": "the recursion limit was reached", "phase": phase}, False
    except Exception as error:  # a fault of the judge must not end the worker
        return {"error": f"{type(error).__name__}: {error}"[:LONGEST], "phase": phase}, False


def _send(channel: int, message: dict[str, Any]) -> None:
    data = json.dumps(message).encode()
    assert len(data) <= MAX_REPLY
    os.write(channel, struct.pack("<I", len(data)) + data)


def _receive() -> dict[str, Any] | None:
    """The next frame, read without buffering, because what follows it may be for the next child."""
    head = _exactly(4)
    if head is None:
        return None
    data = _exactly(struct.unpack("<I", head)[0])
    if data is None:
        return None
    message: dict[str, Any] = json.loads(data)
    return message


def _exactly(size: int) -> bytes | None:
    parts = []
    while size:
        part = os.read(0, size)
        if not part:
            return None
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _die_with_parent(parent: int) -> None:
    """Ask Linux to kill this process when its parent ends, in whatever way, even if this process is stopped.

    The signal comes when the thread that started this process ends; the pool's threads live as long as their
    workers.
    """
    if sys.platform != "linux":
        return
    set_parent_death_signal = 1
    ctypes.CDLL(None, use_errno=True).prctl(set_parent_death_signal, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)  # it ended before this request to the kernel
