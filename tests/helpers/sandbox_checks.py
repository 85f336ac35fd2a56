"""The parts of the sandbox suite's checks, and those that are a program and its end: a limit, or ``fine``.

Use `sandbox_suite`.
"""

import socket
import textwrap
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from mars_env.sandbox import Backend, Ended, Guarantee, Job, Limits, Result
from mars_env.sandbox.probe import run_once

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


_ENDS = {
    Ended.CPU: {
        "stops_a_busy_loop": "while True: pass",
        "stops_one_that_swallows_everything": """
            for number in range(1, 65): attempt(number, lambda: signal.signal(number, signal.SIG_IGN))
            while True:
                try:
                    while True: pass
                except BaseException: pass
        """,
        "stops_a_long_computation_in_c": "x = 3 ** (10 ** 9)",
        "counts_the_time_of_threads": """
            import hashlib
            def burn():
                while True: hashlib.sha256(b"x" * (1 << 20)).digest()
            for _ in range(4): threading.Thread(target=burn).start()
        """,
    },
    Ended.WALL: {
        "stops_a_sleeper": """
            while True:
                try: time.sleep(1000)
                except BaseException: pass
        """,
        "stops_one_that_stops_itself": "os.kill(os.getpid(), signal.SIGSTOP)",
        "stops_one_that_stops_while_it_shares_its_memory_with_a_child": """
            if libc.vfork() == 0: libc.sleep(1000)
            os.kill(os.getpid(), signal.SIGSTOP)
        """,
        "stops_one_that_stops_while_it_traces_a_child": """
            attempt("trace", lambda: os.fork() or libc.ptrace(0, 0, 0, 0))
            os.kill(os.getpid(), signal.SIGSTOP)
        """,
        "stops_a_deadlock": "a = threading.Lock(); a.acquire(); a.acquire()",
    },
    Ended.MEMORY: {
        "counts_memory_of_a_process_whose_first_thread_has_ended": """
            import platform
            r, w = os.pipe()
            started = 0
            for _ in range(4):
                try: pid = os.fork()
                except OSError: print("refused"); break
                if pid == 0:
                    def hoard():
                        time.sleep(0.05)
                        b = bytearray(150 << 20)
                        touch(b); os.write(w, b"x"); time.sleep(5); os._exit(0)
                    threading.Thread(target=hoard).start()
                    libc.syscall(60 if platform.machine() == "x86_64" else 93, 0)
                started += 1
            for _ in range(started): os.read(r, 1)  # until each holds its memory
        """
    },
    Ended.OUTPUT: {
        "stops_a_flood": "for _ in range(300): os.write(1, b'x' * 10000)\nos._exit(0)",
        "stops_a_flood_without_end": "while True: print('x' * 100000)",
        "stops_a_flood_of_errors": "while True: sys.stderr.write('x' * 100000)",
    },
    Ended.DISK: {
        "stops_one_that_fills_the_disk": """
            for i in range(400):
                try:
                    with open(f"f{i}", "wb") as file: file.write(os.urandom(1 << 20))
                except OSError: pass
        """,
        "counts_files_that_are_deleted": """
            fds = [os.open(f"f{i}", os.O_CREAT | os.O_RDWR) for i in range(6)]
            for i, fd in enumerate(fds):
                os.unlink(f"f{i}")
                for _ in range(20): os.write(fd, b"x" * (1 << 20))
        """,
        "counts_files_that_were_never_in_a_folder": """
            fds = [os.open(".", os.O_TMPFILE | os.O_RDWR) for _ in range(6)]
            for fd in fds:
                for _ in range(20): os.write(fd, b"x" * (1 << 20))
        """,
        "counts_deleted_files_that_are_only_mapped": """
            kept = []
            for _ in range(6):
                fd = os.open("f", os.O_CREAT | os.O_RDWR)
                for _ in range(20): os.write(fd, b"x" * (1 << 20))
                kept.append(mmap.mmap(fd, 4096)); os.close(fd); os.unlink("f")
                # The mmap module keeps its own descriptor.
                for other in range(3, 64): attempt(other, lambda: os.close(other))
        """,
        "counts_files_however_deep": """
            name = "d" * 250
            for _ in range(20): os.mkdir(name); os.chdir(name)
            os.umask(0o477)
            os.mkdir("hidden"); os.chdir("hidden")
            for i in range(6):
                with open(f"f{i}", "wb") as file:
                    for _ in range(20): file.write(b"x" * (1 << 20))
        """,
    },
    Ended.FILES: {
        "stops_one_that_makes_many_files": 'for i in range(20000): open(f"f{i}", "w").close()',
        "bounds_nested_folders": 'for _ in range(3000): os.mkdir("d" * 200); os.chdir("d" * 200)',
        "bounds_the_open_files_of_all_processes": """
            try:
                for _ in range(5):
                    if os.fork() == 0: break
            except OSError: print("refused")
            attempt("many", lambda: [os.open("/dev/null", os.O_RDONLY) for _ in range(400)])
        """,
    },
    Ended.PROCESSES: {
        "stops_a_thread_bomb": """
            threading.stack_size(32768)
            n = 1
            try:
                while n < 3000: threading.Thread(target=time.sleep, args=(9,), daemon=True).start(); n += 1
            except RuntimeError: pass
            if n <= 64: print("refused", flush=True)
        """,
        "stops_threads_that_each_start_more": """
            import _thread
            _thread.stack_size(65536)
            go, started = threading.Event(), []
            def more():
                go.wait()
                try:
                    while len(started) < 3000:
                        _thread.start_new_thread(time.sleep, (9,)); started.append(1)
                except RuntimeError: pass
                time.sleep(9)
            for _ in range(30): _thread.start_new_thread(more, ())
            go.set()
            time.sleep(1)
            if 0 < len(started) <= 64 - 31: print("refused", flush=True)
        """,
    },
}
"""Programs that must end at a limit, by that limit; or they print that something was refused."""

