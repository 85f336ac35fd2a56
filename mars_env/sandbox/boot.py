"""Inside the walls: a fork server, the boxes that it forks, and the programs that they fork.

This file's code object is sent behind the walls and run there by a bare interpreter (``python -s -S``),
so it imports nothing of the library, and only modules that start fast.

- `Server` is started once. It imports what programs use, then waits; each order makes it fork a `Box`.
  It never sees a program or its input.
- `Box` puts itself into name spaces of its own (processes, files, network) or behind Landlock, gives up all
  privileges for good, and waits for programs; each runs in a fork. With bubblewrap it is the first
  process of its name space (unkillable from within) and undumpable (not traceable); elsewhere a filter of
  system calls keeps signals and tracing away. Neither the server nor another box can be seen from inside.

Orders to the server are one packet of marshalled plain data from our own process, with the control
socket of the new box. A box takes orders as one packet with the file descriptors ``request, stdin, stdout,
stderr, data[, channel]``; reports are one line of ASCII. The end of a control socket ends who listens to it.
"""

# It starts fast, so it has no pathlib and no typing; running what it is given is what it is for.
# ruff: noqa: PTH103, PTH106, PTH108, PTH112, PTH114, PTH118, PTH120, PTH123, PTH208, S102, SIM115, T201

from __future__ import annotations

import _ctypes
import _signal  # type: ignore[import-not-found]
import _socket
import array
import builtins
import errno
import fcntl
import gc
import marshal
import os
import resource
import select
import struct
import sys
from time import monotonic as clock

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing itself is slow to import
    from typing import Any

PAGE = resource.getpagesize()
TICK = os.sysconf("SC_CLK_TCK")
POLL_MS = 20
FIRST_FD = 10
PRELOADED = ["bisect", "collections", "heapq", "math", "random", "re", "string", "typing"]

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_SET_CHILD_SUBREAPER = 1, 4, 22, 36
PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 24, 38
CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC = 0x00020000, 0x04000000, 0x08000000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000
MS_BIND, MS_REC = 1 << 12, 1 << 14
SYS_LANDLOCK_CREATE, SYS_LANDLOCK_ADD, SYS_LANDLOCK_RESTRICT = 444, 445, 446
SYS_PIDFD_OPEN = 434
OWN_PID = (0x6D617273).to_bytes(4, "little")  # see mars_env.sandbox.seccomp

# The module ctypes takes half as long to import as the interpreter to start; calls with integers and
# bytes need no more than what it is made of.
_libc = _ctypes.dlopen(None, 0)  # type: ignore[arg-type]
_functions: dict[str, int] = {}


def call(name: str, *arguments: Any) -> int:
    """Call a function of libc with integers and bytes.

    Raises:
        OSError: It says that it failed.
    """
    if name not in _functions:
        _functions[name] = _ctypes.dlsym(_libc, name)
    result: int = _ctypes.call_function(_functions[name], arguments)
    if result < 0:
        raise OSError(f"{name}{arguments[:1]} failed")
    return result


def prctl(option: int, argument: int, pointer: bytes | int = 0) -> None:
    """Set an attribute of this process."""
    call("prctl", option, argument, pointer, 0, 0)


