"""Evaluations inside of an event loop."""

import asyncio
import inspect

import pytest

import mars_env
from mars_env.rollout import read_run
from mars_env.types import Action


class Waiting:
    """An agent that answers so many times, and then waits for its gate."""

    policy = "waiting"

    def __init__(self, answers=0):
        self.calls, self.answers, self.gate = 0, answers, asyncio.Event()

    def identity(self):
        return {}

    async def act(self, observation, n, seed):
        self.calls += 1
        if self.calls > self.answers:
            await self.gate.wait()
        return [Action("\\boxed{5}")] * n


async def test_the_loop_goes_on_meanwhile():
    """Two runs end only because a task beside them lets them."""
    agent = Waiting()

    async def open_gate():
        agent.gate.set()

    runs = [mars_env.aevaluate("arithmetic-solve", agents=agent, limit=3) for _ in range(2)]
    one, two, _ = await asyncio.gather(*runs, open_gate())
    assert one.counts.episodes == two.counts.episodes == 3
    assert inspect.signature(mars_env.evaluate) == inspect.signature(mars_env.aevaluate)


async def test_a_cancelled_one_continues(tmp_path):
    out, agent = tmp_path / "run", Waiting(answers=10)
    options = {"limit": 20, "out": out, "concurrency": 4}
    task = asyncio.ensure_future(mars_env.aevaluate("arithmetic-solve", agents=agent, **options))
    while agent.calls < 14:
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(read_run(out).trees) >= 10
    again = Waiting(answers=20)
    report = await mars_env.aevaluate("arithmetic-solve", agents=again, **options)
    assert report.counts.episodes == 20 and again.calls == 10