_FINE: dict[Guarantee | None, dict[str, str]] = {
    None: {
        "runs_threads_and_exit_handlers": """
            import atexit
            done = []
            atexit.register(lambda: print("fine" if done == ["main", "thread"] else done))
            threading.Thread(target=lambda: (threading.main_thread().join(), done.append("thread"))).start()
            done.append("main")
            raise SystemExit
        """,
        "lets_programs_close_their_output": """
            print("fine", flush=True); sys.stdout.close(); os.close(1); os._exit(0)
        """,
        "survives_a_forgotten_main_guard_and_modules": """
            import dataclasses, json
            @dataclasses.dataclass
            class A:
                x: int
            assert __name__ == "__main__" and sys.modules["__main__"].A is A
            assert json.dumps(dataclasses.asdict(A(1))) == '{"x": 1}' and len(sys.argv) == 1
        """,
    },
    Guarantee.CPU: {
        "tells_a_program_of_the_end_of_its_children": """
            import subprocess
            ended = []
            signal.signal(signal.SIGCHLD, lambda *_: ended.append(os.wait()[1]))
            try:
                if os.fork() == 0: os._exit(3)
                while not ended: time.sleep(0.01)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                # A shell waits for this signal.
                said = subprocess.run("sleep 0.01 & wait; echo over", shell=True, capture_output=True).stdout
                assert ended[0] == 3 << 8 and said == b"over\\n"
            except PermissionError: pass
        """
    },
    Guarantee.MEMORY: {
        "counts_the_pages_that_forks_share_once": """
            b = bytearray(150 << 20)
            touch(b)
            children = []
            try:
                for _ in range(4):
                    pid = os.fork()
                    if pid == 0: time.sleep(0.6); os._exit(0)
                    children.append(pid)
            except OSError: pass
            for pid in children: os.waitpid(pid, 0)
        """,
        "keeps_standard_input_as_large_as_it_was": """
            attempt("truncate", lambda: os.ftruncate(0, 1 << 20))
            attempt("write", lambda: os.pwrite(0, b"x" * 4096, 0))
            assert os.fstat(0).st_size == 0
        """,
    },
    Guarantee.DISK: {
        "bounds_the_size_of_one_file": """
            def write():
                with open("f", "wb") as file: file.seek(1 << 40); file.write(b"x")
            attempt("write", write)
        """
    },
    Guarantee.FILES: {
        "bounds_open_files": """
            attempt("many", lambda: [os.open("/dev/null", os.O_RDONLY) for _ in range(5000)])
        """,
        "charges_nothing_for_children_that_end": """
            try:
                for _ in range(80):
                    children = []
                    for _ in range(5):
                        r, w = os.pipe()
                        pid = os.fork()
                        if pid == 0: os._exit(0)
                        os.close(w); os.read(r, 1); os.close(r)
                        children.append(pid)
                    for pid in children: os.waitpid(pid, 0)
            except PermissionError: pass
        """,
    },
    Guarantee.PRIVATE_PROCESSES: {
        "sees_no_process_of_the_host": 'assert len([p for p in os.listdir("/proc") if p.isdigit()]) <= 3'
    },
    Guarantee.SIGNALS: {
        "cannot_break_its_own_sandbox": """
            parent = os.getppid()
            for number in range(1, 65): attempt("kill", lambda: os.kill(parent, number) or False)
            libc.ptrace(16, parent, 0, 0)
            attempt("memory", lambda: open(f"/proc/{parent}/mem", "r+b").write(b"x"))
            for fd in range(3, 300): attempt("report", lambda: os.write(fd, b"exit 0 0 0 0 0 ") and False)
            attempt("kill all", lambda: os.kill(-1, signal.SIGKILL) or False)
            kept = []
            for name in ("a\\nb", "\\0a\\nb"):
                try: kept.append(socket.socket(socket.AF_UNIX)); kept[-1].bind(name)
                except OSError: pass
            time.sleep(0.5)
        """,
        "leaves_what_is_counted_by_user_to_others": """
            timers = 0
            attempt("inotify", lambda: libc.inotify_init1(0) >= 0)
            while timers < 2000 and libc.timer_create(1, None, ctypes.byref(ctypes.c_int())) == 0: timers += 1
            assert timers <= 64
            attempt("low", lambda: open("/proc/self/oom_score_adj", "w").write("0"))
        """,
    },
    Guarantee.TERMINAL: {
        "injects_nothing_into_a_terminal": """
            import termios
            def inject(fd): fcntl.ioctl(fd, termios.TIOCSTI, b"x")
            for fd in range(10): attempt(fd, lambda: inject(fd))
            attempt("tty", lambda: inject(os.open("/dev/tty", os.O_RDWR)))
            attempt("console", lambda: open("/dev/console", "w"))
            attempt("isatty", lambda: any(map(os.isatty, range(3))))
            def refused():
                try: inject(0)
                except PermissionError: return False
                except OSError as error: return error.errno not in (5, 25)
            attempt("filter", refused)
        """
    },
}
"""Programs that are fine if they come to their end, by what they prove (None: all must do it)."""


async def _must_end(source: str, ended: Ended, limits: Limits, backend: Backend) -> None:
    # A program that is not stopped before its end stays there until its use has been seen.
    result = await run_python(backend, f"{textwrap.dedent(source)}\ntime.sleep(1)", limits)
    assert result.ended is ended or b"refused" in result.stdout, result
    assert max(len(result.stdout), len(result.stderr)) <= limits.output_bytes, result.ended
    if ended is Ended.CPU:
        assert 0.9 < result.cpu_seconds < 2.5, result
    if ended is Ended.WALL:
        assert result.wall_seconds < limits.wall, result  # it was idle for too long before


for ended, programs in _ENDS.items():
    limits = SMALL if ended in (Ended.CPU, Ended.WALL, Ended.OUTPUT) else TIGHT
    for name, source in programs.items():
        CHECKS.append(Check(name, Guarantee[ended.name], partial(_must_end, source, ended, limits)))
for guarantee, programs in _FINE.items():
    limits = TIGHT if guarantee is Guarantee.MEMORY else ROOMY
    for name, source in programs.items():
        CHECKS.append(Check(name, guarantee, partial(must_be_fine, source=source, limits=limits)))
