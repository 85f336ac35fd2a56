"""The host's side of a local sandbox: gives orders to a box that a fork server has made, and ends it."""

import asyncio
import contextlib
import ctypes
import fcntl
import marshal
import os
import select
import signal
import socket
import threading
import warnings
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mars_env.errors import SandboxError
from mars_env.sandbox.inside import folders
from mars_env.sandbox.jobs import Job
from mars_env.sandbox.limits import Ended, Guarantee, Limits, Result

if TYPE_CHECKING:
    from mars_env.sandbox.backends import Backend

GRACE_SECONDS = 30.0  # a run that takes so much longer than its wall limit has lost its sandbox
CLOSE_SECONDS = 2.0  # a closed sandbox that takes longer to end is killed; it usually takes a millisecond
_PIDFD_SEND_SIGNAL = 424  # its number on all machines; interpreters built for old systems lack the function


class LocalBox:
    """A box with `boot` waiting in it; see `mars_env.sandbox.Box`."""

    def __init__(
        self,
        backend: "Backend",
        control: socket.socket,
        workdir: str | None,
        forget: "Callable[[LocalBox], None]",
    ) -> None:
        self.spent = False
        self._name, missing = backend.name, frozenset(Guarantee) - backend.guarantees
        self._result = partial(Result, backend=backend.name, missing=missing)
        self._control, self._workdir, self._forget = control, workdir, forget
        self._pidfd: int | None = None
        self._closing: asyncio.Task[None] | None = None
        self._ending = threading.Lock()  # at exit the main thread ends it, too

    async def run(self, job: Job, limits: Limits, channel: socket.socket | None = None) -> Result:
        """Run one job to its end; see `mars_env.sandbox.Box`. Cancelling kills the program."""
        self.spent, reusable = True, False
        request = memory_file(marshal.dumps(_request(job, limits), 2))
        files = [memory_file(job.stdin, grows=False), *(memory_file(b"") for _ in range(3))]
        try:
            fds = [request, *files, *([] if channel is None else [channel.fileno()])]
            try:
                socket.send_fds(self._control, [b"run"], fds)
                async with asyncio.timeout(limits.wall + GRACE_SECONDS):
                    line = await asyncio.get_running_loop().sock_recv(self._control, 2000)
            except (OSError, TimeoutError) as error:
                return self._result(Ended.LOST, detail=f"the sandbox did not answer ({type(error).__name__})")
            if not line:
                return self._result(Ended.LOST, detail="the sandbox ended while the program ran")
            code, reason, cpu, wall, peak, spent, *failure = line.decode().split(" ", 6)
            if reason == "lost":
                return self._result(Ended.LOST, detail=f"the program could not be started: {failure[0]}")
            reusable = spent == "0"
            status = int(code)  # below 0: the number of a signal
            stdout, stderr, data = (read_file(fd, limits.output_bytes) for fd in files[1:])
            ended = Ended.KILLED if status < 0 else Ended.EXITED
            if any(os.fstat(fd).st_size > limits.output_bytes for fd in files[1:]):
                ended = Ended.OUTPUT
            elif reason != "-":
                ended = Ended[reason.upper()]
            return self._result(
                ended,
                exit_code=status if ended is Ended.EXITED else None,
                signal=-status if status < 0 else None,
                stdout=stdout,
                stderr=stderr,
                data=data,
                cpu_seconds=float(cpu),
                wall_seconds=float(wall),
                peak_memory=int(peak) * 1024,
            )
        finally:
            self.spent = not reusable
            for fd in (request, *files):
                os.close(fd)
            if channel is not None:
                with contextlib.suppress(OSError):  # the other end is closed
                    channel.shutdown(socket.SHUT_RDWR)
                channel.close()

    async def ready(self, seconds: float) -> None:
        """Wait until it can take a job; a `SandboxError` says what it reported."""
        line, fds = b"", list[int]()
        with contextlib.suppress(OSError):  # it has ended
            if await until_readable(self._control.fileno(), seconds):
                line, fds, _, _ = socket.recv_fds(self._control, 500, 1)
        if line == b"ready" and fds:
            self._pidfd = fds[0]
            return
        report = line.decode(errors="replace").removeprefix("error ")
        raise SandboxError(f"the {self._name} sandbox did not start: {report or 'no message'}")

    async def close(self) -> None:
        """Kill everything in it and wait until all is gone. Idempotent."""
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        self.ask_to_end()
        # The first process of its name space ends only after all the others.
        if self._pidfd is None or await until_readable(self._pidfd, CLOSE_SECONDS):
            self.end_now()
        else:
            await in_thread(self.end_now)
        with self._ending:
            self._control.close()
            if self._pidfd is not None:
                os.close(self._pidfd)
            self._pidfd = None
        self._forget(self)

    def ask_to_end(self) -> None:
        """Tell it to kill and collect all that runs in it, and then to end."""
        self.spent = True
        with contextlib.suppress(OSError):  # it has ended
            self._control.shutdown(socket.SHUT_RDWR)

    def end_now(self) -> None:
        """End it, by force if it takes too long, and remove its folder; blocks, and needs no event loop.

        File descriptors stay open: at interpreter exit the loop may still be waiting for them.
        """
        self.ask_to_end()
        with self._ending:
            if self._pidfd is not None and not _has_ended(self._pidfd):
                ctypes.CDLL(None).syscall(_PIDFD_SEND_SIGNAL, self._pidfd, int(signal.SIGKILL), None, 0)
                _has_ended(self._pidfd)
            if self._workdir is not None:
                _remove_folder(self._workdir)
            self._workdir = None