class Server:
    """The fork server: an interpreter that is warm, and from which boxes are forked.

    What boxes would each do alike is done here: what is first touched after a fork is copied, page by page.
    """

    def __init__(self, config: dict[str, Any]) -> None:
        self.config = config
        # The numbers below are for programs; so whatever we or a box are sent lies above.
        self.control = _socket.socket(fileno=fcntl.fcntl(config["control"], fcntl.F_DUPFD_CLOEXEC, FIRST_FD))
        config["null"] = fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, FIRST_FD)
        for fd in range(3, FIRST_FD):
            os.dup2(0, fd)
        self.children = False
        self.me = os.getpid()
        os.environ.clear()
        os.environ.update(config["environment"])
        # The first process of a name space gets only signals that it handles; Python handles this one.
        _signal.signal(_signal.SIGINT, _signal.SIG_IGN)
        with open("/proc/self/oom_score_adj", "w") as file:  # the host's memory killer takes us first
            file.write("1000")
        os.umask(0o022)
        set_limit(resource.RLIMIT_CORE, 0)
        prctl(PR_SET_NO_NEW_PRIVS, 1)
        if config["namespaces"]:
            self.own_pids = os.open("/proc/self/ns/pid", os.O_RDONLY)
            config["mounts"] = [mount_arguments(*mount) for mount in config["mounts"]]
        else:
            prctl(PR_SET_CHILD_SUBREAPER, 1)
        if config["landlock"] is not None:
            config["landlock"] = landlock_rules(**config["landlock"])
        open_streams()
        preload(config["modules"])
        config["own_pages"] = resident_pages(self.me)

    def serve(self) -> None:
        """Fork boxes until the control socket ends."""
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
        """Collect boxes that have ended; and, without name spaces, what killed ones have left to us."""
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            self.children = False

    def fork_box(self, order: dict[str, Any], control: int) -> None:
        """Fork a box, which serves `control` until that ends."""
        try:
            if self.config["namespaces"]:
                # The next fork is the first process of a new name space; ours must be set back before.
                call("setns", self.own_pids, CLONE_NEWPID)
                call("unshare", CLONE_NEWPID)
            pid = os.fork()
        except OSError as error:
            os.write(control, f"error {error}".encode())
        else:
            if pid == 0:
                self.become_box(order, control)
            self.children = True
        os.close(control)

    def become_box(self, order: dict[str, Any], control: int) -> None:
        """In the fork: set the box up and serve. Never returns."""
        try:
            self.control.close()
            if self.config["namespaces"]:
                os.close(self.own_pids)
            else:
                prctl(PR_SET_PDEATHSIG, _signal.SIGKILL)
                if os.getppid() != self.me:
                    os._exit(1)
            box = Box(self.config, order, control)
        except BaseException as error:
            os.write(control, f"error {type(error).__name__}: {error}".encode()[:400])
            os._exit(1)
        box.serve()
        os._exit(0)


def unshare(config: dict[str, Any], uid: int | None) -> None:
    """Name spaces of the box's own, and empty folders to write to. That of processes is there already.

    Started by root we become the user `uid`. An ordinary user gets a name space of users too, so that the
    kernel counts the processes of each box apart.
    """
    call("unshare", CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWNET)
    for arguments in config["mounts"]:
        call("mount", *arguments)
    for kept, path in config["shown"].items():
        os.makedirs(path if os.path.isdir(kept) else os.path.dirname(path), exist_ok=True)
        if not os.path.isdir(kept):
            write_file(path, b"")
        call("mount", *mount_arguments(kept, path, "", MS_BIND | MS_REC))
    if uid is not None:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
        return
    user, group = os.getuid(), os.getgid()
    call("unshare", CLONE_NEWUSER)
    write_file("/proc/self/setgroups", b"deny")
    write_file("/proc/self/uid_map", b"%d %d 1" % (user, user))
    write_file("/proc/self/gid_map", b"%d %d 1" % (group, group))


def mount_arguments(
    source: str, target: str, kind: str, flags: int, data: str = ""
) -> tuple[bytes | int, ...]:
    """What the function mount of libc takes."""
    return source.encode(), target.encode(), kind.encode(), flags, data.encode()


