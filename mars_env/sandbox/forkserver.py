"""The host's side of the fork server inside the walls: starts it, orders boxes, ends it."""

from __future__ import annotations
import __future__

import asyncio
import atexit
import contextlib
import functools
import marshal
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from mars_env.errors import SandboxError
from mars_env.sandbox.box import CLOSE_SECONDS, LocalBox, in_thread, memory_file, read_file, until_readable

if TYPE_CHECKING:
    from mars_env.sandbox.backends import Backend

START_SECONDS = 60.0  # on an idle machine the server takes about 30 ms, a box 2 ms
_AT_ONCE = 16  # boxes that are started at a time; more would only wait for each other
ENVIRONMENT = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "LANG": "C.UTF-8",
    "PYTHONHASHSEED": "0",  # the order of a set must not change a verdict
    "MALLOC_ARENA_MAX": "2",  # or each thread reserves 64 MiB of address space
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
}


def interpreter() -> str:
    """The base interpreter, outside any virtual environment; it runs inside sandboxes."""
    return os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)


_INSIDE = ("folders", "kernel", "watch", "questions", "program", "boot")  # each after those that it imports


@functools.cache
def _compiled_module(name: str, source: str) -> bytes:
    # Postpone annotations with a compiler flag: importing __future__ would cost time at each start.
    source = source.replace("\nfrom __future__ import annotations\n", "\n\n")
    flags = __future__.annotations.compiler_flag
    return marshal.dumps(compile(source, f"<{name}>", "exec", flags=flags, dont_inherit=True))


@functools.cache
def _inside() -> list[tuple[str, bytes]]:
    folder, package = Path(__file__).with_name("inside"), "mars_env.sandbox.inside"
    sources = {f"{package}.{name}": (folder / f"{name}.py").read_text(encoding="utf-8") for name in _INSIDE}
    # The package itself is empty, apart from what its modules put into it.
    return [(name, _compiled_module("sandbox", source)) for name, source in {package: "", **sources}.items()]


_STUB = """
import marshal, sys
with open({fd}, "rb") as file:
    inside, config = marshal.load(file)
for name, code in inside:
    module = sys.modules[name] = type(sys)(name)
    exec(marshal.loads(code), vars(module))
for name, _ in inside:
    del sys.modules[name]
del name, code, inside
module._main(config)
"""


_servers: set[ForkServer] = set()
_gate = threading.Lock()
_closed = False


def _open_gate() -> None:
    global _gate
    _gate = threading.Lock()  # in a forked child: another thread may have held it
    _servers.clear()  # they are its parent's


os.register_at_fork(after_in_child=_open_gate)


@atexit.register
def _end_all() -> None:
    global _closed
    with _gate:
        _closed = True
        servers = list(_servers)
        boxes = [box for server in servers for box in server.boxes]
    for box in boxes:
        box.ask_to_end()
    for box in boxes:
        box.end_now()
    for server in servers:
        server.end_now()


