"""A pool of killable worker processes for verdicts that need symbolic computation.

Safe from any thread and from any number of event loops. CPU time decides: a verdict may use `cpu_seconds`
for the reference and as many for the answer, enforced by the kernel in the worker; time in the queue does
not count. The wall-clock ceiling is loose, and exists only for a worker that neither works nor ends.
"""

import asyncio
import json
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any

_BOOTSTRAP = """
import json, sys
settings = json.loads(sys.stdin.buffer.readline())
sys.path[:] = settings["path"]
from mars_env.grading.math.worker import serve
serve(settings)
"""
_CRASHES = (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL, signal.SIGFPE)

Reply = Mapping[str, Any]
"""``{"equal", "reason"}``, or why there is no verdict: ``{"limit", "phase"}``, ``{"reference_fault"}``,
``{"error", "phase"}``, and ``{"fault"}`` if the machinery, and not the request, is to blame."""


@dataclass(frozen=True, slots=True)
class VerdictLimits:
    """What one verdict may use; a ValueError if a limit is not a finite number above 0.

    CPU seconds for the answer, and as many for the reference; MiB of a worker's address space; wall-clock
    seconds, beyond which the machinery is at fault; and verdicts after which a worker is replaced.
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
    """Worker processes that judge answers, by default one per CPU; they start when first needed.

    `judge` names a module. Its function ``reference_fault(reference)`` says why a reference cannot be used,
    and ``judge(reference, answer, tolerance)`` whether an answer equals it, and if not, why.

    Example:
        >>> pool = WorkerPool(workers=1)
        >>> pool.submit({"op": "judge", "reference": "x + 1", "answer": "1 + x"}).result()["equal"]
        True
        >>> pool.close()
    """

    def __init__(
        self,
        workers: int | None = None,
        limits: VerdictLimits | None = None,
        judge: str = "mars_env.grading.math.judge",
    ) -> None:
        cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        self.capacity = cpus if workers is None else workers
        if self.capacity < 1:
            raise ValueError(f"a pool needs at least one worker, got {workers}")
        self.limits = limits or VerdictLimits()
        self.judge = judge
        self._start()

    def _start(self) -> None:
        self._process = os.getpid()
        self._threads = ThreadPoolExecutor(self.capacity, "mars-env-grading")
        self._workers = dict[int, _Worker]()

    def __reduce__(self) -> tuple[Any, ...]:
        return WorkerPool, (self.capacity, self.limits, self.judge)

    def __deepcopy__(self, memo: object) -> "WorkerPool":
        """Copies share one pool: processes are machinery, not state."""
        return self

    def submit(self, request: dict[str, Any]) -> Future[Reply]:
        """Queue a request, whose future never raises because of its content, unless the pool is closed."""
        if self._process != os.getpid():  # a forked child has no threads; the workers are its parent's
            self._start()
        # the threads know nothing of the pool itself, so that it can be freed
        return self._threads.submit(_judged, self._workers, self.limits, self.judge, request)

    async def run(self, request: dict[str, Any]) -> Reply:
        """Like `submit`, but awaitable from any running event loop."""
        return await asyncio.wrap_future(self.submit(request))

    def close(self) -> None:
        """Finish the submitted requests, then end the workers."""
        self._threads.shutdown()
        for worker in self._workers.values():
            worker.stop()

    def pids(self) -> list[int]:
        """Process ids of the workers that are running."""
        workers = list(self._workers.values())
        return [worker.process.pid for worker in workers if worker.process is not None]


def _judged(
    workers: "dict[int, _Worker]", limits: VerdictLimits, judge: str, request: dict[str, Any]
) -> Reply:
    worker = workers.setdefault(threading.get_ident(), _Worker(limits, judge))
    try:
        return worker.reply(request)
    except Exception as error:  # a bug here is a fault of the machinery
        worker.stop()
        return {"fault": f"{type(error).__name__}: {error}"}


class _Worker:
    """One worker process at a time and the conversation with it; used by one thread."""

    def __init__(self, limits: VerdictLimits, judge: str) -> None:
        self.limits, self.module = limits, judge
        self.process: subprocess.Popen[bytes] | None = None
        self.served, self.fit = 0, set[str]()

    def reply(self, request: dict[str, Any]) -> Reply:
        reference = request["reference"]
        if request["op"] == "check" or reference not in self.fit:
            reply = self._call("reference_fault", "reference", reference)
            if "value" not in reply:
                return reply
            if request["op"] == "check" or reply["value"]:
                return {"reference_fault": reply["value"] or ""}
            self.fit.add(reference)
        options = {key: request[key] for key in ("ordered", "integer", "statement") if key in request}
        reply = self._call(
            "judge", "answer", reference, request["answer"], request.get("tolerance"), **options
        )
        return {"equal": reply["value"][0], "reason": reply["value"][1]} if "value" in reply else reply

    def _call(self, function: str, phase: str, *args: object, **options: object) -> dict[str, Any]:
        """The value of a function; if the worker is lost, it is called once more in a fresh one.

        If two workers crash on the same arguments, these crashed them.
        """
        message = {"function": function, "args": args, "options": options}
        crashes = 0
        for _ in range(2):
            try:
                return {**self._exchange(message), "phase": phase}
            except _Lost as lost:
                self.stop()
                fault, crashes = str(lost), crashes + lost.crashed
        if crashes == 2:
            return {"limit": "it crashed the evaluator twice", "phase": phase}
        return {"fault": fault}

    def _exchange(self, message: dict[str, Any]) -> dict[str, Any]:
        spent = self.served >= self.limits.recycle_after
        if self.process is None or self.process.poll() is not None or spent:
            self._start()
        self.served += message["function"] == "judge"
        reply = self._answer(message, self.limits.wall_seconds)
        if reply is not None:
            return reply
        assert self.process is not None
        killed = -self.process.wait()
        self.stop()
        if killed == signal.SIGPROF:
            return {"limit": f"the CPU time limit of {self.limits.cpu_seconds:g} s was reached"}
        raise _Lost(f"a worker was lost (signal {killed})", crashed=killed in _CRASHES)

    def _start(self) -> None:
        self.stop()
        self.process = subprocess.Popen(
            [sys.executable, "-c", _BOOTSTRAP],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={k: v for k, v in os.environ.items() if k not in ("PYTHONSTARTUP", "PYTHONINSPECT")},
            start_new_session=True,
            bufsize=0,
        )
        self.served, self.fit = 0, set()
        settings = {
            "path": [folder for folder in sys.path if isinstance(folder, str)],  # Python ignores others, too
            "cpu_seconds": self.limits.cpu_seconds,
            "memory_mb": self.limits.memory_mb,
            "parent": os.getpid(),
            "judge": self.module,
        }
        greeting = self._answer(settings, max(120.0, self.limits.wall_seconds)) or {}
        if "ready" not in greeting:
            raise _Lost(greeting.get("broken", "a worker could not start"))

    def _answer(self, message: dict[str, Any], seconds: float) -> dict[str, Any] | None:
        assert self.process is not None and self.process.stdin is not None and self.process.stdout is not None
        poll = select.poll()
        poll.register(self.process.stdout, select.POLLIN | select.POLLHUP)
        try:
            self.process.stdin.write(json.dumps(message).encode() + b"\n")
        except BrokenPipeError as broken:
            raise _Lost("a worker ended before it got the request") from broken
        if not poll.poll(seconds * 1000):
            raise _Lost("a worker did not answer within the wall-clock ceiling")
        line = os.read(self.process.stdout.fileno(), 65_536)  # so short that a pipe never splits it
        return json.loads(line) if line else None

    def stop(self) -> None:
        process, self.process = self.process, None
        if process is not None:
            with process:  # closes its pipes and waits for its end
                process.kill()


class _Lost(Exception):
    def __init__(self, why: str, *, crashed: bool = False) -> None:
        super().__init__(why)
        self.crashed = crashed
