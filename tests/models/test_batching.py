import asyncio
import gc
import random
import threading
import time
import weakref

import pytest

from mars_env.errors import ModelError
from mars_env.models.batching import hold_waves, submit


class Engine:
    """Answers with the request itself, and notes its waves."""

    def __init__(self, delay=0.0):
        self.waves, self.threads, self.delay = [], set(), delay

    def run(self, tickets):
        self.threads.add(threading.get_ident())
        time.sleep(self.delay() if callable(self.delay) else self.delay)
        self.waves.append([ticket.request for ticket in tickets])
        if any(ticket.request == "fail" for ticket in tickets):
            raise ModelError("told to fail")
        return {t: ModelError("one") if t.request == "one fails" else t.request for t in tickets}


async def turns(count):
    for _ in range(count):
        await asyncio.sleep(0)


async def test_requests_that_come_within_a_few_turns_share_a_wave():
    engine = Engine()

    async def ask(i):
        await turns(i % 7)
        return await submit(engine, i)

    assert await asyncio.gather(*map(ask, range(50))) == list(range(50))
    assert len(engine.waves) == 1
    assert engine.threads != {threading.get_ident()}


async def test_waves_do_not_depend_on_how_long_they_take():
    async def play(delay):
        engines = [Engine(delay), Engine(delay)]

        async def task(i):
            rng = random.Random(i)
            for step in range(4):
                await turns(rng.randrange(5))
                await submit(rng.choice(engines), (i, step))

        await asyncio.gather(*map(task, range(20)))
        return [engine.waves for engine in engines]

    jitter = random.Random(0)
    first = await play(0.0)
    assert await play(lambda: jitter.random() / 200) == first
    assert sum(map(len, first)) <= 10


async def test_a_failing_engine_fails_its_own_requests_only():
    good, bad = Engine(), Engine()
    outcomes = await asyncio.gather(
        submit(good, 1),
        submit(bad, "fail"),
        submit(good, "one fails"),
        submit(good, 2),
        return_exceptions=True,
    )
    assert outcomes[0] == 1 and outcomes[3] == 2
    assert isinstance(outcomes[1], ModelError) and isinstance(outcomes[2], ModelError)
    assert await submit(bad, "x") == "x"


async def test_cancelled_requests_are_marked_and_harm_nobody():
    engine = Engine(0.02)
    tasks = [asyncio.ensure_future(submit(engine, i)) for i in range(3)]
    await turns(1)
    tasks[0].cancel()
    await asyncio.sleep(0.01)
    tasks[1].cancel()
    done = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(done[0], asyncio.CancelledError) and isinstance(done[1], asyncio.CancelledError)
    assert done[2] == 2


def test_a_loop_may_close_while_requests_wait():
    engine = Engine(0.1)

    async def main():
        waiting = asyncio.ensure_future(submit(engine, 1))
        await asyncio.sleep(0.02)
        return waiting

    assert asyncio.run(main()).cancelled()


def test_closed_loops_are_forgotten():
    async def main():
        await submit(Engine(), 1)
        return weakref.ref(asyncio.get_running_loop())

    loop = asyncio.run(main())
    gc.collect()
    assert loop() is None


async def test_only_one_wave_of_a_process_runs_at_a_time():
    running, most = 0, 0

    class Counting(Engine):
        def run(self, tickets):
            nonlocal running, most
            running += 1
            most = max(most, running)
            time.sleep(0.01)
            running -= 1
            return super().run(tickets)

    await asyncio.gather(*(asyncio.to_thread(lambda: asyncio.run(submit(Counting(), 1))) for _ in range(5)))
    assert most == 1


async def test_work_in_step_holds_the_waves_up_and_ends_in_the_order_of_its_beginning():
    async def play(delays):
        engine, ended = Engine(), []

        async def task(i):
            await submit(engine, (i, "first"))
            async with hold_waves():
                await asyncio.to_thread(time.sleep, delays[i])
            ended.append(i)
            await submit(engine, (i, "second"))

        await asyncio.gather(*map(task, range(6)))
        return [sorted(wave) for wave in engine.waves], engine.waves[1], ended

    rng = random.Random(0)
    runs = [await play([rng.uniform(0, 0.03) for _ in range(6)]) for _ in range(5)]
    waves, second, ended = runs[0]
    assert waves == [[(i, "first") for i in range(6)], [(i, "second") for i in range(6)]]
    assert ended == list(range(6)) == [i for i, _ in second]
    assert all(run == runs[0] for run in runs)


async def test_work_in_step_may_ask_a_model_itself_and_be_nested():
    engine = Engine()

    async def judge(i):
        async with hold_waves(), hold_waves():
            await asyncio.sleep(0.001 * (3 - i))
            answers = await asyncio.gather(submit(engine, (i, "a")), submit(engine, (i, "b")))
            await asyncio.sleep(0.001 * i)
            return len(answers)

    assert await asyncio.wait_for(asyncio.gather(*map(judge, range(3))), 20) == [2, 2, 2]
    assert sum(map(len, engine.waves)) == 6


@pytest.mark.parametrize("how", ["fails", "is cancelled"])
async def test_work_in_step_that_ends_otherwise_holds_nothing_up(how):
    engine = Engine()

    async def broken():
        async with hold_waves():
            await asyncio.sleep(0.005)
            if how == "fails":
                raise ValueError("broken")
            await asyncio.sleep(60)

    task = asyncio.create_task(broken())
    await asyncio.sleep(0.02)
    task.cancel()
    with pytest.raises((ValueError, asyncio.CancelledError)):
        await task
    async with hold_waves():
        await asyncio.sleep(0)
    assert await asyncio.wait_for(submit(engine, 1), 20) == 1
