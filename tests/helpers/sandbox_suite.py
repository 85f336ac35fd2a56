"""The contract suite for sandbox backends: what each must do, and a proof of each guarantee it declares.

For your own backend::

    @pytest.mark.parametrize("check", sandbox_suite.checks_for(MyBackend()), ids=lambda check: check.name)
    async def test_my_backend(check):
        await check.prove(MyBackend())

A check runs one small hostile program and looks at what it achieved, from outside where possible.
"""

import asyncio
import contextlib
import fcntl
import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal
from unittest.mock import patch

from mars_env.sandbox import Backend, Ended, Guarantee, Job, Limits, Result
from mars_env.sandbox.backends import library_folder
from mars_env.sandbox.probe import run_once
from mars_env.sync import end_tasks

SMALL = Limits(
    cpu_seconds=1.0, wall_seconds=60.0, idle_seconds=1.0, memory_bytes=256 << 20, output_bytes=1 << 20
)
"""Small limits for hostile programs, so that they end soon."""

ROOMY = Limits(cpu_seconds=20.0)

TIGHT = Limits(cpu_seconds=10, memory_bytes=256 << 20, disk_bytes=32 << 20, files=200)
"""Limits that programs try to exceed."""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that a backend must do.

    Attributes:
        name: What it checks.
        guarantee: The guarantee that it proves; None for what every backend must do.
        prove: Raises AssertionError, with the result, if the backend fails the check.
    """

    name: str
    guarantee: Guarantee | None
    prove: Callable[[Backend], Awaitable[None]]


CHECKS: list[Check] = []
"""All checks, in order."""

Proof = Callable[[Backend], Awaitable[None]]


def proves(guarantee: Guarantee | None = None) -> Callable[[Proof], Proof]:
    """Make a check from a function whose name says what must be true; None: every backend must do it."""

    def register(function: Proof) -> Proof:
        CHECKS.append(Check(function.__name__, guarantee, function))
        return function

    return register


async def execute(
    backend: Backend, job: Job, limits: Limits = ROOMY, channel: socket.socket | None = None
) -> Result:
    """Run one job in a fresh sandbox of the backend."""
    return await run_once(backend, job, limits, channel)


PRELUDE = """\
import ctypes, fcntl, mmap, os, signal, socket, struct, sys, threading, time
libc = ctypes.CDLL(None)
reached = []
def attempt(name, action):
    try:
        if action() is not False: reached.append(name)
    except Exception: pass
def touch(memory):
    for place in range(0, len(memory), 4096): memory[place] = 1