class Box:
    """The first process of a box: its state, set up before any program is known."""

    def __init__(self, config: dict[str, Any], order: dict[str, Any], control: int) -> None:
        self.control = _socket.socket(fileno=control)
        self.namespaces = config["namespaces"]
        self.workdir = order["workdir"]
        self.main = f"{self.workdir}/main.py"
        self.null = config["null"]
        self.folders = config["folders"] if self.namespaces else [self.workdir]
        self.confine = config["confine"]
        self.filter = config["seccomp"]
        self.count_processes = config["count_processes"]
        self.own_pages = config["own_pages"]
        self.ruleset = None
        self.me = os.getpid()
        self.pidfd = open_pidfd(self.me)
        if self.namespaces:
            unshare(config, order["uid"])
        else:
            prctl(PR_SET_CHILD_SUBREAPER, 1)
        if self.confine:
            if config["landlock"] is not None:
                self.ruleset = landlock_ruleset(config["landlock"], self.workdir)
            drop_capabilities()
            prctl(PR_SET_DUMPABLE, 0)
        if self.filter is not None and self.namespaces:
            load_filter(self.filter)  # once: it names no process, and each child inherits it
        os.environ["HOME"] = os.environ["TMPDIR"] = self.workdir
        os.chdir(self.workdir)
        self.make_main()
        self.poll = select.poll()
        self.poll.register(control, select.POLLIN)
        self.disk_before = self.disk_usage()

    def serve(self) -> None:
        """Take orders until the control socket ends."""
        # The asker can wait for our end, and for that of all that is in our name space.
        rights = (_socket.SOL_SOCKET, _socket.SCM_RIGHTS, struct.pack("i", self.pidfd))
        self.control.sendmsg([b"ready"], [rights])
        os.close(self.pidfd)
        while True:
            message, ancillary, _, _ = self.control.recvmsg(16, 1024)
            if not message:
                return
            given = [fd for _, _, data in ancillary for (fd,) in struct.iter_unpack("i", data)]
            request = given.pop(0)
            order = marshal.loads(os.pread(request, os.fstat(request).st_size, 0))
            os.close(request)
            self.control.send(self.run(order, given))

    def make_main(self) -> None:
        """Make the module that programs run in; each has its own copy after the fork."""
        self.own_module = sys.modules["__main__"]  # kept, since it is ours
        main = sys.modules["__main__"] = type(sys)("__main__")
        main.__file__ = self.main
        vars(main)["__builtins__"] = builtins
        sys.path.insert(0, self.workdir)

    def put_files(self, request: dict[str, Any]) -> None:
        """Put a job's files into the working folder, in which no program runs yet."""
        for path, content in request["files"].items():
            if "/" in path:
                os.makedirs(os.path.dirname(path), exist_ok=True)
            write_file(path, content)
        if request["source"] is not None:
            write_file(self.main, request["source"])

    def run(self, request: dict[str, Any], fds: list[int]) -> bytes:
        """Run one order in a fork; the line of report."""
        started = clock()
        for target, fd in enumerate(fds):
            os.dup2(fd, target)
            os.close(fd)
        try:
            self.put_files(request)
        except OSError as error:
            return f"exit 0 lost 0 0 0 1 its files could not be written: {error}".encode()
        failure_r, failure_w = os.pipe()
        pid = os.fork()
        if pid == 0:
            run_child(self, request, len(fds), failure_w)
        os.close(failure_w)
        if len(fds) > 4:  # the channel is the program's alone: its other end must see the program's end
            os.dup2(self.null, 4)
        status, usage, reason = self.supervise(pid, request["limits"], started)
        wall = clock() - started
        self.kill_everything(usage)
        failure = os.read(failure_r, 400)
        os.close(failure_r)
        spent = self.wipe()
        if not reason and usage.cpu > request["limits"]["cpu_seconds"]:
            reason = "cpu"
        how, code = (
            ("signal", os.WTERMSIG(status)) if os.WIFSIGNALED(status) else ("exit", os.WEXITSTATUS(status))
        )
        if failure:
            reason = "lost"
        numbers = f"{int(usage.cpu * 1e6)} {int(wall * 1e6)} {usage.peak_kib}"
        return f"{how} {code} {reason or '-'} {numbers} {int(spent)} ".encode() + failure

    def supervise(self, pid: int, limits: dict[str, Any], started: float) -> tuple[int, Usage, str]:
        """Wait for the program's end, or kill it at a limit: its status, usage and the limit's name."""
        usage, slept, before, reason = Usage(), 0.0, started, ""
        pidfd = open_pidfd(pid)
        self.poll.register(pidfd, select.POLLIN)
        try:
            while True:
                status = self.reap(pid, usage)
                if status is not None:
                    return status, usage, reason
                events = dict(self.poll.poll(POLL_MS))
                if self.control.fileno() in events:  # closed: whoever asked is gone
                    self.kill_everything(usage)
                    self.wipe()
                    os._exit(0)
                if reason:
                    self.kill_all()  # whatever was started since
                if events or reason:
                    continue
                now = clock()
                cpu, pages, count, asleep = self.look()
                slept, before = (slept + now - before if asleep else slept), now
                reason = self.exceeded(limits, usage, cpu, pages, count)
                if not reason and now - started > limits["wall_seconds"]:
                    reason = "wall"
                if not reason and slept > limits["idle_seconds"]:
                    reason = "wall"
                if reason:
                    self.kill_all()
        finally:
            self.poll.unregister(pidfd)
            os.close(pidfd)

    def exceeded(self, limits: dict[str, Any], usage: Usage, cpu: float, pages: int, count: int) -> str:
        """The name of the first limit that is exceeded, or an empty text."""
        if cpu + usage.cpu > limits["cpu_seconds"]:
            return "cpu"
        if pages * PAGE > limits["memory_bytes"]:
            return "memory"
        if count > limits["processes"]:
            return "processes"
        if any(os.fstat(fd).st_size > limits["output_bytes"] for fd in (1, 2, 3)):
            return "output"
        used, files = self.disk_usage(limits["files"] + 1)
        if used - self.disk_before[0] > limits["disk_bytes"]:
            return "disk"
        if files - self.disk_before[1] > limits["files"]:
            return "files"
        return ""

    def members(self) -> list[int]:
        """Pids of everything that the program started and that lives."""
        if self.namespaces:
            return [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != self.me]
        found, frontier = [], [self.me]
        while frontier:
            for child in children(frontier.pop()):
                found.append(child)
                frontier.append(child)
        return found

    def look(self) -> tuple[float, int, int, bool]:
        """CPU seconds, resident pages beyond our own, tasks, and whether all of them sleep."""
        cpu = pages = count = 0
        asleep = True
        for pid in self.members():
            try:
                with open(f"/proc/{pid}/stat", "rb") as file:
                    fields = file.read().rpartition(b")")[2].split()
                if fields[0] in b"ZX":
                    continue
                cpu += sum(map(int, fields[11:15]))
                threads = int(fields[17])
                count += threads
                pages += max(0, int(fields[21]) - self.own_pages)
                asleep = asleep and tasks_asleep(pid, fields[0], threads)
            except (OSError, IndexError):
                continue  # it ended while we looked
        return cpu / TICK, pages, count, asleep

    def disk_usage(self, most_files: int = 1) -> tuple[int, int]:
        """Bytes and files in the folders that programs can write to."""
        if self.namespaces:
            usages = [os.statvfs(folder) for folder in self.folders]
            used = sum((usage.f_blocks - usage.f_bfree) * usage.f_frsize for usage in usages)
            return used, sum(usage.f_files - usage.f_ffree for usage in usages)
        size = files = 0
        frontier = [self.workdir]
        while frontier and files <= most_files:
            try:
                with os.scandir(frontier.pop()) as entries:
                    for entry in entries:
                        files += 1
                        size += entry.stat(follow_symlinks=False).st_blocks * 512
                        if entry.is_dir(follow_symlinks=False):
                            frontier.append(entry.path)
            except OSError:
                continue  # it was removed while we looked
        return size, files

    def reap(self, pid: int, usage: Usage) -> int | None:
        """Collect the dead; the status of `pid` if it is among them."""
        while True:
            try:
                dead, status, spent = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return None
            if dead == 0:
                return None
            usage.add(spent)
            if dead == pid:
                return status

    def kill_all(self) -> None:
        """Send SIGKILL to everything that the program started."""
        if self.namespaces:
            try:
                os.kill(-1, _signal.SIGKILL)  # everything here but us, in one step
            except ProcessLookupError:
                return  # nothing is left
        else:
            for pid in self.members():
                try:
                    os.kill(pid, _signal.SIGKILL)
                except ProcessLookupError:
                    continue  # it ended meanwhile

    def kill_everything(self, usage: Usage) -> None:
        """Kill and collect until nothing that the program started is left."""
        deadline = clock() + 10
        while clock() < deadline:
            self.kill_all()
            try:
                while True:
                    dead, _, spent = os.wait4(-1, 0 if self.namespaces else os.WNOHANG)
                    if dead == 0:
                        break
                    usage.add(spent)
            except ChildProcessError:
                return
            select.select([], [], [], 0.001)
        os._exit(1)  # what runs us sees the sandbox break, and kills what is left

    def wipe(self) -> bool:
        """Empty the folders that the program could write to.

        True if that failed: the sandbox is then no good for a second run.
        """
        try:
            for folder in self.folders:
                empty(folder)
        except (OSError, RecursionError, MemoryError):
            return True
        return False