class ForkServer:
    """An interpreter behind a wall, from which boxes are forked; use it when it is ready. See `inside.boot`.

    The wall is a command that runs the command line appended to it, empty if there is none. With `folders`,
    each box has its own folder on the host; with `own_users`, a user of its own, which only root can arrange.
    """

    def __init__(
        self,
        backend: Backend,
        wall: Sequence[str],
        config: Mapping[str, Any],
        modules: Mapping[str, str],
        *,
        folders: bool = False,
        own_users: bool = False,
    ) -> None:
        self.boxes: set[LocalBox] = set()
        self._backend, self._folders, self._own_users = backend, folders, own_users
        self._at_once = asyncio.Semaphore(_AT_ONCE)
        self._unused = asyncio.Event()
        self._unused.set()
        self._closing: asyncio.Task[None] | None = None
        self._ending = threading.Lock()
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control.setblocking(False)
        self._errors = memory_file(b"")
        compiled = {name: _compiled_module(name, source) for name, source in modules.items()}
        full = {**config, "modules": compiled, "control": theirs.fileno(), "environment": ENVIRONMENT}
        code = memory_file(marshal.dumps((_inside(), full), 2))
        try:
            self._process = subprocess.Popen(
                [*wall, interpreter(), *["-s", "-S", "-P", "-B", "-X", "utf8", "-c"], _STUB.format(fd=code)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._errors,
                # A clean environment: the name space's first process shows it in /proc/1/environ. LD_BIND_NOW
                # binds symbols once here instead of in each fork.
                env={**ENVIRONMENT, "LD_BIND_NOW": "1"},
                cwd="/",
                pass_fds=[theirs.fileno(), code],
                start_new_session=True,
            )
        except OSError as error:
            self._control.close()
            os.close(self._errors)
            raise SandboxError(f"the {backend.name} sandbox cannot be started: {error}") from error
        finally:
            theirs.close()
            os.close(code)
        _servers.add(self)

    @property
    def spent(self) -> bool:
        """Whether it can start no more boxes."""
        return self._closing is not None or _has_ended(self._process.pid)

    async def ready(self) -> Self:
        """Itself, once it can take orders; a `SandboxError` says what it reported."""
        line = b""
        with contextlib.suppress(OSError):  # it has ended
            if await until_readable(self._control.fileno(), START_SECONDS):
                line = self._control.recv(100)
        if line != b"ready":
            report = read_file(self._errors, 2000).decode(errors="replace").strip().splitlines()
            await self.close()
            why = report[-1] if report else "no message"
            raise SandboxError(f"the {self._backend.name} sandbox did not start: {why}")
        return self

    async def box(self) -> LocalBox:
        """Fork a box and wait until it can take a job; see `mars_env.sandbox.Spawner`."""
        if self.spent:
            raise SandboxError(f"the {self._backend.name} sandbox has ended")
        with _gate:
            if _closed:
                raise SandboxError("the interpreter is shutting down and starts no more sandboxes")
            workdir = tempfile.mkdtemp(prefix=f"mars-env-sandbox-{os.getpid()}-") if self._folders else None
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            ours.setblocking(False)
            box = LocalBox(self._backend, ours, workdir, self._forget)
            self.boxes.add(box)
        self._unused.clear()
        # A user id of its own: the kernel's process count for it covers this box alone.
        uid = random.SystemRandom().randrange(1 << 30, 1 << 31) if self._own_users else None
        order = marshal.dumps({"workdir": workdir or "/tmp", "uid": uid}, 2)
        try:
            async with self._at_once:
                try:
                    socket.send_fds(self._control, [order], [theirs.fileno()])
                except OSError as error:
                    raise SandboxError(f"the {self._backend.name} sandbox has ended ({error})") from error
                finally:
                    theirs.close()
                await box.ready(START_SECONDS)
        except BaseException:
            await box.close()
            raise
        return box

    def _forget(self, box: LocalBox) -> None:
        self.boxes.discard(box)
        if not self.boxes:
            self._unused.set()

    async def close(self) -> None:
        """Start no more boxes, and end once all started ones are closed. Idempotent."""
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        await self._unused.wait()
        await in_thread(self.end_now)
        self._control.close()
        os.close(self._errors)

    def end_now(self) -> None:
        """Kill it and everything that it has forked, and wait until it is gone."""
        with self._ending:
            if self not in _servers:
                return
            with contextlib.suppress(OSError):  # it is closed, or the other end is gone
                self._control.shutdown(socket.SHUT_RDWR)
            deadline = time.monotonic() + CLOSE_SECONDS
            while not _has_ended(self._process.pid) and time.monotonic() < deadline:
                time.sleep(0.001)
            _kill_tree(self._process.pid)
            # Waits until the outer process has been collected, and with it the name space's first process.
            self._process.wait()
            _servers.discard(self)


def _has_ended(pid: int) -> bool:
    """Whether a child of this process has ended. It is not collected, so its pid is not reused."""
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True


def _kill_tree(pid: int) -> None:
    """Kill a child of this process that leads a process group, with its children and its group.

    A name space dies with its first process; a child that cannot yet notice this is still in the group.
    """
    children: list[str] = []
    with contextlib.suppress(OSError):  # it has ended, or the kernel does not list children
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    for target in (*map(int, children), -pid):
        with contextlib.suppress(ProcessLookupError, PermissionError):  # it has ended meanwhile
            os.kill(target, signal.SIGKILL)
