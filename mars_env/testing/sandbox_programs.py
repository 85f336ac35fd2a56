"""Checks of the sandbox suite that are a program and its end: a limit, or the word ``fine``."""

from __future__ import annotations

from functools import partial

from mars_env.sandbox import Backend, Ended, Guarantee, Limits
from mars_env.testing.sandbox_checks import CHECKS, ROOMY, SMALL, TIGHT, Check, run_python

_ENDS = {
    Ended.CPU: {
        "stops_a_busy_loop": "while True: pass",
        "stops_one_that_swallows_everything": """
            for number in range(1, 65):
                try: signal.signal(number, signal.SIG_IGN)
                except (OSError, ValueError): pass
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
        "stops_one_that_stops_itself": "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)",
        "stops_one_that_stops_while_it_shares_its_memory_with_a_child": """
            libc = ctypes.CDLL(None)
            if libc.vfork() == 0: libc.sleep(1000)
            os.kill(os.getpid(), signal.SIGSTOP)
        """,
        "stops_one_that_stops_while_it_traces_a_child": """
            try:
                if os.fork() == 0: ctypes.CDLL(None).ptrace(0, 0, 0, 0)
            except OSError: pass
            os.kill(os.getpid(), signal.SIGSTOP)
        """,
        "stops_a_deadlock": "import threading\na = threading.Lock(); a.acquire(); a.acquire()",
    },
    Ended.MEMORY: {
        "counts_memory_of_a_process_whose_first_thread_has_ended": """
            import platform
            libc = ctypes.CDLL(None)
            r, w = os.pipe()
            started = 0
            for _ in range(4):
                try: pid = os.fork()
                except OSError: print("refused"); break
                if pid == 0:
                    def hoard():
                        time.sleep(0.05)
                        b = bytearray(150 << 20)
                        for o in range(0, len(b), 4096): b[o] = 1
                        os.write(w, b"x"); time.sleep(5); os._exit(0)
                    threading.Thread(target=hoard).start()
                    libc.syscall(60 if platform.machine() == "x86_64" else 93, 0)
                started += 1
            for _ in range(started): os.read(r, 1)  # until each holds its memory
            time.sleep(1)
        """,
    },
    Ended.OUTPUT: {
        "stops_a_flood": "import os\nfor _ in range(300): os.write(1, b'x' * 10000)",
        "stops_a_flood_without_end": "while True: print('x' * 100000)",
        "stops_a_flood_of_errors": "import sys\nwhile True: sys.stderr.write('x' * 100000)",
    },
    Ended.DISK: {
        "stops_one_that_fills_the_disk": """
            for i in range(400):
                try:
                    with open(f"f{i}", "wb") as file: file.write(os.urandom(1 << 20))
                except OSError: pass
            time.sleep(0.3)
        """,
        "counts_files_that_are_deleted": """
            fds = [os.open(f"f{i}", os.O_CREAT | os.O_RDWR) for i in range(6)]
            for i, fd in enumerate(fds):
                os.unlink(f"f{i}")
                for _ in range(20): os.write(fd, b"x" * (1 << 20))
            time.sleep(1)
        """,
        "counts_files_that_were_never_in_a_folder": """
            fds = [os.open(".", os.O_TMPFILE | os.O_RDWR) for _ in range(6)]
            for fd in fds:
                for _ in range(20): os.write(fd, b"x" * (1 << 20))
            time.sleep(1)
        """,
        "counts_deleted_files_that_are_only_mapped": """
            kept = []
            for _ in range(6):
                fd = os.open("f", os.O_CREAT | os.O_RDWR)
                for _ in range(20): os.write(fd, b"x" * (1 << 20))
                kept.append(mmap.mmap(fd, 4096)); os.close(fd); os.unlink("f")
                # The mmap module keeps its own descriptor.
                for other in range(3, 64):
                    try: os.close(other)
                    except OSError: pass
            time.sleep(1)
        """,
        "counts_files_however_deep": """
            name = "d" * 250
            for _ in range(20): os.mkdir(name); os.chdir(name)
            os.umask(0o477)
            os.mkdir("hidden"); os.chdir("hidden")
            for i in range(6):
                with open(f"f{i}", "wb") as file:
                    for _ in range(20): file.write(b"x" * (1 << 20))
            time.sleep(1)
        """,
    },
    Ended.FILES: {
        "stops_one_that_makes_many_files": """
            for i in range(20000): open(f"f{i}", "w").close()
            time.sleep(0.3)
        """,
        "bounds_nested_folders": """
            for _ in range(3000): os.mkdir("d" * 200); os.chdir("d" * 200)
            time.sleep(1)
        """,
        "bounds_the_open_files_of_all_processes": """
            try:
                for _ in range(5):
                    if os.fork() == 0: break
            except OSError: print("refused")
            held = []
            try:
                while len(held) < 400: held.append(os.open("/dev/null", os.O_RDONLY))
            except OSError: pass
            time.sleep(1)
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
            time.sleep(1)
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
            threading.Thread(target=lambda: (time.sleep(0.05), done.append("thread"))).start()
            done.append("main")
        """,
        "lets_programs_close_their_output": """
            print("fine", flush=True); sys.stdout.close(); os.close(1); os._exit(0)
        """,
        "survives_a_forgotten_main_guard_and_modules": """
            import dataclasses, json
            @dataclasses.dataclass
            class A:
                x: int
            if __name__ == "__main__":
                assert json.dumps(dataclasses.asdict(A(1))) == '{"x": 1}' and len(sys.argv) == 1
                if sys.modules["__main__"].A is A: print("fine")
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
                if ended[0] == 3 << 8 and said == b"over\\n": print("fine")
            except PermissionError: print("fine")
        """,
    },
    Guarantee.MEMORY: {
        "counts_the_pages_that_forks_share_once": """
            b = bytearray(150 << 20)
            for o in range(0, len(b), 4096): b[o] = 1
            children = []
            try:
                for _ in range(4):
                    pid = os.fork()
                    if pid == 0: time.sleep(0.6); os._exit(0)
                    children.append(pid)
            except OSError: pass
            for pid in children: os.waitpid(pid, 0)
            print("fine")
        """,
    },
    Guarantee.DISK: {
        "bounds_the_size_of_one_file": """
            try:
                with open("f", "wb") as file:
                    file.seek(1 << 40); file.write(b"x")
            except OSError: print("fine")
        """,
    },
    Guarantee.FILES: {
        "bounds_open_files": """
            held = []
            try:
                while len(held) < 5000: held.append(os.open("/dev/null", os.O_RDONLY))
            except OSError: print("fine")
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
            print("fine")
        """,
    },
    Guarantee.PRIVATE_PROCESSES: {
        "sees_no_process_of_the_host": """
            if len([p for p in os.listdir("/proc") if p.isdigit()]) <= 3: print("fine")
        """,
    },
    Guarantee.SIGNALS: {
        "cannot_break_its_own_sandbox": """
            libc = ctypes.CDLL(None)
            parent = os.getppid()
            for number in range(1, 65):
                try: os.kill(parent, number)
                except OSError: pass
            libc.ptrace(16, parent, 0, 0)
            try: open(f"/proc/{parent}/mem", "r+b").write(b"x")
            except OSError: pass
            for fd in range(3, 300):
                try: os.write(fd, b"exit 0 0 0 0 0 ")
                except OSError: pass
            try: os.kill(-1, signal.SIGKILL)
            except OSError: pass
            kept = []
            for name in ("a\\nb", "\\0a\\nb"):
                try: kept.append(socket.socket(socket.AF_UNIX)); kept[-1].bind(name)
                except OSError: pass
            time.sleep(0.5)
            print("fine")
        """,
        "leaves_what_is_counted_by_user_to_others": """
            libc = ctypes.CDLL(None)
            n = timers = 0
            while n < 1000 and libc.inotify_init1(0) >= 0: n += 1
            while timers < 2000 and libc.timer_create(1, None, ctypes.byref(ctypes.c_int())) == 0: timers += 1
            try: open("/proc/self/oom_score_adj", "w").write("0"); low = True
            except OSError: low = False
            if n == 0 and timers <= 64 and not low: print("fine")
        """,
    },
}
"""Programs that print ``fine`` if all is as it must be, by what they prove (None: all must do it)."""


async def _must_end(source: str, ended: Ended, limits: Limits, backend: Backend) -> None:
    result = await run_python(backend, source, limits)
    assert result.ended is ended or b"refused" in result.stdout, result
    assert max(len(result.stdout), len(result.stderr)) <= limits.output_bytes, result.ended
    if ended is Ended.CPU:
        assert 0.9 < result.cpu_seconds < 2.5, result
    if ended is Ended.WALL:
        assert result.cpu_seconds < 0.5 and result.wall_seconds < limits.wall, result


async def _must_be_fine(source: str, limits: Limits, backend: Backend) -> None:
    result = await run_python(backend, source, limits)
    assert result.ok and result.stdout == b"fine\n", result


for ended, programs in _ENDS.items():
    limits = SMALL if ended in (Ended.CPU, Ended.WALL, Ended.OUTPUT) else TIGHT
    for name, source in programs.items():
        CHECKS.append(Check(name, Guarantee[ended.name], partial(_must_end, source, ended, limits)))
for guarantee, programs in _FINE.items():
    limits = TIGHT if guarantee is Guarantee.MEMORY else ROOMY
    CHECKS.extend(Check(n, guarantee, partial(_must_be_fine, s, limits)) for n, s in programs.items())
