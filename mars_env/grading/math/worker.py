"""The worker process: calls a judge's functions, as lines of JSON say, and writes what they return.

The kernel enforces its limits, so that no C code can exceed them: a CPU-time timer whose signal kills, and a
bound on memory.
"""

import ctypes
import importlib
import json
import os
import resource
import signal
import sys
from contextlib import suppress
from types import ModuleType
from typing import Any

from mars_env.grading.math.nodes import OverLimit

_LONGEST = 250  # characters of a string in a reply
_NO_MEMORY = "the memory limit was reached"


def serve(settings: dict[str, Any]) -> None:
    """Serve until the end of input. Started by `pool.py`, never by hand."""
    replies = os.dup(1)
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)  # parsers that print must not write to the protocol's channel
    os.dup2(quiet, 2)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    _die_with_parent(settings["parent"])
    try:
        judge = importlib.import_module(settings["judge"])
        judge.judge(r"$\sqrt{2}$", r"$\frac{2}{\sqrt{2}}$")  # import everything: no verdict pays for that
    except Exception as error:
        _send(replies, {"broken": f"a worker could not start: {type(error).__name__}: {error}"[:_LONGEST]})
        return
    size = int(settings["memory_mb"]) << 20
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(ValueError, OSError):  # some systems (macOS) have no such limit; the CPU limit still holds
        resource.setrlimit(resource.RLIMIT_AS, (size, size))
    _send(replies, {"ready": True})
    for line in sys.stdin.buffer:
        signal.setitimer(signal.ITIMER_PROF, settings["cpu_seconds"])
        reply = _reply(judge, **json.loads(line))
        signal.setitimer(signal.ITIMER_PROF, 0)
        _send(replies, reply)
        if reply.get("limit") == _NO_MEMORY:
            return  # what is left may be too little for the next one


def _reply(judge: ModuleType, function: str, args: list[Any], options: dict[str, Any]) -> dict[str, Any]:
    try:
        value = getattr(judge, function)(*args, **options)
        return {"value": value[:_LONGEST] if isinstance(value, str) else value}
    except OverLimit as limit:
        return {"limit": str(limit)[:_LONGEST]}
    except MemoryError:
        return {"limit": _NO_MEMORY}
    except RecursionError:
        return {"limit": "the recursion limit was reached"}
    except Exception as error:  # a fault of the judge must not end the worker
        return {"error": f"{type(error).__name__}: {error}"[:_LONGEST]}


def _send(channel: int, message: dict[str, Any]) -> None:
    os.write(channel, json.dumps(message).encode() + b"\n")


def _die_with_parent(parent: int) -> None:
    """Ask Linux to kill this process when the thread that started it ends."""
    with suppress(AttributeError):  # only Linux has it; 1 means to set the signal of a parent's death
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)  # it ended before this request to the kernel
