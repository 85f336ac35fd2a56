"""A pool of sandboxes with a queue. Each is forked from a warm server, used once and thrown away."""

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from mars_env.errors import SandboxError
from mars_env.sandbox.backends import Backend, Box, Spawner
from mars_env.sandbox.jobs import Job, job_of
from mars_env.sandbox.limits import MIB, Ended, Limits, Result
from mars_env.sandbox.probe import find_backend
from mars_env.sandbox.service import on_service_loop

T = TypeVar("T")

ATTEMPTS = 5  # of a run whose sandbox is lost, and of a sandbox that fails to start


class Lease:
    """The sandboxes for one piece of work, inside the coroutine that `Pool.use` runs; then all are closed."""

    def __init__(self, pool: "Pool", backend: Backend) -> None:
        self.backend = backend
        self._pool = pool
        self._boxes: list[Box] = []
        self._kept: dict[str, Box] = {}

    async def box(self) -> Box:
        """A fresh sandbox; raises a `SandboxError` if none could be started in several attempts."""
        box = await self._pool._box(self.backend)
        self._boxes.append(box)
        return box

    async def run(self, job: Job, limits: Limits, role: str = "") -> Result:
        """Run a job (again if lost) in the sandbox kept for `role`: a new process in an empty folder."""
        result = Result(Ended.LOST)
        for _ in range(ATTEMPTS):
            box = self._kept.get(role)
            if box is None or box.spent:
                box = self._kept[role] = await self.box()
            result = await box.run(job, limits)
            if result.ended is not Ended.LOST:
                break
        return result

    async def is_sound(self, memory_bytes: int = 0) -> bool:
        """Whether a harmless program that uses so much memory runs."""
        limits = Limits(memory_bytes=2 * memory_bytes + 256 * MIB)
        control = await self.run(Job(source=f"b'x' * {memory_bytes}"), limits)
        return control.ended not in (Ended.LOST, Ended.KILLED)

    async def _close(self) -> None:
        await asyncio.gather(*(box.close() for box in self._boxes))


