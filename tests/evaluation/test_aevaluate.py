"""Evaluations inside of an event loop."""

import asyncio
import inspect
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import mars_env
from mars_env.rollout import read_run
from mars_env.types import Action, Completion

ANSWER = "\\boxed{5}"


class Slow:
    """An agent that answers the first ten times, and hangs then."""

    policy = "slow"

    def __init__(self, hangs=True):
        self.calls, self.hangs = 0, hangs

    def identity(self):
        return {"answer": ANSWER}

    async def act(self, observation, n, seed):
        self.calls += 1
        if self.hangs and self.calls > 10:
            await asyncio.sleep(3600)
        return [Action(ANSWER, (Completion(ANSWER),))] * n


async def test_the_loop_goes_on_meanwhile():
    """Two runs end only because a task beside them lets them."""
    gate = asyncio.Event()

    class Waiting(Slow):
        async def act(self, observation, n, seed):
            await gate.wait()
            return await super().act(observation, n, seed)

    async def open_gate():
        gate.set()

    runs = [mars_env.aevaluate("arithmetic-solve", agents=Waiting(hangs=False), limit=3) for _ in range(2)]
    one, two, _ = await asyncio.gather(*runs, open_gate())
    assert one.counts.episodes == two.counts.episodes == 3
    assert inspect.signature(mars_env.evaluate) == inspect.signature(mars_env.aevaluate)


async def test_a_cancelled_one_continues(tmp_path):
    out, agent = tmp_path / "run", Slow()
    options = {"limit": 20, "out": out, "concurrency": 4}
    task = asyncio.ensure_future(mars_env.aevaluate("arithmetic-solve", agents=agent, **options))
    while agent.calls < 14:
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(read_run(out).trees) >= 10
    again = Slow(hangs=False)
    report = await mars_env.aevaluate("arithmetic-solve", agents=again, **options)
    assert report.counts.episodes == 20 and again.calls == 10


SCRIPT = """
import asyncio, sys
import mars_env
from test_aevaluate import Slow

class Telling(Slow):
    async def act(self, observation, n, seed):
        if self.calls == 10:
            print("ready", flush=True)
        return await super().act(observation, n, seed)

async def main():
    await mars_env.aevaluate("arithmetic-solve", agents=Telling(), limit=20, out=sys.argv[1], concurrency=4)

asyncio.run(main())
"""


def test_ctrl_c_ends_it(tmp_path):
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "run")]
    running = subprocess.Popen(
        command, cwd=Path(__file__).parent, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert running.stdout.readline() == "ready\n"
    running.send_signal(signal.SIGINT)
    _, errors = running.communicate(timeout=300)  # the agent would hang for an hour
    assert "KeyboardInterrupt" in errors and running.returncode != 0
    assert len(read_run(tmp_path / "run").trees) >= 10
