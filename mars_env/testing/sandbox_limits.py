"""Checks that limits hold, for one process and for all that it starts."""

from __future__ import annotations

from mars_env.sandbox import Backend, Ended, Guarantee, Limits
from mars_env.testing.sandbox_checks import SMALL, must_end, must_print, proves, run_python

__all__: list[str] = []


@proves(Guarantee.CPU)
async def stops_a_busy_loop(backend: Backend) -> None:
    result = await must_end(backend, "while True: pass", Ended.CPU)
    assert 0.9 < result.cpu_seconds < 2.5, result


@proves(Guarantee.CPU)
async def stops_one_that_swallows_everything(backend: Backend) -> None:
    source = """
        import signal
        for number in range(1, 65):
            try: signal.signal(number, signal.SIG_IGN)
            except (OSError, ValueError): pass
        while True:
            try:
                while True: pass
            except BaseException: pass
    """
    await must_end(backend, source, Ended.CPU)


@proves(Guarantee.CPU)
async def stops_a_long_computation_in_c(backend: Backend) -> None:
    await must_end(backend, "x = 3 ** (10 ** 9)", Ended.CPU)


@proves(Guarantee.CPU)
async def stops_a_long_compilation(backend: Backend) -> None:
    source = "exec('x = ' + '+'.join(['(' * 50 + '1' + ')' * 50] * 200000))"
    await must_end(backend, source, Ended.CPU, Ended.MEMORY, Ended.EXITED)


@proves(Guarantee.CPU)
async def counts_the_time_of_threads(backend: Backend) -> None:
    source = """
        import hashlib, threading
        def burn():
            while True: hashlib.sha256(b"x" * (1 << 20)).digest()
        for _ in range(4): threading.Thread(target=burn).start()
    """
    await must_end(backend, source, Ended.CPU)


@proves(Guarantee.WALL)
async def stops_a_sleeper(backend: Backend) -> None:
    result = await must_end(
        backend, "import time\nwhile True:\n try: time.sleep(1000)\n except BaseException: pass", Ended.WALL
    )
    assert result.cpu_seconds < 0.5, result


@proves(Guarantee.WALL)
async def stops_a_deadlock(backend: Backend) -> None:
    await must_end(backend, "import threading\na = threading.Lock(); a.acquire(); a.acquire()", Ended.WALL)


@proves(Guarantee.WALL)
async def stops_one_that_stops_itself(backend: Backend) -> None:
    ways = {
        "itself": "",
        "while it shares its memory with a child": "if libc.vfork() == 0: libc.sleep(1000)",
        "while it traces a child": "if os.fork() == 0: libc.ptrace(0, 0, 0, 0)",
    }
    for how in ways.values():
        source = f"""
            import ctypes, os, signal
            libc = ctypes.CDLL(None)
            try:
                {how or "pass"}
            except OSError: pass
            os.kill(os.getpid(), signal.SIGSTOP)
        """
        result = await must_end(backend, source, Ended.WALL)
        assert result.wall_seconds < SMALL.wall, "only the end of all time has ended it"


@proves(Guarantee.MEMORY)
async def stops_a_hoarder(backend: Backend) -> None:
    for source in (
        "x = []\nwhile True: x.append('x' * 1000000 + str(len(x)))",
        "x = bytearray(8 << 30)",
        "import mmap\nx = mmap.mmap(-1, 4 << 30, flags=2)\nfor i in range(0, 4 << 30, 4096): x[i] = 1",
    ):
        result = await run_python(backend, source, SMALL)
        assert not result.ok and result.peak_memory < 600 << 20, result
        assert (
            result.ended in (Ended.MEMORY, Ended.KILLED)
            or b"Memory" in result.stderr
            or b"memory" in result.stderr
        ), result


@proves(Guarantee.OUTPUT)
async def stops_a_flood(backend: Backend) -> None:
    for stream in ("stdout", "stderr"):
        result = await must_end(
            backend, f"import sys\nwhile True: sys.{stream}.write('x' * 100000)", Ended.OUTPUT, Ended.CPU
        )
        assert len(getattr(result, stream)) <= SMALL.output_bytes, result.ended
    source = "import os\nfor _ in range(300): os.write(1, b'x' * 10000)"
    result = await must_end(backend, source, Ended.OUTPUT)
    assert len(result.stdout) == SMALL.output_bytes


@proves(Guarantee.PROCESSES)
async def stops_a_fork_bomb(backend: Backend) -> None:
    source = """
        import os
        while True:
            try: os.fork()
            except OSError: pass
    """
    result = await must_end(backend, source, Ended.CPU, Ended.PROCESSES, Ended.MEMORY, limits=SMALL)
    assert result.wall_seconds < 50, result


@proves(Guarantee.PROCESSES)
async def stops_a_thread_bomb(backend: Backend) -> None:
    source = """
        import threading, time
        threading.stack_size(32768)
        n = 0
        while True:
            try: threading.Thread(target=time.sleep, args=(1000,), daemon=True).start(); n += 1
            except RuntimeError: break
        print(n)
    """
    result = await run_python(backend, source, SMALL)
    if result.ok:
        assert int(result.stdout) <= SMALL.processes, result
    else:
        assert result.ended in (Ended.PROCESSES, Ended.CPU, Ended.MEMORY), result


@proves(Guarantee.DISK)
async def stops_one_that_fills_the_disk(backend: Backend) -> None:
    source = """
        import os
        done = 0
        for i in range(400):
            try:
                with open(f"f{i}", "wb") as file: done += file.write(os.urandom(1 << 20))
            except OSError: pass
        import time; time.sleep(0.3)
        print(done)
    """
    await must_end(backend, source, Ended.DISK, limits=Limits(cpu_seconds=20))


@proves(Guarantee.DISK)
async def bounds_the_size_of_one_file(backend: Backend) -> None:
    source = """
        try:
            with open("f", "wb") as file:
                file.seek(1 << 40); file.write(b"x")
            print("wrote")
        except OSError as error:
            print("refused")
    """
    await must_print(backend, source, "refused")


@proves(Guarantee.FILES)
async def stops_one_that_makes_many_files(backend: Backend) -> None:
    source = "import time\nfor i in range(20000): open(f'f{i}', 'w').close()\ntime.sleep(0.3)"
    await must_end(backend, source, Ended.FILES, limits=Limits(cpu_seconds=20))


@proves(Guarantee.FILES)
async def bounds_open_files(backend: Backend) -> None:
    source = """
        import os
        held = []
        try:
            while len(held) < 5000: held.append(os.open("/dev/null", os.O_RDONLY))
            print("many")
        except OSError: print("refused")
    """
    await must_print(backend, source, "refused")
