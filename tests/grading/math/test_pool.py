import asyncio
import os
import signal
import subprocess
import sys
import time
from contextlib import closing, suppress
from pathlib import Path

import pytest
from command_line import run_python
from waiting import wait_until

from mars_env.grading.math import pool as pool_module
from mars_env.grading.math.pool import VerdictLimits, WorkerPool

EQUAL = {"op": "judge", "reference": r"\sqrt{8}", "answer": r"2\sqrt{2}"}
HEAVY = {"op": "judge", "reference": r"\sqrt{2}", "answer": r"\sum_{j=1}^{9999}\sum_{k=1}^{9999}\sqrt{jk}"}


@pytest.fixture(scope="module")
def pool():
    with closing(WorkerPool(workers=1, limits=VerdictLimits(cpu_seconds=1.0))) as shared:
        yield shared


def group(leader: int) -> list[int]:
    """Processes of a process group, zombies left out."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it ended, perhaps between opening and reading
            state, _, leads = (entry / "stat").read_text().rpartition(")")[2].split()[:3]
            if state != "Z" and int(leads) == leader:
                found.append(int(entry.name))
    return found


def test_cpu_limit_ends_a_verdict_and_the_next_is_right(pool):
    for request, phase in ((HEAVY, "answer"), ({**HEAVY, "reference": HEAVY["answer"]}, "reference")):
        outcome = pool.submit(request).result()
        assert "CPU time limit" in outcome["limit"] and outcome["phase"] == phase
    assert pool.submit(EQUAL).result()["equal"] is True


def faulty(monkeypatch, judge: str) -> None:
    """Have workers judge by other code when the answer is "bad"."""
    patch = (
        "import os, time, mars_env.grading.math.judge as module\n"
        "real = module.judge\n"
        f"def judge(r, a, t=None): return real(r, a, t) if a != 'bad' else {judge}\n"
        "module.judge = judge\n"
        "serve(settings)\n"
    )
    monkeypatch.setattr(pool_module, "_BOOTSTRAP", pool_module._BOOTSTRAP.replace("serve(settings)\n", patch))


@pytest.mark.parametrize(
    ("judge", "key", "says"),
    [
        ("bytearray(1 << 31)", "limit", "memory limit"),
        ("judge(r, a, t)", "limit", "recursion limit"),
        ("os.abort()", "limit", "crashed the evaluator twice"),
        ("os.kill(os.getpid(), 9)", "fault", "signal 9"),
        ("time.sleep(60)", "fault", "wall-clock ceiling"),
        ("5 ** 5 ** 12", "limit", "CPU time limit"),  # C code, deaf to signals' handlers
        ("1 / 0", "error", "ZeroDivisionError"),
        ("{}[chr(128512) * 600]", "error", "KeyError"),
    ],
)
def test_what_becomes_of_a_verdict_that_goes_wrong(monkeypatch, judge, key, says):
    faulty(monkeypatch, judge)
    limits = VerdictLimits(1.0, 512, wall_seconds=4 if "sleep" in judge else 120)
    with closing(WorkerPool(workers=1, limits=limits)) as own:
        outcome = own.submit({**EQUAL, "answer": "bad"}).result()
        assert says in (outcome[key])
        assert own.submit(EQUAL).result()["equal"] is True


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_worker_killed_between_verdicts_is_replaced(pool):
    assert pool.submit(EQUAL).result()["equal"]
    for pid in group(pool.pids()[0]):
        os.kill(pid, signal.SIGKILL)
    assert pool.submit(EQUAL).result()["equal"] is True


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_worker_killed_in_the_middle_is_retried_and_only_then_a_fault():
    with closing(WorkerPool(workers=1, limits=VerdictLimits(cpu_seconds=30))) as own:
        own.submit(EQUAL).result()
        future, kills = own.submit(HEAVY), 0
        while not future.done():
            wait_until(lambda: future.done() or (own.pids() and group(own.pids()[0])))
            time.sleep(0.3)  # it may have read the request by now
            for leader in own.pids():
                for pid in group(leader):
                    os.kill(pid, signal.SIGKILL)
            kills += 1
        assert future.result()["fault"] and kills >= 2
        assert own.submit(EQUAL).result()["equal"] is True


async def test_cancelling_a_waiting_verdict_leaves_the_pool_working(pool):
    tasks = [asyncio.create_task(pool.run(EQUAL)) for _ in range(50)]
    await asyncio.sleep(0)
    for task in tasks[10:]:
        task.cancel()
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(o["equal"] for o in outcomes[:10])
    assert (await pool.run(EQUAL))["equal"]


SCRIPT = """
import os, sys, time
from mars_env.grading.math.pool import WorkerPool
pool = WorkerPool(workers=1)
assert pool.submit({"op": "judge", "reference": "x+1", "answer": "1+x"}).result()["equal"]
MODE
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("how", ["exit", "SIGKILL", "SIGKILL at work", "SIGKILL when stopped"])
def test_no_orphans(how):
    work = f"pool.submit({HEAVY!r}); " if how == "SIGKILL at work" else ""
    mode = f"print(pool.pids()[0], flush=True); {work}time.sleep({0 if how == 'exit' else 60})"
    source = SCRIPT.replace("MODE", mode)
    process = subprocess.Popen([sys.executable, "-c", source], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    leader = int(process.stdout.readline())
    if how != "exit":
        assert group(leader)
        if how == "SIGKILL when stopped":
            os.killpg(leader, signal.SIGSTOP)
        process.kill()
    process.wait()
    wait_until(lambda: not group(leader))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_after_fork():
    fork = (
        "pid = os.fork()\n"
        "ok = pool.submit({'op': 'judge', 'reference': 'x+2', 'answer': '2+x'}).result()['equal']\n"
        "if pid == 0: os._exit(0 if ok else 1)\n"
        "print(ok and os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, flush=True)"
    )
    assert run_python(SCRIPT.replace("MODE", fork)).stdout.strip() == "True"


def test_a_pool_that_is_dropped_ends_its_workers():
    own = WorkerPool(workers=1)
    own.submit(EQUAL).result()
    (leader,) = own.pids()
    del own
    wait_until(lambda: not group(leader))
