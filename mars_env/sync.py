"""Async code from sync code, whether or not an event loop runs in this thread; gates; groups of tasks."""

import asyncio
import atexit
import inspect
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from contextvars import copy_context
from functools import partial, wraps
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_GRACE = 5.0
"""Seconds that an interrupted coroutine may take to end."""

_POLL = 0.5
"""Seconds after which the waiting thread looks for signals: one that comes just before it waits does not
wake it."""

_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None
_thread = threading.local()
"""``_thread.runs_loop`` is set in the threads whose event loops this module runs."""


def run_sync(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end on a background event loop and return its result.

    Works inside a notebook or a server, where `asyncio.run` raises. All calls share one loop per
    process (a forked child gets a new one), so what an async object keeps between calls stays valid. Ctrl-C
    cancels the coroutine and waits up to five seconds for it to clean up. Sync code that a coroutine calls
    there (a user's reward, say) may call this again.
    """
    global _loop
    if getattr(_thread, "runs_loop", False):
        return _run_in_new_thread(coroutine)
    with _lock:
        if _loop is None:
            _loop = asyncio.new_event_loop()
            thread = threading.Thread(target=_serve, args=(_loop,), name="mars-env-sync", daemon=True)
            thread.start()
            atexit.register(_end, _loop, thread)
        loop = _loop
    ended = threading.Event()

    async def run() -> T:
        try:
            return await coroutine
        finally:
            ended.set()

    future: Future[T] | None = None
    try:
        future = asyncio.run_coroutine_threadsafe(run(), loop)
        while not wait([future], _POLL).done:
            pass
        return future.result()
    except (KeyboardInterrupt, SystemExit):  # what signal handlers raise, here in the waiting thread
        if future is not None and future.cancel():
            ended.wait(_GRACE)
        raise


def blocking(function: Callable[P, Coroutine[Any, Any, T]], name: str) -> Callable[P, T]:
    """An async function as a sync one with the same arguments, under another name."""

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        return run_sync(function(*args, **kwargs))

    run.__name__ = run.__qualname__ = name
    return run


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    """Run a loop until it is stopped. A task's `SystemExit` breaks it off, and whoever waits gets it too."""
    _thread.runs_loop = True
    while True:
        with suppress(SystemExit, KeyboardInterrupt):
            return loop.run_forever()


def _run_in_new_thread(coroutine: Coroutine[Any, Any, T]) -> T:
    def run() -> T:
        _thread.runs_loop = True
        return asyncio.run(coroutine)

    return _started(run).result()


async def in_own_thread(function: Callable[[], T]) -> T:
    """What a user's sync function returns, run where a function that hangs takes no place from others.

    `asyncio.to_thread` has a few threads for the whole process, which waits for them at its exit.
    """

    def run() -> T:
        try:
            return function()
        except (StopIteration, SystemExit) as error:  # the first would hang a future, the second end a loop
            raise RuntimeError(repr(error)) from error

    return await asyncio.wrap_future(_started(partial(copy_context().run, run)))


def _started(function: Callable[[], T]) -> Future[T]:
    outcome: Future[T] = Future()
    outcome.set_running_or_notify_cancel()  # whoever waits may leave; the result is then dropped

    def run() -> None:
        try:
            outcome.set_result(function())
        except BaseException as error:
            outcome.set_exception(error)

    threading.Thread(target=run, name="mars-env-sync-nested", daemon=True).start()
    return outcome


def _end(loop: asyncio.AbstractEventLoop, thread: threading.Thread) -> None:
    """At interpreter exit: stop the loop and close what async objects hold in it, such as connections."""
    loop.call_soon_threadsafe(loop.stop)
    thread.join(_GRACE)
    if not thread.is_alive():
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        if tasks:  # first, since a generator that a task waits in cannot be closed
            loop.run_until_complete(asyncio.wait(tasks, timeout=_GRACE))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


def _after_fork() -> None:
    """In a forked child: the loop's thread is its parent's, and another thread may have held the lock."""
    global _lock, _loop
    _lock, _loop = threading.Lock(), None
    atexit.unregister(_end)


os.register_at_fork(after_in_child=_after_fork)


async def maybe_await(value: T | Awaitable[T]) -> T:
    """The value, awaited if it is awaitable: lets users' functions be sync or async."""
    if inspect.isawaitable(value):
        return await value
    return value


def awaitable(value: Awaitable[T], what: str) -> Awaitable[T]:
    """The value, which a user's async method returned.

    Raises:
        TypeError: It cannot be awaited, so the method is not async.
    """
    if not inspect.isawaitable(value):
        raise TypeError(f"{what} is not async: write `async def`")
    return value


@contextmanager
def only_own_cancellation() -> Iterator[None]:
    """Inside, a `CancelledError` says that the present task is cancelled; any other becomes a `RuntimeError`.

    Code of a user may raise one because what it waits for was cancelled. As an error of that code it can be
    handled; as a cancellation it would end the task that runs it.
    """
    try:
        yield
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise RuntimeError("what it waited for was cancelled") from error


class Gate:
    """Lets a limited number in at the same time, in each event loop; others wait in their order."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._by_loop: dict[asyncio.AbstractEventLoop, asyncio.Semaphore] = {}

    def __reduce__(self) -> "tuple[type[Gate], tuple[int]]":
        return Gate, (self.limit,)

    def semaphore(self) -> asyncio.Semaphore:
        """The running event loop's semaphore."""
        loop = asyncio.get_running_loop()
        if loop not in self._by_loop:
            running = {each: found for each, found in self._by_loop.items() if not each.is_closed()}
            self._by_loop = {**running, loop: asyncio.Semaphore(self.limit)}
        return self._by_loop[loop]


async def gather_all(awaitables: Iterable[Awaitable[T]]) -> list[T]:
    """The results of awaitables that run at the same time, in their order.

    If one fails, or this is cancelled, the others are cancelled and have ended when the error is raised.
    """
    tasks = [asyncio.ensure_future(each) for each in awaitables]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        await end_tasks(tasks)


async def end_tasks(tasks: Iterable[asyncio.Future[Any]]) -> None:
    """Cancel the tasks that are still running, and wait until they have ended; what they raise is dropped."""
    every = list(tasks)
    for task in every:
        task.cancel()
    if any(not task.done() for task in every):
        await asyncio.gather(*every, return_exceptions=True)
    for task in every:
        if not task.cancelled():
            task.exception()  # asyncio logs errors that are never retrieved
