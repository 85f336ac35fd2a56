"""Evaluations inside of an event loop."""

import asyncio
import inspect

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
