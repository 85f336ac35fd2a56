import asyncio
import random
import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mars_env.errors import ModelError
from mars_env.models.batching import QUIET_TURNS, hold_waves, submit


class Engine:
    """Answers with the request itself, and notes its waves."""

    def __init__(self, delay=0.0, device="cpu"):
        self.waves, self.threads, self.delay = [], set(), delay
        self.device, self.lock = device, threading.RLock()

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
    begun, end = threading.Event(), threading.Event()
    engine = Engine(lambda: begun.set() or end.wait() * 0)
    tasks = [asyncio.ensure_future(submit(engine, i)) for i in range(3)]
    await turns(1)
    tasks[0].cancel()
    await asyncio.to_thread(begun.wait)
    tasks[1].cancel()
    end.set()
    done = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(done[0], asyncio.CancelledError) and isinstance(done[1], asyncio.CancelledError)
    assert done[2] == 2


async def test_engines_of_one_device_run_in_turn_for_all_event_loops():
    running = []

    class Counting(Engine):
        def run(self, tickets):
            running.append(self)
            time.sleep(0.02)
            assert running == [self]
            running.remove(self)
            return super().run(tickets)

    engines = [Counting(), Counting()]
    here = [submit(engine, 1) for engine in engines]
    elsewhere = [asyncio.to_thread(lambda: asyncio.run(submit(engines[0], 1))) for _ in range(3)]
    assert await asyncio.gather(*here, *elsewhere) == [1] * 5


async def test_engines_of_two_devices_run_at_the_same_time():
    both = threading.Barrier(2)  # each waits until the other runs, too
    engines = [Engine(lambda: both.wait(60) * 0, device) for device in ("cuda:0", "cuda:1")]
    assert await asyncio.gather(*(submit(engine, 1) for engine in engines)) == [1, 1]


async def test_an_engine_whose_lock_is_held_holds_up_no_other():
    held, free, ran = Engine(), Engine(), threading.Event()
    free.delay = lambda: ran.set() or 0.0
    with held.lock:
        tasks = [asyncio.ensure_future(submit(engine, 1)) for engine in (held, free)]
        assert await asyncio.to_thread(ran.wait, 60)
        assert not held.waves
        assert await asyncio.to_thread(lambda: asyncio.run(submit(free, 2))) == 2  # in another event loop
    assert await asyncio.gather(*tasks) == [1, 1]


@settings(max_examples=20, deadline=None)
@given(st.permutations(range(6)))
def test_work_in_step_holds_the_waves_up_in_whatever_order_it_ends(order):
    engine, gates = Engine(), [asyncio.Event() for _ in range(6)]

    async def task(i):
        await submit(engine, (i, "first"))
        async with hold_waves():
            await gates[i].wait()
        await submit(engine, (i, "second"))

    async def play():
        tasks = [asyncio.create_task(task(i)) for i in range(6)]
        while not engine.waves:
            await asyncio.sleep(0)
        for i in order:
            await turns(2 * QUIET_TURNS)
            gates[i].set()
        await asyncio.gather(*tasks)

    asyncio.run(play())
    assert [sorted(wave) for wave in engine.waves] == [
        [(i, word) for i in range(6)] for word in ("first", "second")
    ]


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
    assert await asyncio.wait_for(submit(engine, 1), 300) == 1