class Usage:
    """CPU seconds and peak memory of the dead."""

    def __init__(self) -> None:
        self.cpu = 0.0
        self.peak_kib = 0

    def add(self, spent: resource.struct_rusage) -> None:
        """Count what one process has used."""
        self.cpu += spent.ru_utime + spent.ru_stime
        self.peak_kib = max(self.peak_kib, spent.ru_maxrss)


def write_file(path: str, content: bytes) -> None:
    """Make a file."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    try:
        while content:
            content = content[os.write(fd, content) :]
    finally:
        os.close(fd)


def empty(folder: str) -> None:
    """Remove everything in a folder."""
    with os.scandir(folder) as found:
        entries = list(found)
    for entry in entries:
        if not entry.is_dir(follow_symlinks=False):
            os.unlink(entry.path)
            continue
        for inner, folders, files in os.walk(entry.path, topdown=False, onerror=raise_error):
            for file in files:
                os.unlink(os.path.join(inner, file))
            for each in folders:
                link = os.path.join(inner, each)
                (os.unlink if os.path.islink(link) else os.rmdir)(link)
        os.rmdir(entry.path)


def raise_error(error: OSError) -> None:
    """Raise it: for `os.walk`."""
    raise error


def open_pidfd(pid: int) -> int:
    """A file descriptor that becomes readable when the process has ended.

    Not from `os`: interpreters that were built for old systems lack it there.
    """
    return call("syscall", SYS_PIDFD_OPEN, pid, 0)


def children(pid: int) -> list[int]:
    """Pids of the processes that a process has started and that live."""
    found: list[int] = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children", "rb") as file:
                found += map(int, file.read().split())
    except OSError:
        pass  # it ended while we looked
    return found


def resident_pages(pid: int) -> int:
    """Pages of memory that a process has in use."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        return int(file.read().rpartition(b")")[2].split()[21])


