"""A pool of killable worker processes for verdicts that need symbolic computation.

Safe from any thread and from any number of event loops; a forked child of the caller starts
new workers. CPU time decides: a verdict may use `cpu_seconds` for the reference and as many
for the answer, enforced by the kernel in the worker; time spent waiting in the queue does not
count. The wall-clock ceiling is loose, and exists only for a worker that neither works nor ends.
"""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any

_BOOTSTRAP = """
import json, sys
settings = json.loads(sys.stdin.buffer.readline())
sys.path[:] = settings["path"]
from mars_env.grading.math.worker import serve_verdicts
serve_verdicts(settings)
"""
_CRASHES = (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL, signal.SIGFPE)

Reply = Mapping[str, Any]
"""``{"equal", "reason"}``, or why there is no verdict: ``{"limit", "phase"}``, ``{"unfit"}``,
``{"error", "phase"}``, and ``{"fault"}`` if the machinery, and not the request, is to blame."""


@dataclass(frozen=True, slots=True)
class VerdictLimits:
    """What one verdict may use.

    Attributes:
        cpu_seconds: CPU time for the answer, and as much for the reference.
        memory_mb: Address space of a worker, in MiB.
        wall_seconds: Ceiling for a worker that neither works nor ends (a stopped process, a
            machine that swaps); reaching it is a fault of the machinery.
        recycle_after: Verdicts after which a worker is replaced, so that nothing accumulates.

    Raises:
        ValueError: A limit is not a finite number above 0.
    """

    cpu_seconds: float = 3.0
    memory_mb: int = 1024
    wall_seconds: float = 120.0
    recycle_after: int = 2000

    def __post_init__(self) -> None:
        for name, limit in asdict(self).items():
            if not 0 < limit < float("inf"):
                raise ValueError(f"the limit {name} must be a finite number above 0, got {limit}")


class WorkerPool:
    """Worker processes that judge answers; they start when first needed.

    Args:
        workers: How many; None means one per CPU.
        limits: What one verdict may use.
        judge: The module whose ``JUDGE`` (`mars_env.grading.math.worker.Judge`) the workers ask.

    Example:
        >>> with WorkerPool(workers=1) as pool:
        ...     reply = pool.submit({"op": "judge", "reference": "x + 1", "answer": "1 + x"}).result()
        >>> reply["equal"]
        True
    """

    def __init__(
        self,
        workers: int | None = None,
        limits: VerdictLimits | None = None,
        judge: str = "mars_env.grading.math.symbolic",
    ) -> None:
        self.capacity = workers if workers is not None else _cpus()
        if self.capacity < 1:
            raise ValueError(f"a pool needs at least one worker, got {workers}")
        self.limits = limits or VerdictLimits()
        self.judge = judge
        self._start()
        _POOLS.add(self)

    def __reduce__(self) -> tuple[Any, ...]:
        """A pickled pool is made again, without its processes."""
        return WorkerPool, (self.capacity, self.limits, self.judge)

    def __deepcopy__(self, memo: object) -> WorkerPool:
        """Copies share one pool: processes are machinery, not state."""
        return self

    def _start(self) -> None:
        self._threads = ThreadPoolExecutor(self.capacity, "mars-env-grading")
        self._of_thread, self._workers = threading.local(), list[_Worker]()
        self._unfinished: set[Future[Reply]] = set()

    @property
    def under_way(self) -> int:
        """Requested verdicts that are not finished, including those that wait for a worker."""
        return len(self._unfinished)

    def submit(self, request: dict[str, Any]) -> Future[Reply]:
        """Queue a request; its future never raises because of the request's content.

        Raises:
            RuntimeError: The pool is closed.
        """
        # the threads know nothing of the pool itself, so that it can be freed
        parts = (self._of_thread, self._workers, self.limits, self.judge)
        future = self._threads.submit(_judged, *parts, {"tolerance": None, **request})
        self._unfinished.add(future)
        future.add_done_callback(self._unfinished.discard)
        return future

    async def run(self, request: dict[str, Any]) -> Reply:
        """Like `submit`, but awaitable from any running event loop."""
        return await asyncio.wrap_future(self.submit(request))

    def close(self) -> None:
        """Finish the submitted requests, then end the workers."""
        self._threads.shutdown()
        for worker in self._workers:
            worker.stop()

    def pids(self) -> list[int]:
        """Process ids of the workers that are running."""
        return [worker.process.pid for worker in self._workers if worker.process is not None]

    def __enter__(self) -> WorkerPool:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _judged(
    of_thread: threading.local,
    workers: list[_Worker],
    limits: VerdictLimits,
    judge: str,
    request: dict[str, Any],
) -> Reply:
    """Have this thread's worker answer."""
    if not hasattr(of_thread, "worker"):
        of_thread.worker = _Worker(limits, judge)
        workers.append(of_thread.worker)
    try:
        return of_thread.worker.judge(request)  # type: ignore[no-any-return]
    except Exception as error:  # a bug here is a fault of the machinery
        of_thread.worker.stop()
        return {"fault": f"{type(error).__name__}: {error}"}


