"""The event loop of all sandboxes in a process, in its own thread: a warm one may outlive a caller's loop."""

import asyncio
import concurrent.futures
import os
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None


def _after_fork() -> None:
    """In a forked child: the loop's thread is its parent's, and another thread may have held the lock."""
    global _lock, _loop
    _lock, _loop = threading.Lock(), None


os.register_at_fork(after_in_child=_after_fork)


def service_loop() -> asyncio.AbstractEventLoop:
    """This process's loop, started at the first call; a forked child gets a new one."""
    global _loop
    with _lock:
        if _loop is None:
            _loop = asyncio.new_event_loop()
            # Sandboxes die with the thread that started them, so this thread lives as long as the process.
            threading.Thread(target=_loop.run_forever, name="mars-env-sandbox", daemon=True).start()
        return _loop


async def on_service_loop(coroutine: Coroutine[Any, Any, T]) -> T:
    """Await a coroutine that runs on the service loop; cancelling cancels it and waits for its end."""
    loop = service_loop()
    if asyncio.get_running_loop() is loop:
        return await coroutine
    outcome: concurrent.futures.Future[T] = concurrent.futures.Future()
    tasks: list[asyncio.Task[T]] = []

    def hand_over(task: asyncio.Task[T]) -> None:
        try:
            outcome.set_result(task.result())
        except BaseException as error:
            outcome.set_exception(error)

    def start() -> None:
        tasks.append(loop.create_task(coroutine))
        tasks[0].add_done_callback(hand_over)

    loop.call_soon_threadsafe(start)
    waiter = asyncio.wrap_future(outcome)
    try:
        return await asyncio.shield(waiter)
    except asyncio.CancelledError:
        loop.call_soon_threadsafe(lambda: tasks[0].cancel())
        await asyncio.wait([waiter])
        if not waiter.cancelled():
            waiter.exception()  # retrieve it, so that asyncio does not report it as never retrieved
        raise