def tasks_asleep(pid: int, state: bytes, threads: int) -> bool:
    """Whether all threads of a process wait for something else than a processor."""
    if threads == 1:
        return state in b"ST"
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/stat", "rb") as file:
            if file.read().rpartition(b")")[2].split()[0] not in b"ST":
                return False
    return True


def drop_capabilities() -> None:
    """Give up what root can do, for good."""
    for capability in range(64):
        try:
            prctl(PR_CAPBSET_DROP, capability)
        except OSError:
            break  # past the last one, or not ours to drop
    call("capset", struct.pack("Ii", 0x20080522, 0), bytes(24))


def landlock_rules(abi: int, read: list[str]) -> dict[str, Any]:
    """What the rulesets of all boxes have in common; its files stay open until a ruleset is made of them.

    Args:
        abi: The version of Landlock.
        read: Paths to read and execute.
    """
    files = (1 << 13) - 1  # EXECUTE ... MAKE_SYM (version 1)
    files |= (1 << 13 if abi >= 2 else 0) | (1 << 14 if abi >= 3 else 0) | (1 << 15 if abi >= 5 else 0)
    network = 3 if abi >= 4 else 0
    scoped = 3 if abi >= 6 else 0
    attributes = struct.pack("=QQQ", files, network, scoped)[: 24 if abi >= 6 else 16 if abi >= 4 else 8]
    execute, write, read_file, read_dir, truncate = 1, 2, 4, 8, 1 << 14
    wanted = [(path, execute | read_file | read_dir) for path in read]
    wanted += [(path, read_file) for path in ("/dev/zero", "/dev/random", "/dev/urandom")]
    wanted += [("/dev/null", read_file | write | truncate), ("/dev/full", read_file | write)]
    fds, rules = [], []
    for path, rights in wanted:
        try:
            fds.append(os.open(path, os.O_PATH | os.O_CLOEXEC))
        except FileNotFoundError:
            continue
        if not os.path.isdir(path):
            rights &= execute | write | read_file | truncate
        rules.append(struct.pack("=Qi", rights & files, fds[-1]))
    return {"attributes": attributes, "files": files, "rules": rules, "fds": (min(fds), max(fds) + 1)}