"""
"""What every program of `run_python` begins with. An attempt has reached something unless it fails."""


async def run_python(
    backend: Backend, source: str, limits: Limits = ROOMY, stdin: bytes = b"", **names: Any
) -> Result:
    """Run source after `PRELUDE`, with each ``<name>`` replaced by the repr of the value with that name."""
    text = PRELUDE + textwrap.dedent(source)
    for name, value in names.items():
        text = text.replace(f"<{name}>", repr(value))
    return await execute(backend, Job(source=text, stdin=stdin), limits)


async def must_be_fine(backend: Backend, source: str, limits: Limits = ROOMY, **names: Any) -> None:
    """Run a program that must come to its end, and reach nothing."""
    result = await run_python(backend, f"{textwrap.dedent(source)}\nprint(*reached, 'fine')", limits, **names)
    assert result.ok and result.stdout == b"fine\n", result


async def _must_end(source: str, ended: Ended, limits: Limits, backend: Backend) -> None:
    # A program that is not stopped before its end stays there until its use has been seen.
    result = await run_python(backend, f"{source}\ntime.sleep(1)", limits)
    assert result.ended is ended or b"refused" in result.stdout, result
    assert max(len(result.stdout), len(result.stderr)) <= limits.output_bytes, result.ended
    if ended is Ended.CPU:
        assert 0.9 < result.cpu_seconds < 2.5, result
    if ended is Ended.WALL:
        assert result.wall_seconds < limits.wall, result  # it was idle for too long before


PROGRAMS: dict[str, str] = {}
"""The programs of checks, by the names of the checks."""


def _check(name: str, must: str, proven: str) -> Check:
    guarantee, source = None if proven == "all" else Guarantee[proven], PROGRAMS[name]
    if must == "is fine":
        limits = TIGHT if guarantee is Guarantee.MEMORY else ROOMY
        return Check(name, guarantee, partial(must_be_fine, source=source, limits=limits))
    ended = Ended[proven]
    limits = TIGHT if ended in (Ended.MEMORY, Ended.DISK, Ended.FILES, Ended.PROCESSES) else SMALL
    return Check(name, guarantee, partial(_must_end, source, ended, limits))


SECTIONS = Path(__file__).with_name("sandbox_programs.txt").read_text(encoding="utf-8").split("\n=== ")[1:]
for section in SECTIONS:
    head, _, program = section.partition("\n")
    must, *proven, name = head.split(" | ")
    PROGRAMS[name] = program
    CHECKS += [_check(name, must, each) for each in proven]


def checks_for(backend: Backend) -> list[Check]:
    """The checks that this backend must pass: the common ones and those of its guarantees.

    Example:
        >>> from mars_env.sandbox import Bubblewrap, Unsafe
        >>> len(checks_for(Bubblewrap())) > len(checks_for(Unsafe()))
        True
    """
    wanted = [c for c in CHECKS if c.guarantee is None or c.guarantee in backend.guarantees]
    return sorted(wanted, key=lambda check: check.guarantee is not None)


def checks_for_another_user(backend: Backend) -> list[Check]:
    """Where all checks have passed for one user: those of guarantees, the first alone where no file, process
    or privilege of the user decides it."""
    checks = {}
    for check in checks_for(backend):
        if check.guarantee is not None:
            alike = check.guarantee in (Guarantee.CPU, Guarantee.WALL, Guarantee.OUTPUT)
            checks.setdefault(check.guarantee if alike else check.name, check)
    return list(checks.values())


# --- what every backend does ---


@proves()
async def echoes_standard_input(backend: Backend) -> None:
    result = await run_python(backend, "import sys; print(len(sys.stdin.read()))", stdin=b"x" * (5 << 20))
    assert result.stdout == b"5242880\n", result
    result = await run_python(backend, "a = input(); b = input(); print(b, a)", stdin=b"one\ntwo")
    assert result.stdout == b"two one\n", result


@proves()
async def tells_exit_codes(backend: Backend) -> None:
    for source, code in [
        ("import sys; sys.exit(7)", 7),
        ("raise SystemExit('no')", 1),
        ("exit()", 0),
        ("1/0", 1),
        ("import os; os._exit(9)", 9),
        ("def f(:", 1),
        ("import sys; sys.exit(True)", 1),
    ]:
        result = await run_python(backend, source)
        assert (result.ended, result.exit_code) == (Ended.EXITED, code), (source, result)


@proves()
async def passes_arguments_and_environment(backend: Backend) -> None:
    source = "import os, sys; print(*sys.argv[1:], os.environ['TOKEN'], __name__)"
    job = Job(source=source, arguments=("a b", "'{0}'"), environment={"TOKEN": "e"})
    result = await execute(backend, job)
    assert result.stdout == b"a b '{0}' e __main__\n", result


@proves()
async def shows_a_traceback_of_the_program_alone(backend: Backend) -> None:
    result = await run_python(backend, "def f():\n    return [][1]\nf()")
    said = result.stderr.decode()
    assert said.count("  File ") == 2 and "IndexError" in said and "return [][1]" in said, result


@proves()
async def keeps_bytes_as_they_are(backend: Backend) -> None:
    if "remote" in backend.name:
        return  # its protocol carries text
    result = await run_python(
        backend, r"import sys; sys.stdout.buffer.write(b'\xff\x00\xfe'); sys.stderr.write('\u00e9')"
    )
    assert result.stdout == b"\xff\x00\xfe" and result.stderr == "é".encode(), result


@proves()
async def gives_all_of_a_large_output(backend: Backend) -> None:
    result = await run_python(backend, "print('y' * (4 << 20))")
    assert result.ok and len(result.stdout) == (4 << 20) + 1, (result.ended, len(result.stdout))


@proves()
async def puts_files_where_the_program_is(backend: Backend) -> None:
    files = {"a.txt": b"one", "b/c.txt": b"two", "helper.py": b"x = 3"}
    job = Job(
        source="import helper; print(open('a.txt').read(), open('b/c.txt').read(), helper.x)", files=files
    )
    result = await execute(backend, job)
    assert result.stdout == b"one two 3\n", result


@proves(Guarantee.NETWORK)
async def reaches_no_socket(backend: Backend) -> None:
    name = f"\0mars-env-{secrets.token_hex(8)}"
    with (
        socket.create_server(("127.0.0.1", 0)) as tcp,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp,
        socket.socket(socket.AF_UNIX) as abstract,
        tempfile.TemporaryDirectory() as folder,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as datagram,
    ):
        udp.bind(("127.0.0.1", 0))
        udp.setblocking(False)
        abstract.bind(name)
        abstract.listen()
        datagram.bind(f"{folder}/socket")
        datagram.setblocking(False)
        source = PROGRAMS["reaches_no_socket"]
        await must_be_fine(
            backend,
            source,
            port=tcp.getsockname()[1],
            name=name,
            path=f"{folder}/socket",
            udp=udp.getsockname()[1],
        )
        for end in (udp, datagram):
            with contextlib.suppress(BlockingIOError):
                raise AssertionError(f"a datagram arrived: {end.recv(10)!r}")


@proves(Guarantee.HOST_FILES)
async def reads_no_file_of_the_host(backend: Backend) -> None:
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as canary:
        canary.write("secret")
        canary.flush()
        Path(canary.name).chmod(0o644)
        source = PROGRAMS["reads_no_file_of_the_host"]
        packages = next((p for p in sys.path if p.endswith("site-packages")), "/nowhere")
        await must_be_fine(
            backend, source, canary=canary.name, library=str(Path(__file__)), packages=packages
        )


@proves(Guarantee.HOST_FILES)
async def changes_no_file_of_the_host(backend: Backend) -> None:
    with tempfile.TemporaryDirectory() as folder:
        canary = Path(folder, "canary")
        canary.write_text("as it was")
        Path(folder).chmod(0o777)
        canary.chmod(0o666)
        before = canary.stat()
        source = PROGRAMS["changes_no_file_of_the_host"]
        await must_be_fine(backend, source, folder=folder, canary=str(canary))
        after = canary.stat()
        assert (after.st_mode, after.st_mtime_ns) == (before.st_mode, before.st_mtime_ns), after
        assert canary.read_text() == "as it was"
        assert [p.name for p in Path(folder).iterdir()] == ["canary"], after


@proves(Guarantee.ENVIRONMENT)
async def sees_no_environment_of_the_host(backend: Backend) -> None:
    secret = secrets.token_hex(8)
    source = PROGRAMS["sees_no_environment_of_the_host"]
    with patch.dict(os.environ, MARS_ENV_SUITE_SECRET=secret):
        await must_be_fine(backend, source, private=Guarantee.HOST_FILES in backend.guarantees)


@proves(Guarantee.SIGNALS)
async def harms_no_process_of_the_host(backend: Backend) -> None:
    bystander = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(600)"], stdin=subprocess.DEVNULL
    )
    try:
        source = PROGRAMS["harms_no_process_of_the_host"]
        await must_be_fine(backend, source, pid=bystander.pid, suite=os.getpid())
        assert bystander.poll() is None, "a process of the host was killed"
        state = Path(f"/proc/{bystander.pid}/stat").read_text().rpartition(")")[2].split()[0]
        assert state in "SRD", f"a process of the host is in state {state}"
        assert os.getpriority(os.PRIO_PROCESS, bystander.pid) < 19 or os.getpriority(os.PRIO_PROCESS, 0) == 19
    finally:
        bystander.kill()
        bystander.wait()


@proves(Guarantee.SIGNALS)
async def tells_signals(backend: Backend) -> None:
    for source, number in [
        ("os.kill(os.getpid(), 9)", signal.SIGKILL),
        ("os.abort()", signal.SIGABRT),
        ("ctypes.string_at(0)", signal.SIGSEGV),
    ]:
        result = await run_python(backend, source)
        assert (result.ended, result.signal) == (Ended.KILLED, number), (source, result)


@proves(Guarantee.NO_SURVIVORS)
async def leaves_nothing_alive(backend: Backend) -> None:
    token = f"survivor-{secrets.token_hex(8)}"
    source = PROGRAMS["leaves_nothing_alive"]
    result = await run_python(backend, source, token=token)
    assert result.ended is Ended.EXITED and result.stdout.endswith(b"done\n"), result
    alive = processes_with(token)
    assert not alive, f"{len(alive)} processes survived"


def processes_with(token: str, part: Literal["cmdline", "environ"] = "cmdline") -> list[int]:
    """Pids of this machine's other processes whose command line, or environment, contains a text."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):  # it has just ended, or may not be read
                if token.encode() in (entry / part).read_bytes():
                    found.append(int(entry.name))
    return found