class _Worker:
    """One worker process and the conversation with it; used by one thread."""

    def __init__(self, limits: VerdictLimits, judge: str) -> None:
        self.limits, self.module = limits, judge
        self.process: subprocess.Popen[bytes] | None = None
        self.served, self.received = 0, list[bytes]()

    def judge(self, request: dict[str, Any]) -> Reply:
        """Have a request answered; if the worker is lost, once more by a fresh one.

        If two workers crash on one answer after reading its reference, that answer crashed
        them; a worker that is lost from outside is a fault.
        """
        first = self._attempt(request)
        if "fault" not in first:
            return first
        second = self._attempt(request)
        if first.get("crashed") and second.get("crashed"):
            return {"limit": "it crashed the evaluator twice", "phase": second["phase"]}
        return second

    def _attempt(self, request: dict[str, Any]) -> Reply:
        try:
            process = self._started()
            _write(process, request)
            return self._reply(process)
        except _Lost as lost:
            self.stop()
            return {"fault": str(lost)}

    def _reply(self, process: subprocess.Popen[bytes]) -> Reply:
        phase, deadline = "reference", time.monotonic() + self.limits.wall_seconds
        while (message := self._read(process, deadline)) is not None:
            if set(message) == {"phase"}:
                phase = message["phase"]
                continue
            self.served += 1
            if message.get("spent") or self.served >= self.limits.recycle_after:
                self.stop()
            return message
        self.stop()
        killed = -process.returncode
        if killed == signal.SIGPROF:
            limit = f"the CPU time limit of {self.limits.cpu_seconds:g} s was reached"
            return {"limit": limit, "phase": phase}
        return {
            "fault": f"a worker was lost (signal {killed})",
            "crashed": killed in _CRASHES,
            "phase": phase,
        }

    def _started(self) -> subprocess.Popen[bytes]:
        if self.process is not None and self.process.poll() is None:
            return self.process
        self.stop()
        self.process = process = subprocess.Popen(
            [sys.executable, "-c", _BOOTSTRAP],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={k: v for k, v in os.environ.items() if k not in ("PYTHONSTARTUP", "PYTHONINSPECT")},
            start_new_session=True,
            bufsize=0,
        )
        self.served, self.received = 0, list[bytes]()
        settings = {
            "path": [folder for folder in sys.path if isinstance(folder, str)],  # Python ignores others, too
            "cpu_seconds": self.limits.cpu_seconds,
            "memory_mb": self.limits.memory_mb,
            "parent": os.getpid(),
            "judge": self.module,
        }
        _write(process, settings)
        greeting = self._read(process, time.monotonic() + max(120.0, self.limits.wall_seconds)) or {}
        if "ready" not in greeting:
            raise _Lost(greeting.get("broken", "a worker could not start"))
        return process

    def _read(self, process: subprocess.Popen[bytes], deadline: float) -> dict[str, Any] | None:
        """The next message of the worker; None if it has ended."""
        assert process.stdout is not None
        poll = select.poll()
        poll.register(process.stdout, select.POLLIN | select.POLLHUP)
        if not self.received:
            left = deadline - time.monotonic()
            if left <= 0 or not poll.poll(left * 1000):
                raise _Lost("a worker did not answer within the wall-clock ceiling")
            # messages are so short that a pipe never splits one
            self.received = os.read(process.stdout.fileno(), 65_536).splitlines()
        return json.loads(self.received.pop(0)) if self.received else None

    def stop(self) -> None:
        """Kill the worker and reap it."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
        self.close()

    def close(self) -> None:
        """Close the pipes; a worker whose parent's pipe is closed ends."""
        process, self.process = self.process, None
        for pipe in (process.stdin, process.stdout) if process is not None else ():
            if pipe is not None:
                pipe.close()


class _Lost(Exception):
    """The worker is gone or sends nonsense."""


def _write(process: subprocess.Popen[bytes], message: dict[str, Any]) -> None:
    assert process.stdin is not None
    try:
        process.stdin.write(json.dumps(message).encode() + b"\n")
    except BrokenPipeError as broken:
        raise _Lost("a worker ended before it got the request") from broken


def _cpus() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


_POOLS: weakref.WeakSet[WorkerPool] = weakref.WeakSet()


def _after_fork() -> None:
    """In a forked child, which has no threads: leave the parent's workers alone, start new ones on demand."""
    for pool in list(_POOLS):
        for worker in pool._workers:
            if worker.process is not None:
                worker.process.returncode = 0  # it is not this process's child: nothing to reap
            worker.close()
        pool._start()


os.register_at_fork(after_in_child=_after_fork)
