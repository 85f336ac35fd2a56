import asyncio
import os
import signal
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from command_line import run_python
from sandboxes import descendants, killing, need, need_a_sandbox
from waiting import PATIENCE, until

from mars_env import sandbox
from mars_env.errors import SandboxError
from mars_env.sandbox import Ended, Limits, Pool


@pytest.fixture
async def pool():
    need_a_sandbox()
    pool = Pool()
    yield pool
    await pool.aclose()


def orphans():
    """Pids of orphaned bubblewraps, and of other orphans in a folder that this process made for sandboxes."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            name, _, rest = (entry / "stat").read_text().partition("(")[2].rpartition(")")
            place = str((entry / "cwd").readlink())
        except OSError:
            continue  # no process, or it has ended
        if rest.split()[1] == "1" and (name == "bwrap" or f"/mars-env-sandbox-{os.getpid()}-" in place):
            found.append(entry.name)
    return found


def open_fds():
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_a_burst_queues_and_each_gets_its_own(pool):
    results = await asyncio.gather(*(pool.run("print(int(input()) ** 2)", stdin=str(i)) for i in range(60)))
    assert [int(r.stdout) for r in results] == [i * i for i in range(60)]


async def test_nothing_is_left(pool):
    await pool.aclose()
    before = set(descendants(os.getpid(), 1)), open_fds()
    await asyncio.gather(*(pool.run("print(1)") for _ in range(10)))
    await pool.aclose()
    # Not more than before: sandboxes of other tests may end meanwhile.
    assert set(descendants(os.getpid(), 1)) <= before[0] and open_fds() <= before[1]


async def test_idle_sandboxes_end_by_themselves(monkeypatch):
    monkeypatch.setattr(Pool, "IDLE_SECONDS", 0.2)
    pool = Pool()
    before = set(descendants(os.getpid(), 1))
    await pool.run("print(1)")
    await until(lambda: set(descendants(os.getpid(), 1)) <= before)
    await pool.aclose()


@pytest.mark.parametrize("name", ["bubblewrap", "landlock"])
async def test_a_sandbox_that_is_lost_once_is_tried_again(name):
    need(name)
    pool = Pool(name)
    jobs = [asyncio.create_task(pool.run("import time; time.sleep(0.5); print(1)")) for _ in range(3)]
    await until(lambda: pool._spawner is not None and pool._spawner._process is not None)
    os.kill(pool._spawner._process.pid, signal.SIGKILL)
    assert {result.stdout for result in await asyncio.gather(*jobs)} == {b"1\n"}
    await pool.aclose()


@pytest.mark.parametrize("name", ["bubblewrap", "landlock"])
async def test_whatever_is_killed_no_result_is_wrong_and_nothing_hangs(name):
    need(name)
    pool = Pool(name)
    await pool.run("print(0)")
    before = orphans()
    # Not the programs: whose process is killed while its sandbox lives has been KILLED.
    with killing(times=25, every=0.1, depth=3 if name == "bubblewrap" else 2):
        jobs = (pool.run("import time; time.sleep(0.02); print(1)") for _ in range(40))
        results = await asyncio.wait_for(asyncio.gather(*jobs, return_exceptions=True), PATIENCE)
    other = [r for r in results if not (isinstance(r, sandbox.Result) and r.stdout == b"1\n")]
    assert all(isinstance(r, SandboxError) or r.ended in (Ended.LOST, Ended.KILLED) for r in other), other
    assert (await pool.run("print(2)")).stdout == b"2\n"
    await pool.aclose()
    assert not [pid for pid in orphans() if pid not in before], "a sandbox outlived its killed outer process"


async def test_a_session_talks_while_it_runs(pool):
    ours, theirs = socket.socketpair()
    source = """
import socket
s = socket.socket(fileno=4)
while data := s.recv(100):
    s.sendall(data.upper())
"""
    task = asyncio.create_task(pool.session(source, theirs))
    loop = asyncio.get_running_loop()
    ours.setblocking(False)
    for word in (b"one", b"two"):
        await loop.sock_sendall(ours, word)
        assert await loop.sock_recv(ours, 100) == word.upper()
    ours.close()
    assert (await task).ok


def test_from_several_loops_and_threads():
    with ThreadPoolExecutor(4) as threads:
        results = list(threads.map(lambda _: asyncio.run(sandbox.run("print(3)")), range(4)))
    assert [result.stdout for result in results] == [b"3\n"] * 4
    asyncio.run(sandbox.close())


@pytest.mark.parametrize("backend", ["auto", "landlock"])
def test_a_process_that_ends_without_closing_leaves_nothing(backend, tmp_path):
    need_a_sandbox() if backend == "auto" else need(backend)
    source = f"""
import asyncio, sys
from mars_env import sandbox
async def main():
    pool = sandbox.Pool({backend!r})
    await asyncio.gather(*(pool.run("print(1)") for _ in range(6)))
asyncio.run(main())
"""
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    done = run_python(source, env=environment)
    assert (done.returncode, done.stderr, list(tmp_path.iterdir())) == (0, "", [])


def test_after_a_fork():
    pool = Pool()
    assert asyncio.run(pool.run("print(1)")).stdout == b"1\n"
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            code = 0 if asyncio.run(pool.run("print(1)")).stdout == b"1\n" else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    asyncio.run(pool.aclose())


async def test_cancelling_one_leaves_the_others(pool):
    limits = Limits(idle_seconds=600, wall_seconds=600)
    long = asyncio.create_task(pool.run("import time; time.sleep(600)", limits=limits))
    await asyncio.sleep(0.3)
    long.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(long, PATIENCE)
    assert (await pool.run("print(1)")).stdout == b"1\n"