@proves(Guarantee.NO_SURVIVORS)
async def cancelling_kills(backend: Backend) -> None:
    token = f"cancelled-{secrets.token_hex(8)}"
    source = f"import time\nopen('f', 'w').write({token!r})\ntime.sleep(600)"
    before = _folders()
    task = asyncio.ensure_future(
        execute(backend, Job(source=source, environment={"TOKEN": token}), Limits(idle_seconds=300))
    )
    await asyncio.sleep(0.5)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    assert not processes_with(token, "environ"), "the program survived"
    assert _folders() <= before, "a folder was left"


def _folders() -> set[str]:
    return {p.name for p in Path(tempfile.gettempdir()).glob(f"mars-env-sandbox-{os.getpid()}-*")}


# --- no program evades a limit: with programs that hide what they use, and with honest ones ---


def _most_held(result: Result) -> float:
    """The largest number that a program printed after the word ``held``; 0 if it printed none."""
    return max(map(float, re.findall(rb"held ([\d.]+)", result.stdout)), default=0.0)


async def _must_hold(backend: Backend, source: str, most: float, *ended: Ended, **names: Any) -> None:
    """Run a program that reports what it holds: it must end at a limit, or never hold a quarter too much."""
    result = await run_python(backend, source, TIGHT, **names)
    assert _most_held(result) <= 1.25 * most, result
    if result.ended not in ended:
        assert result.ended is Ended.EXITED, result
        assert b"held" in result.stdout or result.exit_code != 0 or b"refused" in result.stdout, result


