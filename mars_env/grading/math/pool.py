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
import queue
import select
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

_BOOTSTRAP = """
import json, sys
settings = json.loads(sys.stdin.buffer.readline())
sys.path[:] = settings["path"]
from mars_env.grading.math.worker import main
main(settings)
"""
_CRASHES = (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL, signal.SIGFPE)


@dataclass(frozen=True, slots=True)
class Limits:
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
        for name in ("cpu_seconds", "memory_mb", "wall_seconds", "recycle_after"):
            limit = getattr(self, name)
            if not 0 < limit < float("inf"):
                raise ValueError(f"the limit {name} must be a finite number above 0, got {limit}")


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a request: the worker's reply, or the fault that prevented it.

    Attributes:
        reply: The worker's reply, or ``{"limit": ..., "phase": ...}`` if the kernel ended it.
        fault: Why there is no reply, if the request is not to blame.
    """

    reply: Mapping[str, Any] = field(default_factory=dict)
    fault: str = ""


@dataclass(slots=True)
class _Job:
    request: dict[str, Any]
    future: Future[Outcome] = field(default_factory=Future)


class WorkerPool:
    """Worker processes that judge answers; they start when first needed.

    Args:
        workers: How many; None means one per CPU.
        limits: What one verdict may use.
        judge: The module whose functions ``unfit``, ``judge`` and ``warm`` the workers call.

    Example:
        >>> with WorkerPool(workers=1) as pool:
        ...     outcome = pool.submit({"op": "judge", "reference": "x + 1", "answer": "1 + x"}).result()
        >>> outcome.reply["equal"]
        True
    """

    def __init__(
        self,
        workers: int | None = None,
        limits: Limits | None = None,
        judge: str = "mars_env.grading.math.symbolic",
    ) -> None:
        self.size = workers if workers is not None else _cpus()
        if self.size < 1:
            raise ValueError(f"a pool needs at least one worker, got {workers}")
        self.limits = limits or Limits()
        self.judge = judge
        self._start()
        _POOLS.add(self)

    def __reduce__(self) -> tuple[Any, ...]:
        """A pickled pool is made again, without its processes."""
        return WorkerPool, (self.size, self.limits, self.judge)

    def __deepcopy__(self, memo: object) -> WorkerPool:
        """Copies share one pool: processes are machinery, not state."""
        return self

    def _start(self) -> None:
        self._shared = _Shared()
        self._finalizer = weakref.finalize(self, _release, self._shared)

    @property
    def capacity(self) -> int:
        """Verdicts at a time."""
        return self.size

    @property
    def under_way(self) -> int:
        """Requested verdicts that are not finished, including those that wait for a worker."""
        shared = self._shared
        return shared.jobs.qsize() + max(0, len(shared.threads) - shared.idle)

    def submit(self, request: dict[str, Any]) -> Future[Outcome]:
        """Queue a request; its future never raises because of the request's content.

        Raises:
            RuntimeError: The pool is closed.
        """
        job, shared = _Job({"tolerance": None, **request}), self._shared
        with shared.lock:
            if shared.closed:
                raise RuntimeError("the pool is closed")
            shared.jobs.put(job)
            if shared.jobs.qsize() > shared.idle and len(shared.threads) < self.size:
                slot = _Slot(self.limits, self.judge)
                shared.slots.append(slot)
                thread = threading.Thread(
                    target=_work, args=(slot, shared), name="mars-env-grading", daemon=True
                )
                shared.threads.append(thread)
                thread.start()
        return job.future

    async def run(self, request: dict[str, Any]) -> Outcome:
        """Like `submit`, but awaitable from any running event loop."""
        return await asyncio.wrap_future(self.submit(request))

    def close(self) -> None:
        """Finish the submitted requests, then end the workers."""
        self._finalizer()
        for thread in self._shared.threads:
            thread.join()

    def pids(self) -> list[int]:
        """Process ids of the workers that are running."""
        return [slot.process.pid for slot in self._shared.slots if slot.process is not None]

    def __enter__(self) -> WorkerPool:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


@dataclass(slots=True)
class _Shared:
    """State that the pool shares with its threads; they hold no reference to the pool, so it can be freed."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    jobs: queue.SimpleQueue[_Job | None] = field(default_factory=queue.SimpleQueue)
    threads: list[threading.Thread] = field(default_factory=list)
    slots: list[_Slot] = field(default_factory=list)
    idle: int = 0
    closed: bool = False


