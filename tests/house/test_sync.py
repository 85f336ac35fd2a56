"""Async code called from sync code, and tasks that end together: nothing hangs, nothing is told twice."""

import asyncio
import gc
import os
import pickle
import signal

import pytest
from command_line import run_python

from mars_env import sync
from mars_env.sandbox import service
from mars_env.sync import Gate, end_tasks, gather_all, run_sync


async def told(events, name, seconds=60.0, error=None):
    """Waits, then fails or returns its name; says how it ended."""
    try:
        await asyncio.sleep(seconds)
        if error is not None:
            raise error
        return name
    finally:
        events.append(name)


async def test_results_come_in_the_order_of_the_calls():
    events = []
    calls = [told(events, "a", 0.02), told(events, "b", 0)]
    assert await gather_all(calls) == ["a", "b"]
    assert events == ["b", "a"] and await gather_all([]) == []


async def test_the_first_failure_ends_the_others_before_it_is_raised():
    events = []
    with pytest.raises(ValueError):
        await gather_all(
            [told(events, "slow"), told(events, "bad", 0, ValueError("no")), told(events, "late")]
        )
    assert sorted(events) == ["bad", "late", "slow"]


async def test_a_cancelled_call_ends_what_it_waits_for():
    events = []
    task = asyncio.create_task(gather_all([told(events, "slow")]))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await end_tasks([task])
    assert task.cancelled() and events == ["slow"]


async def test_what_ended_tasks_raise_is_dropped_and_finished_ones_cost_no_turn_of_the_loop(caplog):
    async def fail():
        raise ValueError("x")

    async def stubborn():
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            raise ValueError("not so fast") from None

    done, bad = asyncio.create_task(fail()), asyncio.create_task(stubborn())
    await asyncio.sleep(0)
    await end_tasks([done, bad])
    del done
    gc.collect()
    assert not caplog.records
    assert isinstance(bad.exception(), ValueError)
    turns = []
    asyncio.get_running_loop().call_soon(turns.append, 1)
    await end_tasks([bad])
    assert turns == []


def test_a_gate_admits_so_many_in_each_loop_and_survives_pickling():
    gate = Gate(2)

    async def most():
        inside = highest = 0

        async def one():
            nonlocal inside, highest
            async with gate.semaphore():
                inside += 1
                highest = max(highest, inside)
                await asyncio.sleep(0)
                inside -= 1

        await asyncio.gather(*(one() for _ in range(6)))
        return highest

    assert [asyncio.run(most()), asyncio.run(most())] == [2, 2]
    assert pickle.loads(pickle.dumps(gate)).limit == 2


NESTED = """
from mars_env.sync import run_sync

async def depth(left):
    return run_sync(depth(left - 1)) + 1 if left else 0  # sync code inside of a loop, as a user's reward is

async def fails():
    run_sync(depth("three"))

print(run_sync(depth(3)))
try:
    run_sync(fails())
except TypeError:
    print("told")
"""

EXITS = """
import asyncio, sys
from mars_env.sync import run_sync

async def leaves():
    sys.exit("no key")

async def waits():
    await asyncio.create_task(leaves())

for coroutine in (leaves, waits):
    try:
        run_sync(coroutine())
    except SystemExit as error:
        print(error)

async def still_there():
    return "still there"

print(run_sync(still_there()))
"""

MISSED = """
import asyncio, signal, threading
from mars_env.sync import run_sync

async def told_alone():
    signal.pthread_kill(threading.get_ident(), signal.SIGINT)  # taken here: the waiting thread sleeps on
    await asyncio.sleep(600)

try:
    run_sync(told_alone())
except KeyboardInterrupt:
    print("stopped")
"""


@pytest.mark.parametrize(
    ("program", "printed"),
    [(NESTED, "3 told"), (EXITS, "no key no key still there"), (MISSED, "stopped")],
    ids=["nested", "exit", "missed signal"],
)
def test_sync_code_in_the_loop_neither_waits_for_itself_nor_ends_the_loop(program, printed):
    done = run_python(program)
    assert done.returncode == 0 and done.stdout.split() == printed.split(), done.stderr


@pytest.mark.parametrize("module", [sync, service], ids=["the loop of sync code", "the loop of sandboxes"])
def test_a_child_forked_while_a_thread_holds_the_lock_runs_on(module):
    def run():
        signal.alarm(120)  # ends a child that waits for the lock
        waiting = asyncio.sleep(0, 4)
        assert (run_sync(waiting) if module is sync else asyncio.run(service.on_service_loop(waiting))) == 4

    with module._lock:
        child = os.fork()
        if child == 0:
            status = 1
            try:
                run()
                status = 0
            finally:
                os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