@proves(Guarantee.CPU)
async def counts_the_time_of_children_that_are_ignored(backend: Backend) -> None:
    ways = {
        "ignored": "signal.signal(signal.SIGCHLD, signal.SIG_IGN)",
        "not kept": "libc.sigaction(17, struct.pack('QQQ', 0, 2, 0) + bytes(200), None)",  # SA_NOCLDWAIT
        "left": "pass",
    }
    for how in ways.values():
        source = f"""
            {how}
            for number in range(1, 61):
                r, w = os.pipe()
                try: pid = os.fork()
                except OSError: print("refused"); break
                if pid == 0:
                    while time.process_time() < 0.05: pass
                    os.write(w, b"x"); os._exit(0)
                os.close(w); os.read(r, 1); os.close(r)
                print("held", 0.05 * number, flush=True)
        """
        result = await run_python(backend, source, Limits(cpu_seconds=0.5))
        assert result.ended is Ended.CPU or b"refused" in result.stdout, result
        assert result.cpu_seconds >= _most_held(result), "some children's time was not counted"


@proves(Guarantee.MEMORY)
async def stops_a_hoarder(backend: Backend) -> None:
    for source in (
        "x = []\nwhile True: x.append('x' * 1000000 + str(len(x)))",
        "x = bytearray(8 << 30)",
        "touch(mmap.mmap(-1, 4 << 30, flags=2))",
    ):
        result = await run_python(backend, source, SMALL)
        assert not result.ok and result.peak_memory < 600 << 20, result
        assert result.ended in (Ended.MEMORY, Ended.KILLED) or b"emory" in result.stderr, result