def landlock_ruleset(config: dict[str, Any], workdir: str) -> int:
    """A Landlock ruleset: what is common, and everything below the working directory."""
    ruleset = call("syscall", SYS_LANDLOCK_CREATE, config["attributes"], len(config["attributes"]), 0)
    fd = os.open(workdir, os.O_PATH | os.O_CLOEXEC)
    for rule in (*config["rules"], struct.pack("=Qi", config["files"], fd)):
        call("syscall", SYS_LANDLOCK_ADD, ruleset, 1, rule, 0)
    os.close(fd)
    os.closerange(*config["fds"])
    return ruleset


def preload(modules: dict[str, bytes]) -> None:
    """Import what most programs need before the program comes, and add modules given as code."""
    import _sitebuiltins

    builtins.exit = _sitebuiltins.Quitter("exit", "Ctrl-D (i.e. EOF)")
    builtins.quit = _sitebuiltins.Quitter("quit", "Ctrl-D (i.e. EOF)")
    for name in PRELOADED:
        __import__(name)
    for name, code in modules.items():
        module = type(sys)(name)
        sys.modules[name] = module
        exec(marshal.loads(code), module.__dict__)
    # The compiler sets itself up at its first use, which takes longer than a small program.
    with open("/dev/null", encoding="utf-8", errors="surrogateescape") as file:
        exec(compile("for word in file.read().split(): print(word)", "<warm>", "exec"), {"file": file})
    gc.collect()
    gc.freeze()  # a fork shares these pages


def open_streams() -> None:
    """Make the standard streams of programs; what lies behind their descriptors is set in each fork."""
    errors = os.dup(2)
    os.dup2(0, 2)  # a file at its beginning, as the others
    text: Any = {"encoding": "utf-8", "errors": "surrogateescape", "closefd": False}
    stdin, stdout = open(0, **text), open(1, "w", **text)
    stderr = open(2, "w", **{**text, "errors": "backslashreplace", "buffering": 1})
    vars(sys).update(stdin=stdin, stdout=stdout, stderr=stderr)
    vars(sys).update(__stdin__=stdin, __stdout__=stdout, __stderr__=stderr)
    os.dup2(errors, 2)
    os.close(errors)


def run_child(box: Box, request: dict[str, Any], given: int, failure_fd: int) -> None:
    """In the fork: put on the limits, then become the program. Never returns.

    Args:
        box: The box, whose state is a copy here.
        request: The order.
        given: How many file descriptors are the program's, from 0 on.
        failure_fd: Where to say what went wrong before the program.
    """
    try:
        os.dup2(failure_fd, given, inheritable=False)
        failure_fd = given
        enter(box, request, failure_fd)
        if request["argv"] is not None:
            for number in (
                _signal.SIGPIPE,
                _signal.SIGXFSZ,
            ):  # the interpreter ignores them, others should not
                _signal.signal(number, _signal.SIG_DFL)
            try:
                os.execvpe(request["argv"][0], request["argv"], dict(os.environ))
            except OSError as error:
                os.write(2, f"{request['argv'][0]}: {error.strerror}\n".encode())
                os._exit(126 if error.errno == errno.EACCES else 127)
        os.close(failure_fd)
    except BaseException as error:
        os.write(failure_fd, f"{type(error).__name__}: {error}".encode()[:400])
        os._exit(125)
    run_source(request["source"], request["arguments"], box.main)


