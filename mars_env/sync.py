"""Async code from sync code, whether or not an event loop runs in this thread; gates; groups of tasks."""

import asyncio
import atexit
import inspect
import os
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import asynccontextmanager, contextmanager, suppress
from contextvars import ContextVar, copy_context
from functools import partial, wraps
from typing import Any, ParamSpec, TypeVar

from mars_env.errors import ContextError, ServerDown

P = ParamSpec("P")
T = TypeVar("T")

_GRACE = 5.0  # seconds that an interrupted coroutine may take to end
_POLL = 0.5  # seconds after which a waiting thread looks for signals: one just before does not wake it
_ENDS_RUN = (ContextError, ServerDown)  # errors of a sample that end a run

_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None
_thread = threading.local()  # its runs_loop is set in the threads whose event loops this module runs


def run_sync(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end on a background event loop, also in a notebook or a server.

    All calls share one loop per process, so what an async object keeps between calls stays valid. Ctrl-C
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
    parameters = inspect.signature(function)

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            parameters.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{name}(): {error}") from None
        return run_sync(function(*args, **kwargs))

    run.__name__ = run.__qualname__ = name
    return run


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    """A task's `SystemExit` breaks a loop off, and whoever waits gets it too."""
    _thread.runs_loop = True
    while True:
        with suppress(SystemExit, KeyboardInterrupt):
            return loop.run_forever()


def _run_in_new_thread(coroutine: Coroutine[Any, Any, T]) -> T:
    def run() -> T:
        _thread.runs_loop = True
        return asyncio.run(coroutine)

    return _started(run).result()


async def call_async(function: Callable[..., Any], *args: Any) -> Any:
    """What a function gives; one that is not async runs in a thread of its own, so that it blocks nothing.

    Example:
        >>> asyncio.run(call_async(max, 1, 2))
        2
    """
    if inspect.iscoroutinefunction(function):
        return await function(*args)
    return await maybe_await(await in_own_thread(partial(function, *args)))


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
    """At exit: close what async objects hold in the loop, such as connections."""
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
    """The value, awaited if it is awaitable."""
    if inspect.isawaitable(value):
        return await value
    return value


def awaitable(value: Awaitable[T], what: str) -> Awaitable[T]:
    """The value that a user's async method returned; a TypeError if it is not async."""
    if not inspect.isawaitable(value):
        raise TypeError(f"{what} is not async: write `async def`")
    return value


@contextmanager
def only_own_cancellation() -> Iterator[None]:
    """Inside, a `CancelledError` says that the present task is cancelled; any other becomes a `RuntimeError`.

    A user's code may raise one because what it waits for was cancelled: that must not end the task.
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
            running = {other: each for other, each in self._by_loop.items() if not other.is_closed()}
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


_turn: ContextVar[tuple[asyncio.Timeout, float] | None] = ContextVar("turn", default=None)
"""The present turn's limit, and its seconds."""


@asynccontextmanager
async def turn_limit(seconds: float | None) -> AsyncGenerator[None]:
    """Inside, a TimeoutError is raised after so many seconds; `gather_samples` loses late samples alone."""
    limit = asyncio.timeout(seconds)
    token = _turn.set(None if seconds is None else (limit, seconds))
    try:
        async with limit:
            yield
    except TimeoutError:
        if limit.expired():
            raise TimeoutError(f"no action within {seconds:g} s") from None
        raise
    finally:
        _turn.reset(token)


async def gather_samples(
    samples: Iterable[Coroutine[Any, Any, T]], lost: Callable[[int, Exception], T]
) -> list[T]:
    """The results of the samples of a turn, which run at the same time, in their order.

    A sample that fails, or is late for the turn's limit, is what `lost` makes of its number and its error. If
    all are lost, the first error is raised; and so is an error that ends a run.
    """
    limit, token = _turn.get(), _turn.set(None)  # the limit is kept here, not by what the samples wait for
    try:
        tasks = [asyncio.create_task(sample) for sample in samples]
    finally:
        _turn.reset(token)
    await _wait_for(tasks, limit)
    late = TimeoutError("no action within " + ("its time" if limit is None else f"{limit[1]:g} s"))
    errors = [late if task.cancelled() else task.exception() for task in tasks]
    raised = [error for error in errors if error is not None]
    for error in raised:
        if len(raised) == len(tasks) or isinstance(error, _ENDS_RUN) or not isinstance(error, Exception):
            raise error
    return [
        lost(number, error) if isinstance(error, Exception) else task.result()
        for number, (task, error) in enumerate(zip(tasks, errors, strict=True))
    ]


async def _wait_for(tasks: Sequence[asyncio.Task[Any]], limit: tuple[asyncio.Timeout, float] | None) -> None:
    until = None if limit is None or limit[0].expired() else limit[0].when()
    loop = asyncio.get_running_loop()
    if limit is None or until is None:
        left = None
    else:
        left = max(0.0, until - loop.time())
        limit[0].reschedule(None)
    try:
        if tasks:
            await asyncio.wait(tasks, timeout=left)
    finally:
        await end_tasks(tasks)
        if limit is not None and until is not None:
            limit[0].reschedule(max(until, loop.time() + _GRACE))


async def end_tasks(tasks: Iterable[asyncio.Future[Any]]) -> None:
    """Cancel tasks and wait until they have ended; what they raise is dropped."""
    every = list(tasks)
    for task in every:
        task.cancel()
    if any(not task.done() for task in every):
        await asyncio.gather(*every, return_exceptions=True)
    for task in every:
        if not task.cancelled():
            task.exception()  # asyncio logs errors that are never retrieved