def _release(shared: _Shared) -> None:
    with shared.lock:
        shared.closed = True
        for _ in shared.threads:
            shared.jobs.put(None)


def _work(slot: _Slot, shared: _Shared) -> None:
    """The loop of one worker's thread: take a job, have the worker do it, set its future."""
    while True:
        with shared.lock:
            shared.idle += 1
        job = shared.jobs.get()
        with shared.lock:
            shared.idle -= 1
        if job is None:
            slot.stop()
            return
        if not job.future.set_running_or_notify_cancel():
            continue
        try:
            outcome = slot.judge(job.request)
        except Exception as error:  # a bug here must not leave a caller waiting forever
            slot.stop()
            outcome = Outcome(fault=f"{type(error).__name__}: {error}")
        job.future.set_result(outcome)


class _Slot:
    """One worker process and the conversation with it; used by one thread."""

    def __init__(self, limits: Limits, judge: str) -> None:
        self.limits = limits
        self.module = judge
        self.process: subprocess.Popen[bytes] | None = None
        self._served = 0
        self._received = b""

    def judge(self, request: dict[str, Any]) -> Outcome:
        """Have a request answered; if the worker is lost, once more by a fresh one.

        If two workers crash on one answer after reading its reference, that answer crashed
        them; a worker that is lost from outside is a fault.
        """
        first = self._attempt(request)
        if not first.fault:
            return first
        second = self._attempt(request)
        if second.fault and first.reply.get("crashed") and second.reply.get("crashed"):
            return Outcome({"limit": "it crashed the evaluator twice", "phase": second.reply["phase"]})
        return second

    def _attempt(self, request: dict[str, Any]) -> Outcome:
        try:
            process = self._started()
            _write(process, request)
            return self._reply(process)
        except _Lost as lost:
            self.stop()
            return Outcome(fault=str(lost))

    def _reply(self, process: subprocess.Popen[bytes]) -> Outcome:
        phase, deadline = "reference", time.monotonic() + self.limits.wall_seconds
        while (message := self._read(process, deadline)) is not None:
            if set(message) == {"phase"}:
                phase = message["phase"]
                continue
            self._served += 1
            if message.get("spent") or self._served >= self.limits.recycle_after:
                self.stop()
            return Outcome(message)
        self.stop()
        killed = -process.returncode
        if killed == signal.SIGPROF:
            limit = f"the CPU time limit of {self.limits.cpu_seconds:g} s was reached"
            return Outcome({"limit": limit, "phase": phase})
        reply = {"crashed": killed in _CRASHES, "phase": phase}
        return Outcome(reply, fault=f"a worker was lost (signal {killed})")

    def _started(self) -> subprocess.Popen[bytes]:
        if self.process is not None and self.process.poll() is None:
            return self.process
        self.stop()
        environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONSTARTUP", "PYTHONINSPECT")}
        process = subprocess.Popen(
            [sys.executable, "-c", _BOOTSTRAP],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,
            bufsize=0,
        )
        self.process, self._served, self._received = process, 0, b""
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
        while b"\n" not in self._received:
            left = deadline - time.monotonic()
            if left <= 0 or not poll.poll(left * 1000):
                raise _Lost("a worker did not answer within the wall-clock ceiling")
            part = os.read(process.stdout.fileno(), 65_536)
            if not part:
                return None
            self._received += part
        line, _, self._received = self._received.partition(b"\n")
        message: dict[str, Any] = json.loads(line)
        return message

    def stop(self) -> None:
        """Kill the worker and reap it."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
        self._close()

    def abandon(self) -> None:
        """In a forked child: close its copies of the pipes, so that the worker notices its parent's end."""
        if self.process is not None:
            self.process.returncode = 0  # it is not this process's child: nothing to reap
        self._close()

    def _close(self) -> None:
        process, self.process = self.process, None
        for pipe in (process.stdin, process.stdout) if process is not None else ():
            if pipe is not None:
                pipe.close()


class _Lost(Exception):
    """The worker is gone or sends nonsense."""


def _write(process: subprocess.Popen[bytes], message: dict[str, Any]) -> None:
    assert process.stdin is not None
    view = memoryview(json.dumps(message).encode() + b"\n")
    try:
        while view:
            view = view[os.write(process.stdin.fileno(), view) :]
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
        pool._finalizer.detach()
        for slot in pool._shared.slots:
            slot.abandon()
        pool._start()


os.register_at_fork(after_in_child=_after_fork)
