"""Inside the walls: a fork server, the boxes that it forks, and the programs that they fork.

The server imports what programs use, then waits; each order makes it fork a box, which drops all privileges
and waits for programs; each runs in a fork. From inside, neither the server nor another box can be seen.

An order to the server is one packet of marshalled plain data, with the control socket of the new box. An
order to a box is one packet with the file descriptors ``request, stdin, stdout, stderr, data[, channel]``; a
report is one line of ASCII. When a control socket is closed, its listener ends.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import _socket
import builtins
import fcntl
import marshal
import os
import resource
import select
import struct
import sys
from time import monotonic as clock

from mars_env.sandbox.inside import folders, kernel, questions
from mars_env.sandbox.inside.program import open_streams, preload, run_child
from mars_env.sandbox.inside.watch import CALM_MS, Look, Usage, Watch, exceeded, idle_time, pause

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing is slow to import
    from typing import Any

FIRST_FD = 10
_PER_USER = {11: 64, 12: 0, 13: 0, 14: 0}
"""Limits of pending signals, message queues, niceness and real-time priority; `resource` lacks some names."""


class _Server:
    def __init__(self, config: dict[str, Any]) -> None:
        self.config = config
        # Lower descriptor numbers are reserved for programs; all that the server or a box receives is above.
        self.control = _socket.socket(fileno=fcntl.fcntl(config["control"], fcntl.F_DUPFD_CLOEXEC, FIRST_FD))
        for fd in range(3, FIRST_FD):
            os.dup2(0, fd)
        self.children = False
        self.me = os.getpid()
        os.environ.clear()
        os.environ.update(config["environment"])
        # The first process of a name space receives only signals that it handles; Python handles SIGINT.
        _signal.signal(_signal.SIGINT, _signal.SIG_IGN)
        _signal.signal(_signal.SIGCHLD, _signal.SIG_DFL)  # the parent may have ignored its children
        with open("/proc/self/oom_score_adj", "w") as file:  # first choice of the host's OOM killer
            file.write("1000")
        os.umask(0o022)
        # The kernel counts timers and queued signals per user, and that user's other programs need them too.
        for which, value in {resource.RLIMIT_CORE: 0, **_PER_USER}.items():
            kernel.set_limit(which, value)
        kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
        if config["namespaces"]:
            self.own_pids = os.open("/proc/self/ns/pid", os.O_RDONLY)
            # A box writes its user id maps here: it cannot write to its own ``/proc``.
            config["proc"] = os.open("/proc", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        else:
            kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
        if "landlock" in config:
            config["landlock"] = kernel.landlock_rules(**config["landlock"])
        open_streams()
        preload(config["modules"], config["packages"])
        config["own_bytes"] = fork_memory()

    def serve(self) -> None:
        self.control.send(b"ready")
        poll = select.poll()
        poll.register(self.control.fileno(), select.POLLIN)
        while True:
            ready = poll.poll(1000 if self.children else None)
            self.collect()
            if ready:
                message, ancillary, _, _ = self.control.recvmsg(65536, 64)
                if not message:
                    return
                ((_, _, data),) = ancillary
                self.fork_box(marshal.loads(message), struct.unpack("i", data)[0])

    def collect(self) -> None:
        """Collect boxes that have ended and, without name spaces, what killed boxes left behind."""
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            self.children = False

    def fork_box(self, order: dict[str, Any], control: int) -> None:
        try:
            if self.config["namespaces"]:
                # The next fork starts a new name space; afterwards, later forks must use the server's again.
                kernel.libc_call("setns", self.own_pids, kernel.CLONE_NEWPID)
                kernel.libc_call("unshare", kernel.CLONE_NEWPID)
            pid = os.fork()
        except OSError as error:
            os.write(control, f"error {error}".encode())
        else:
            if pid == 0:
                self.become_box(order, control)
            self.children = True
        os.close(control)

    def become_box(self, order: dict[str, Any], control: int) -> None:
        try:
            self.control.close()
            if self.config["namespaces"]:
                os.close(self.own_pids)
            else:
                kernel.prctl(kernel.PR_SET_PDEATHSIG, _signal.SIGKILL)
                if os.getppid() != self.me:
                    os._exit(1)
            box = _Box(self.config, order, control)
        except BaseException as error:
            os.write(control, f"error {type(error).__name__}: {error}".encode()[:400])
            os._exit(1)
        box.serve()
        os._exit(0)


class _Box:
    """The first process of a box: its state, set up before any program is known."""

    def __init__(self, config: dict[str, Any], order: dict[str, Any], control: int) -> None:
        self.control = _socket.socket(fileno=control)
        self.namespaces = config["namespaces"]
        self.workdir = order["workdir"]
        self.main = f"{self.workdir}/main.py"
        self.folders = config["folders"] if self.namespaces else [self.workdir]
        self.confine, self.filter = config.get("confine", True), config.get("seccomp")
        self.count_processes = config.get("count_processes")
        self.ruleset, self.listener = None, -1
        self.me = os.getpid()
        self.pidfd = kernel.open_pidfd(self.me)
        if self.namespaces:
            kernel.unshare(config, order["uid"])
            os.close(config["proc"])
        else:
            kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
        if self.confine:
            if "landlock" in config:
                self.ruleset = kernel.landlock_ruleset(config["landlock"], self.workdir)
            kernel.drop_capabilities()
            kernel.prctl(kernel.PR_SET_DUMPABLE, 0)
        if "asks" in config:
            # Loaded once: it names no process, and each child inherits it.
            fd = kernel.load_filter(config["asks"], kernel.SECCOMP_NEW_LISTENER)
            self.listener = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, FIRST_FD)
            os.close(fd)
        os.environ["HOME"] = os.environ["TMPDIR"] = self.workdir
        os.chdir(self.workdir)
        self.own_module = sys.modules["__main__"]  # a reference, so that this module stays alive
        main = sys.modules["__main__"] = type(sys)("__main__")  # for programs; each fork has a copy
        main.__file__ = self.main
        vars(main)["__builtins__"] = builtins
        sys.path.insert(0, self.workdir)
        self.poll = select.poll()
        self.poll.register(control, select.POLLIN)
        if self.listener >= 0:
            self.poll.register(self.listener, select.POLLIN)
        self.watch = Watch(self.me, self.namespaces, self.folders, config["own_bytes"])

    def serve(self) -> None:
        # With the pidfd, the host can wait until this process and its whole name space have ended.
        rights = (_socket.SOL_SOCKET, _socket.SCM_RIGHTS, struct.pack("i", self.pidfd))
        self.control.sendmsg([b"ready"], [rights])
        os.close(self.pidfd)
        while True:
            message, ancillary, _, _ = self.control.recvmsg(16, 1024)
            if not message:
                return
            fds = [fd for _, _, data in ancillary for (fd,) in struct.iter_unpack("i", data)]
            request = fds.pop(0)
            order = marshal.loads(os.pread(request, os.fstat(request).st_size, 0))
            os.close(request)
            self.control.send(self.run(order, fds))

    def put_files(self, request: dict[str, Any]) -> None:
        for path, content in request["files"].items():
            if "/" in path:
                os.makedirs(os.path.dirname(path), exist_ok=True)
            folders.write_file(path, content)
        if request["source"] is not None:
            folders.write_file(self.main, request["source"])

    def run(self, request: dict[str, Any], fds: list[int]) -> bytes:
        """Run one order in a fork; returns the report line."""
        started = clock()
        for target, fd in enumerate(fds):
            os.dup2(fd, target)
            os.close(fd)
        try:
            self.put_files(request)
            self.watch.exclude_files()
        except OSError as error:
            return f"0 lost 0 0 0 1 its files could not be written: {error}".encode()
        failure_r, failure_w = os.pipe()
        pid = os.fork()
        if pid == 0:
            run_child(self, request, len(fds), failure_w)
        os.close(failure_w)
        status, usage, reason = self.supervise(pid, request["limits"], started)
        wall = clock() - started
        self.kill_and_collect(usage)
        failure = os.read(failure_r, 400)
        os.close(failure_r)
        spent = self.wipe()
        if not reason:  # it ended between two looks
            seen = Look()
            seen.memory = usage.peak_kib * 1024 - self.watch.own_bytes
            reason = exceeded(request["limits"], seen, usage)
        reason = "lost" if failure else reason or "-"
        code = os.waitstatus_to_exitcode(status)
        return f"{code} {reason} {usage.cpu} {wall} {usage.peak_kib} {int(spent)} ".encode() + failure

    def supervise(self, pid: int, limits: dict[str, Any], started: float) -> tuple[int, Usage, str]:
        """Wait for the program's end, or kill it at a limit; returns status, usage and the limit's name."""
        usage, slept, before, reason = Usage(), 0.0, started, ""
        doubtful, wait = "", float(CALM_MS)
        pidfd = kernel.open_pidfd(pid)
        self.poll.register(pidfd, select.POLLIN)
        try:
            while True:
                status = self.reap(pid, usage)
                if status is not None:
                    return status, usage, reason
                events = dict(self.poll.poll(wait))
                self.attend(events, usage)
                if reason:
                    self.kill_all()  # whatever was started since
                now = clock()
                if reason or pidfd in events or (events and now - before < wait / 1000):
                    continue
                seen = self.watch.look(limits)
                if seen.asleep:
                    slept += idle_time(now - before, wait)
                before = now
                wait = pause(limits, seen)
                limit = exceeded(limits, seen, usage)
                if limit in ("cpu", "memory") and seen.tasks > 1 and limit != doubtful:
                    # One look may count something twice: a process that becomes another one, or a child's
                    # time that its parent has already been given. The next look does not.
                    doubtful, wait = limit, 1.0
                    continue
                reason, doubtful = limit, ""
                if not reason and (now - started > limits["wall_seconds"] or slept > limits["idle_seconds"]):
                    reason = "wall"
                if reason:
                    self.kill_all()
        finally:
            self.poll.unregister(pidfd)
            os.close(pidfd)

    def attend(self, events: dict[int, int], usage: Usage) -> None:
        if self.control.fileno() in events:  # closed: the host is gone
            self.kill_and_collect(usage)
            self.wipe()
            os._exit(0)
        if self.listener in events:
            questions.answer(self.listener)

    def reap(self, pid: int, usage: Usage, flags: int = os.WNOHANG) -> int | None:
        """Collect ended processes; returns the status of `pid` if it is one of them."""
        while True:
            dead, status, spent = os.wait4(-1, flags)
            if dead == 0:
                return None
            usage.add(spent)
            if dead == pid:
                return status

    def kill_all(self) -> None:
        # In a name space, -1 is everything except this process, in one step.
        for pid in (-1,) if self.namespaces else self.watch.members():
            try:
                os.kill(pid, _signal.SIGKILL)
            except ProcessLookupError:
                continue  # it ended meanwhile, or nothing is left

    def kill_and_collect(self, usage: Usage) -> None:
        deadline = clock() + 10
        while clock() < deadline:
            self.kill_all()
            try:
                self.reap(-1, usage, 0 if self.namespaces else os.WNOHANG)
            except ChildProcessError:
                return
            select.select([], [], [], 0.001)
        os._exit(1)  # the host sees that the sandbox broke, and kills what is left

    def wipe(self) -> bool:
        """Empty the writable folders; returns True if that failed: it must then not run a second program."""
        try:
            for folder in self.folders:
                folders.empty(folder)
        except (OSError, MemoryError):
            return True
        return False


def fork_memory() -> int:
    """Bytes of memory that a fork of this process starts with."""
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    return os.wait4(pid, 0)[2].ru_maxrss * 1024


def _main(config: dict[str, Any]) -> None:
    _Server(config).serve()
    os._exit(0)