async def in_thread(function: Callable[[], None]) -> None:
    """Call a blocking function without blocking the loop; at interpreter exit, call it directly."""
    try:
        future = asyncio.get_running_loop().run_in_executor(None, function)
    except RuntimeError:  # threads can no longer be started
        function()
    else:
        await future


async def until_readable(fd: int, seconds: float) -> bool:
    """Wait at most `seconds` until a file descriptor is readable (a pidfd: until the process has ended)."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(fd, ready.set)
    try:
        async with asyncio.timeout(seconds):
            await ready.wait()
    except TimeoutError:
        return False
    finally:
        loop.remove_reader(fd)
    return True


def _has_ended(pidfd: int) -> bool:
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(1000 * CLOSE_SECONDS))


def memory_file(content: bytes, *, grows: bool = True) -> int:
    """A descriptor of an anonymous file with this content, at its start; `grows`: it may become larger."""
    fd = os.memfd_create("mars-env", os.MFD_CLOEXEC | (0 if grows else os.MFD_ALLOW_SEALING))
    with open(fd, "wb", closefd=False) as file:
        file.write(content)
    os.lseek(fd, 0, os.SEEK_SET)
    if not grows:
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_GROW)
    return fd


def read_file(fd: int, limit: int) -> bytes:
    """The first `limit` bytes of an anonymous file."""
    return os.pread(fd, min(os.fstat(fd).st_size, limit), 0)


def _remove_folder(path: str) -> None:
    """Remove a folder that a program could write to, whatever it left there; warn if that fails."""
    try:
        folders.remove(path)
    except OSError as error:
        if Path(path).is_dir():  # otherwise the exit handler has just removed it
            warnings.warn(f"the folder {path} could not be removed: {error}", RuntimeWarning, stacklevel=2)


def _request(job: Job, limits: Limits) -> dict[str, Any]:
    numbers = {**asdict(limits), "wall_seconds": limits.wall, "idle_seconds": limits.idle}
    return {
        "source": job.source_bytes,
        "argv": None if job.argv is None else list(job.argv),
        "arguments": list(job.arguments),
        "files": dict(job.files),
        "environment": dict(job.environment),
        "limits": {k: float(n) if k.endswith("_seconds") else int(n) for k, n in numbers.items()},
    }
