"""Checks that no program evades a limit: with programs that hide what they use, and with honest ones."""

import asyncio
import contextlib
import fcntl
import os
import re
import socket
import textwrap
from typing import Any

from sandbox_checks import PROGRAMS, SMALL, TIGHT, execute, proves, run_python

from mars_env.sandbox import Backend, Ended, Guarantee, Job, Limits, Result
from mars_env.sandbox.backends import library_folder
from mars_env.sync import end_tasks

MIB = 1 << 20


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
    result = await run_python(backend, "touch(bytearray(90 << 20))", Limits(memory_bytes=64 * MIB))
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
    few = Limits(cpu_seconds=10, memory_bytes=32 * MIB)
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