@proves(Guarantee.MEMORY)
async def judges_a_short_program_by_its_peak(backend: Backend) -> None:
    result = await run_python(backend, "print(1)", Limits(memory_bytes=1))
    assert result.ended is Ended.MEMORY, result
    result = await run_python(backend, "touch(bytearray(90 << 20))", Limits(memory_bytes=64 << 20))
    assert result.ended is Ended.MEMORY, result


@proves(Guarantee.MEMORY)
async def counts_memory_that_is_in_no_process(backend: Backend) -> None:
    source = PROGRAMS["counts_memory_that_is_in_no_process"]
    await _must_hold(backend, source, 256, Ended.MEMORY)


@proves(Guarantee.MEMORY)
async def counts_memory_in_sockets(backend: Backend) -> None:
    source = PROGRAMS["counts_memory_in_sockets"]
    await _must_hold(backend, source, 256, Ended.MEMORY, Ended.FILES, forks=8, pairs=120)
    # Fewer than the open files that a program may have, and more than its memory.
    few = Limits(cpu_seconds=10, memory_bytes=32 << 20)
    result = await run_python(backend, source, few, forks=0, pairs=100)
    assert result.ended is Ended.MEMORY, result


@proves(Guarantee.PROCESSES)
async def stops_a_fork_bomb(backend: Backend) -> None:
    source = PROGRAMS["stops_a_fork_bomb"]
    result = await run_python(backend, source, SMALL)
    assert result.ended in (Ended.CPU, Ended.PROCESSES, Ended.MEMORY), result


@proves(Guarantee.PROCESSES)
async def counts_threads_whose_first_has_ended(backend: Backend) -> None:
    source = PROGRAMS["counts_threads_whose_first_has_ended"]
    await _must_hold(backend, source, 64, Ended.PROCESSES)


@proves(Guarantee.HOST_FILES)
async def holds_up_no_file_of_the_host(backend: Backend) -> None:
    source = PROGRAMS["holds_up_no_file_of_the_host"]
    running = asyncio.ensure_future(run_python(backend, source, Limits(idle_seconds=20)))
    path = library_folder() / "os.py"  # programs can see it
    locked = True
    while not running.done():  # others must be able to lock the file even while the program runs
        fd = os.open(path, os.O_RDONLY)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            locked = False
        finally:
            os.close(fd)
        await asyncio.sleep(0.05)
    result = await running
    words = result.stdout.decode().split()
    assert words[1:] == ["did"] and path.samefile(words[0]), result
    assert locked, "the program blocked a file of the host"


@proves(Guarantee.WALL)
async def cannot_stop_the_conversation(backend: Backend) -> None:
    if not backend.channels:
        return
    ways = {
        "it stops": "stop()",
        "it closes its end": "os.close(4); stop()",
        "it sends its end through it": "socket.send_fds(end, [b'x'], [4]); stop()",
        "it leaves it in a socket": "a, b = socket.socketpair(); socket.send_fds(a, [b'x'], [4, b.fileno()])",
        "a child keeps it": "os.fork() or stop()",
        "it drips": "while True: end.send(b'x'); time.sleep(0.1)",
    }
    for how in ways.values():
        source = f"""
            import os, signal, socket, time
            def stop(): os.kill(os.getpid(), signal.SIGSTOP)
            end = socket.socket(fileno=4)
            try:
                {how}
            except OSError: pass
        """
        ours, theirs = socket.socketpair()
        reader, writer = await asyncio.open_connection(sock=ours)
        talking = asyncio.ensure_future(_talk(reader, writer))
        result = await execute(backend, Job(source=textwrap.dedent(source)), SMALL, theirs)
        _, going_on = await asyncio.wait([talking], timeout=60)
        await end_tasks([talking])
        writer.close()
        assert not going_on, f"the conversation goes on after the end of the run: {how}"
        assert result.ended in (Ended.WALL, Ended.EXITED), result


async def _talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Write to a channel until it has ended, then read what is left."""
    with contextlib.suppress(OSError):
        while True:
            writer.write(bytes(1 << 16))
            await writer.drain()
    with contextlib.suppress(OSError):
        while await reader.read(1 << 16):
            pass