class Pool:
    r"""Runs untrusted programs, at most `slots` pieces of work at a time; the others queue, in order.

    Safe from any thread and event loop. By default it has one more slots than processors. Python programs can
    import `modules` (source by name).

    Example:
        >>> pool = Pool()
        >>> asyncio.run(pool.run("print(6 * 7)")).stdout
        b'42\n'
        >>> asyncio.run(pool.aclose())
    """

    IDLE_SECONDS = 5.0

    def __init__(
        self,
        backend: str | Backend = "auto",
        *,
        slots: int | None = None,
        modules: Mapping[str, str] | None = None,
    ) -> None:
        self.capacity = slots or len(os.sched_getaffinity(0)) + 1
        self.modules = dict(modules or {})
        self._wanted = backend
        self._reset()

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(Pool, slots=self.capacity, modules=self.modules), (self._wanted,)

    def __deepcopy__(self, memo: object) -> "Pool":
        """Copies share one pool: processes are machinery, not state."""
        return self

    def _reset(self) -> None:
        self._owner = os.getpid()
        self._queue = asyncio.Semaphore(self.capacity)
        self._resolving, self._starting = asyncio.Lock(), asyncio.Lock()
        self._backend: Backend | None = None
        self._spawner: Spawner | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._expiry: asyncio.TimerHandle | None = None

    async def run(
        self,
        program: Job | str | Sequence[str],
        stdin: bytes | str = b"",
        files: Mapping[str, bytes] | None = None,
        limits: Limits | None = None,
    ) -> Result:
        """Run one program; see `mars_env.sandbox.run`."""
        job = job_of(program, stdin, files or {})
        return await self.use(lambda lease: lease.run(job, limits or Limits()))

    async def session(
        self, program: Job | str | Sequence[str], channel: socket.socket, limits: Limits | None = None
    ) -> Result:
        """Run one program to its end; while it runs, it talks over `channel` (its file descriptor 4).

        It is one end of a `socket.socketpair()`, and is closed here. A lost run is not tried again.
        """
        job = job_of(program, b"", {})

        async def work(lease: Lease) -> Result:
            if not lease.backend.channels:
                raise SandboxError(f"the sandbox {lease.backend.name} has no channels to running programs")
            return await (await lease.box()).run(job, limits or Limits(), channel)

        return await self.use(work)

    async def use(self, work: Callable[[Lease], Awaitable[T]]) -> T:
        """Wait for a slot, then await ``work(lease)`` on the sandboxes' own event loop."""
        return await on_service_loop(self._use(work))

    async def backend(self) -> Backend:
        """The backend in use; ``"auto"`` is resolved at the first call."""
        return await on_service_loop(self._resolve())

    async def aclose(self) -> None:
        """Wait for the work in progress, then end the fork server. The pool can be used again."""
        await on_service_loop(self._aclose())

    async def _use(self, work: Callable[[Lease], Awaitable[T]]) -> T:
        if self._owner != os.getpid():
            self._reset()  # a forked child: the sandboxes are its parent's
        try:
            lease = Lease(self, await self._resolve())
            async with self._queue:
                try:
                    outcome = await work(lease)
                except BaseException:
                    await asyncio.shield(lease._close())
                    raise
                self._spawn(lease._close())
                return outcome
        finally:
            if self._expiry is not None:
                self._expiry.cancel()
            self._expiry = asyncio.get_running_loop().call_later(self.IDLE_SECONDS, self._retire)

    async def _resolve(self) -> Backend:
        async with self._resolving:
            if self._backend is None:
                self._backend = await find_backend(self._wanted)
            return self._backend

    async def _box(self, backend: Backend) -> Box:
        for attempt in range(ATTEMPTS - 1):
            with suppress(SandboxError):
                return await (await self._started(backend)).box()
            await asyncio.sleep(0.02 * 2**attempt)
        return await (await self._started(backend)).box()

    async def _started(self, backend: Backend) -> Spawner:
        async with self._starting:
            if self._spawner is not None and self._spawner.spent:
                self._retire()
            if self._spawner is None:
                self._spawner = await backend.start(self.modules)
            return self._spawner

    def _retire(self) -> None:
        """Let the fork server end once its boxes are closed."""
        if self._expiry is not None:
            self._expiry.cancel()
        if self._spawner is not None:
            self._spawn(self._spawner.close())
        self._spawner = None

    async def _aclose(self) -> None:
        if self._owner != os.getpid():
            self._reset()
        self._retire()
        while self._tasks:
            await asyncio.gather(*self._tasks)

    def _spawn(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


_shared: dict[object, Pool] = {}


async def run(
    program: Job | str | Sequence[str],
    stdin: bytes | str = b"",
    files: Mapping[str, bytes] | None = None,
    limits: Limits | None = None,
    backend: str | Backend = "auto",
) -> Result:
    r"""Run one untrusted program to its end.

    Args:
        program: Python source as a string, a command as a list of strings, or a `Job`.
        stdin: Its whole standard input.
        files: Files to write into its working directory first, by relative path.
        limits: By default `Limits()`.
        backend: ``"auto"``, a name from `mars_env.sandbox.BACKENDS`, ``"remote:<address>"``, or an object.

    A `SandboxError` if no sandbox works here; it says what to install.

    Example:
        >>> result = asyncio.run(run("print(sum(map(int, input().split())))", stdin="1 2 3"))
        >>> result.stdout, result.ended.value
        (b'6\n', 'exited')
    """
    pool = _shared.setdefault(backend, Pool(backend))
    return await pool.run(program, stdin, files, limits)


async def close() -> None:
    """End the fork servers of the pools behind `run`."""
    await asyncio.gather(*(pool.aclose() for pool in _shared.values()))
