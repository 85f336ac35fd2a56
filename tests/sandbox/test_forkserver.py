"""Boxes of one fork server know nothing of each other and of it, and end with it."""

import asyncio
import os
import secrets
import signal
from pathlib import Path

import pytest
from sandbox_suite import processes_with
from sandboxes import need
from waiting import PATIENCE, until

from mars_env.sandbox import Ended, Job, Limits, Pool

ROOMY = Limits(cpu_seconds=20, idle_seconds=20)


@pytest.fixture(params=["bubblewrap", "landlock"])
async def pool(request):
    need(request.param)
    pool = Pool(request.param, slots=4)
    yield pool
    await pool.aclose()


def server_of(pool):
    return pool._spawner._process.pid


async def side_by_side(pool, first, second):
    """Run one program while another runs, in boxes of one server: returns both results."""

    async def work(lease):
        boxes = [await lease.box(), await lease.box()]
        slow = asyncio.ensure_future(boxes[0].run(Job(source=first), ROOMY))
        await asyncio.sleep(0.4)
        quick = await boxes[1].run(Job(source=second), ROOMY)
        return await slow, quick

    return await pool.use(work)


async def test_boxes_see_nothing_of_each_other(pool):
    name = secrets.token_hex(8)
    first = f"""
import os, socket, time
open("left", "w").write("x")
for folder in ("/tmp", "/dev/shm"):
    try: open(folder + "/{name}", "w").write("x")
    except OSError: pass
try:
    s = socket.socket(socket.AF_UNIX); s.bind(chr(0) + "{name}"); s.listen()
    t = socket.create_server(("127.0.0.1", 23456))
except OSError: pass
time.sleep(1.5)
print("still here", os.listdir("."))
"""
    second = f"""
import os, signal, socket
seen = [e for e in os.listdir(".") if e != "main.py"]
for folder in ("/tmp", "/dev/shm"):
    try: seen += [e for e in os.listdir(folder) if e in ("left", "{name}")]
    except OSError: pass
for family, address in ((socket.AF_UNIX, chr(0) + "{name}"), (socket.AF_INET, ("127.0.0.1", 23456))):
    try: socket.socket(family).connect(address); seen.append(address)
    except OSError: pass
try: os.kill(-1, signal.SIGKILL)
except OSError: pass
print("saw", *seen)
"""
    slow, quick = await side_by_side(pool, first, second)
    assert slow.ok and slow.stdout.startswith(b"still here"), slow
    assert quick.stdout == b"saw\n", quick


async def test_a_fork_bomb_in_one_box_leaves_the_other_its_processes():
    need("bubblewrap")
    pool = Pool("bubblewrap", slots=4)
    greedy = """
import os, time
while True:
    try:
        if os.fork() == 0: time.sleep(60)
    except OSError: break
time.sleep(2)
"""
    threads = "import threading, time\n" + "threading.Thread(target=time.sleep, args=(0.2,)).start()\n" * 40
    slow, quick = await side_by_side(pool, greedy, threads + "print('fine')")
    assert quick.stdout == b"fine\n", quick
    assert slow.ended in (Ended.PROCESSES, Ended.EXITED), slow
    await pool.aclose()


async def test_a_program_has_neither_rights_nor_descriptors_of_the_machinery(pool):
    source = """
import os
def is_open(fd):
    try: os.fstat(fd)
    except OSError: return False
    return True
print([fd for fd in range(1024) if is_open(fd)])
try: lines = open("/proc/self/status").readlines()
except OSError: lines = []  # it is closed without name spaces
for line in lines:
    if line.startswith(("CapInh", "CapPrm", "CapEff", "CapAmb")): assert int(line.split()[1], 16) == 0, line
    if line.startswith(("NoNewPrivs", "Seccomp:")): assert int(line.split()[1]) > 0, line
print(len(lines) > 0)
"""
    result = await pool.run(source)
    private = (await pool.backend()).name == "bubblewrap"
    assert result.stdout.decode() == f"[0, 1, 2, 3]\n{private}\n", result


async def test_nothing_that_a_program_changes_is_there_for_the_next(pool):
    change = """
import builtins, collections, os, sys
builtins.len = collections.OrderedDict = None
sys.modules["json"] = None
os.environ["LEFT"] = "x"
os.makedirs("a/b/c")
open("a/b/f", "w")
os.symlink("/", "a/link")
os.symlink("a", "l")
os.chdir("/")
try: os.chmod(os.environ["HOME"], 0)
except OSError: pass
"""
    look = """
import collections, json, os
print(len("ab"), collections.OrderedDict is None, os.environ.get("LEFT"), os.getcwd() == os.environ["HOME"])
print(os.listdir("."))
"""

    async def work(lease):
        _, second = [await lease.run(Job(source=s), Limits()) for s in (change, look)]
        return second.stdout, len(lease._boxes)

    unchanged = b"2 False None True\n['main.py']\n"
    assert await pool.use(work) == (unchanged, 1)  # in the same box
    assert (await pool.run(look)).stdout == unchanged


async def test_all_boxes_of_a_killed_server_are_lost_and_gone(pool):
    token = secrets.token_hex(8)
    source = f"import time\nopen('f', 'w').write('x')\ntime.sleep(600)  # {token}"

    async def work(lease):
        boxes = [await lease.box() for _ in range(3)]
        jobs = [Job(source=source, environment={"TOKEN": token}) for _ in boxes]
        runs = [asyncio.ensure_future(b.run(j, ROOMY)) for b, j in zip(boxes, jobs, strict=True)]
        await asyncio.sleep(0.5)
        os.kill(server_of(pool), signal.SIGKILL)
        return await asyncio.gather(*runs)

    results = await asyncio.wait_for(pool.use(work), PATIENCE)
    assert {r.ended for r in results} == {Ended.LOST}
    await until(lambda: not processes_with(token, "environ"))
    assert (await pool.run("print(1)")).stdout == b"1\n"


async def test_one_server_serves_a_pool_and_ends_with_it(pool):
    await asyncio.gather(*(pool.run("print(1)") for _ in range(8)))
    pid = server_of(pool)
    await pool.run("print(1)")
    assert server_of(pool) == pid
    await pool.aclose()
    assert not Path(f"/proc/{pid}").exists()


async def test_random_numbers_differ_from_run_to_run(pool):
    source = "import random, secrets; print(random.random(), secrets.token_hex(8))"

    async def work(lease):
        return [(await lease.run(Job(source=source), Limits())).stdout for _ in range(2)]

    found = [await pool.use(work), await pool.use(work)]
    numbers = {line.split()[i] for lines in found for line in lines for i in range(2)}
    assert len(numbers) == 8, "boxes or programs share the state of a generator"