def enter(box: Box, request: dict[str, Any], last_fd: int) -> None:
    """Put on the limits and the walls; file descriptors above the last are closed."""
    limits = request["limits"]
    os.setsid()
    _signal.signal(_signal.SIGINT, _signal.default_int_handler)
    if request["environment"]:
        os.environ.update(request["environment"])
    if box.confine:
        prctl(PR_SET_DUMPABLE, 1)  # or it could not open its own /dev/stdin
    if not box.namespaces:
        prctl(PR_SET_PDEATHSIG, _signal.SIGKILL)
        if os.getppid() != box.me:
            os._exit(125)
    if box.ruleset is not None:
        call("syscall", SYS_LANDLOCK_RESTRICT, box.ruleset, 0)
    os.closerange(last_fd + 1, 1024)
    # Whole seconds, above the limit: the supervisor counts precisely, this holds should it be slow.
    cpu = int(limits["cpu_seconds"]) + 2
    set_limit(resource.RLIMIT_CPU, cpu)
    set_limit(resource.RLIMIT_FSIZE, max(limits["file_bytes"], limits["output_bytes"] + PAGE))
    set_limit(resource.RLIMIT_NOFILE, limits["open_files"])
    if box.count_processes:
        set_limit(resource.RLIMIT_NPROC, limits["processes"] + 1)
    # The kernel keeps 128 MiB of address space free below a main thread's stack.
    hard = resource.getrlimit(resource.RLIMIT_STACK)[1]
    if request["argv"] is None:
        resource.setrlimit(resource.RLIMIT_STACK, (112 << 20 if hard == -1 else min(hard, 112 << 20), hard))
    set_limit(resource.RLIMIT_AS, limits["memory_bytes"] * 5 // 4 + (64 << 20))
    if box.filter is not None and not box.namespaces:
        load_filter(box.filter)


def load_filter(template: bytes) -> None:
    """Refuse system calls from now on, in this process and those that it starts."""
    program = template.replace(OWN_PID, os.getpid().to_bytes(4, "little"))
    buffer = array.array("B", program)
    prctl(PR_SET_SECCOMP, 2, struct.pack("HxxxxxxP", len(program) // 8, buffer.buffer_info()[0]))


def set_limit(which: int, value: float) -> None:
    """Lower a resource limit, for good."""
    hard = resource.getrlimit(which)[1]
    value = int(value if hard == -1 else min(value, hard))
    resource.setrlimit(which, (value, value))


def run_source(source: bytes, arguments: list[str], path: str) -> None:
    """Run Python source as a script is run, in this process, and exit as the interpreter would."""
    code = 0
    try:
        sys.argv = ["main.py", *arguments]
        depth = 1
        frame = sys._getframe()
        while frame.f_back is not None:
            depth, frame = depth + 1, frame.f_back
        sys.setrecursionlimit(1000 + depth)
        if b"\0" in source:  # some versions of Python drop the rest of that line
            raise SyntaxError("source code cannot contain null bytes")
        exec(compile(source, path, "exec", dont_inherit=True), vars(sys.modules["__main__"]))
    except SystemExit as error:
        code = exit_status(error)
    except BaseException as error:
        code = 1
        show(error, path)
    os._exit(finish(code))


def show(error: BaseException, path: str) -> None:
    """Print a traceback that begins at the program's own frames."""
    try:
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename != path:
            trace = trace.tb_next
        error.__traceback__ = trace
        sys.excepthook(type(error), error, trace)
    except BaseException as second:
        os.write(2, f"{type(error).__name__}\n(its report failed: {type(second).__name__})\n".encode())


def exit_status(error: SystemExit) -> int:
    """The exit status that the interpreter gives for it."""
    code = error.code
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF
    try:
        print(code, file=sys.stderr)
    except BaseException:
        return 1
    return 1


def finish(code: int) -> int:
    """What the interpreter does at its end, short of taking itself apart."""
    try:
        if "threading" in sys.modules:
            sys.modules["threading"]._shutdown()
        if "atexit" in sys.modules:
            sys.modules["atexit"]._run_exitfuncs()
    except SystemExit as error:
        code = exit_status(error)
    except BaseException as error:
        show(error, "")
    for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
        try:
            if stream is not None and not stream.closed:
                stream.flush()
        except BaseException:
            code = code or 120
    return code


def main(config: dict[str, Any]) -> None:
    """Serve until the control socket ends."""
    Server(config).serve()
    os._exit(0)
