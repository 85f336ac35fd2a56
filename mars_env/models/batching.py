"""Concurrent requests gathered into batches: the torch-free part of in-process models.

Requests made at the same time are a wave. It is answered as a whole before the next one begins, and engines
sort its requests, so the batches, and every bit of the answers, are the same in each run.
"""

import asyncio
import concurrent.futures
import threading
import weakref
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from mars_env.errors import ConfigError

Q = TypeVar("Q")
A = TypeVar("A")

QUIET_TURNS = 16
"""Turns of the event loop without a new request after which a wave starts."""

_locks: weakref.WeakKeyDictionary[Any, threading.RLock] = weakref.WeakKeyDictionary()
_device_locks: dict[Any, threading.Lock] = {}
_registry_lock = threading.Lock()


def lock_of(module: Any) -> threading.RLock:
    """The lock of a model's weights, held while they compute or change; adapters share their base's."""
    with _registry_lock:
        return _locks.setdefault(getattr(module, "shared_base", module), threading.RLock())


@dataclass(eq=False, slots=True)
class Ticket(Generic[Q, A]):
    """A pending request."""

    request: Q
    future: asyncio.Future[A] | concurrent.futures.Future[A]

    @property
    def dropped(self) -> bool:
        """Whether its caller has stopped waiting."""
        return self.future.cancelled()


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """Most rows, and tokens (prompts and limits), that are decoded together; a single row may have more."""

    rows: int = 512
    tokens: int = 2**18

    def __post_init__(self) -> None:
        if self.rows < 1 or self.tokens < 1:
            raise ConfigError(f"a batch has at least 1 row and 1 token, got {self.rows} and {self.tokens}")


class WaveEngine(Protocol[Q, A]):
    """An engine that answers waves, in a worker thread."""

    @property
    def device(self) -> Any:
        """Where it computes: engines on one device run in turn."""

    @property
    def lock(self) -> AbstractContextManager[Any]:
        """Held while it runs."""

    def run(self, tickets: Sequence[Ticket[Q, A]]) -> Mapping[Ticket[Q, A], A | BaseException]:
        """The answer to each ticket that has not been dropped, or its error."""


@dataclass(eq=False, slots=True)
class _Queue:
    """The pending requests of one event loop, for all engines, in the order of their first request."""

    waiting: dict[Any, list[Ticket[Any, Any]]] = field(default_factory=dict)
    arrived: int = 0
    pump: asyncio.Task[None] | None = None
    outside: int = 0
    """Steps (see `hold_waves`) that are at work, not waiting for a wave."""
    idle: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when there are none."""

    def count_outside(self, change: int) -> None:
        self.outside += change
        if self.outside:
            self.idle.clear()
        else:
            self.idle.set()


_queues: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Queue] = weakref.WeakKeyDictionary()


@dataclass(eq=False, slots=True)
class _Step:
    """Work within `hold_waves`; it is outside while none of its requests waits for a wave."""

    queue: _Queue
    requests: int = 0
    ended: bool = False

    def count(self, change: int) -> None:
        was_waiting, self.requests = self.requests > 0, self.requests + change
        if not self.ended and was_waiting != (self.requests > 0):
            self.queue.count_outside(1 if was_waiting else -1)


_step: ContextVar[_Step | None] = ContextVar("step", default=None)


def _queue() -> _Queue:
    with _registry_lock:
        return _queues.setdefault(asyncio.get_running_loop(), _Queue())


@asynccontextmanager
async def hold_waves() -> AsyncGenerator[None]:
    """Let no wave start during work of unpredictable length that leads to requests, such as grading.

    So the waves do not depend on how long it takes. Requests made inside are served as usual.
    """
    outer, queue = _step.get(), _queue()
    if outer is not None and outer.queue is queue and not outer.ended:
        yield
        return
    queue.count_outside(1)
    step = _Step(queue)
    token = _step.set(step)
    try:
        yield
    finally:
        _step.reset(token)
        step.ended = True
        if not step.requests:
            queue.count_outside(-1)


async def submit(engine: WaveEngine[Q, A], request: Q) -> A:
    """Put a request into the next wave of this event loop and wait for its answer.

    A wave starts when no new request has come for `QUIET_TURNS` turns of the loop. No clock is read, and all
    engines of a loop share its waves, so they are the same in each run, if tasks wait for models alone.
    """
    loop, queue = asyncio.get_running_loop(), _queue()
    answer: asyncio.Future[A] = loop.create_future()
    queue.waiting.setdefault(engine, []).append(Ticket(request, answer))
    queue.arrived += 1
    if queue.pump is None or queue.pump.done():
        queue.pump = loop.create_task(_pump(queue), name="mars-env-batching")
    step = _step.get()
    if step is None or step.queue is not queue:
        return await answer
    step.count(1)  # it waits for a wave, so no wave must wait for it
    try:
        return await answer
    finally:
        step.count(-1)


async def _pump(queue: _Queue) -> None:
    wave: dict[Any, list[Ticket[Any, Any]]] = {}
    try:
        while queue.waiting:
            await _idle(queue)
            wave, queue.waiting = queue.waiting, {}
            runs = (asyncio.to_thread(_run, engine, tickets) for engine, tickets in wave.items())
            for answers in await asyncio.gather(*runs):  # in the same order, whichever engine ends first
                _answer(answers)
    finally:
        queue.pump = None  # a task holds its loop, and the loop is the queue's weak key
        # Requests remain only if the loop is closing: their callers must not wait for ever.
        for ticket in (t for tickets in (*wave.values(), *queue.waiting.values()) for t in tickets):
            if not ticket.future.done():
                ticket.future.cancel()


def _answer(answers: Mapping[Ticket[Q, A], A | BaseException]) -> None:
    for ticket, answer in answers.items():
        if ticket.future.done():
            continue
        if isinstance(answer, BaseException):
            ticket.future.set_exception(answer)
        else:
            ticket.future.set_result(answer)


async def _idle(queue: _Queue) -> None:
    quiet, seen = 0, -1
    while quiet < QUIET_TURNS:
        if queue.outside:
            await queue.idle.wait()
            quiet = 0
        await asyncio.sleep(0)
        quiet, seen = (quiet + 1, seen) if queue.arrived == seen else (0, queue.arrived)


def _run(
    engine: WaveEngine[Q, A], tickets: Sequence[Ticket[Q, A]]
) -> Mapping[Ticket[Q, A], A | BaseException]:
    with _registry_lock:
        device_lock = _device_locks.setdefault(engine.device, threading.Lock())
    with engine.lock, device_lock:
        try:
            return engine.run(tickets)
        except Exception as error:  # it fails its own requests, not those of other engines
            return dict.fromkeys(tickets, error)
