"""Concurrent requests gathered into batches: the torch-free part of in-process models.

Requests that come later join the batch under way, as others leave it. With `whole_waves` they wait until all
are answered, so that the batches, and every bit of the answers, are the same in each run.
"""

import asyncio
import threading
import weakref
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from mars_env.errors import ConfigError

Q = TypeVar("Q")
A = TypeVar("A")

QUIET_TURNS = 16
"""Turns of the event loop without a new request after which a wave starts."""

engine_lock = threading.RLock()
"""Held while a batch runs, and while weights change: one at a time in a process."""


@dataclass(eq=False, slots=True)
class Ticket(Generic[Q, A]):
    """A pending request, the future of its answer, and whether its wave is a whole one (`whole_waves`)."""

    request: Q
    future: asyncio.Future[A]
    whole: bool = False

    @property
    def dropped(self) -> bool:
        """Whether its caller has stopped waiting."""
        return self.future.cancelled()


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """How much is decoded together.

    Attributes:
        rows: Most samples.
        tokens: Most tokens, prompts and limits added up; a single sample may have more.
    """

    rows: int = 512
    tokens: int = 2**18

    def __post_init__(self) -> None:
        if self.rows < 1 or self.tokens < 1:
            raise ConfigError(f"a batch has at least 1 row and 1 token, got {self.rows} and {self.tokens}")


class WaveEngine(Protocol[Q, A]):
    """An engine that runs batches: called in a worker thread, one engine per process at a time."""

    def run(self, tickets: Sequence[Ticket[Q, A]]) -> Mapping[Ticket[Q, A], A | BaseException]:
        """Answers, or errors, by ticket. It is called again with the others, and with new ones after them."""


@dataclass(eq=False, slots=True)
class _Queue:
    """The pending requests of one event loop, for all models: engines in the order of their first request."""

    waiting: dict[Any, list[Ticket[Any, Any]]] = field(default_factory=dict)
    arrived: int = 0
    whole: bool = False
    """Whether new requests wait until all others are answered."""
    pump: asyncio.Task[None] | None = None
    outside: int = 0
    """Steps (see `hold_waves`) that are at work, not waiting for a wave."""
    leaving: list[asyncio.Future[None]] = field(default_factory=list)
    """Those that wait until there are none, in the order in which they started."""

    def count_outside(self, change: int) -> None:
        self.outside += change
        if not self.outside:
            asyncio.get_running_loop().call_soon(self._let_go)  # also the last one goes in its turn

    def _let_go(self) -> None:
        if self.outside:
            return
        leaving, self.leaving = self.leaving, []
        for place in leaving:
            if not place.done():
                place.set_result(None)


_queues: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Queue] = weakref.WeakKeyDictionary()
_queues_lock = threading.Lock()


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
    """The queue of the running event loop."""
    with _queues_lock:
        return _queues.setdefault(asyncio.get_running_loop(), _Queue())


def whole_waves() -> None:
    """From now on, new requests in this event loop wait until all others are answered."""
    _queue().whole = True


@asynccontextmanager
async def hold_waves() -> AsyncGenerator[None]:
    """Let no wave start during work of unpredictable length that leads to requests, such as grading.

    What runs concurrently ends together, in the order in which it started, so the waves do not depend on how
    long it takes. Requests made inside are served as usual.
    """
    outer, queue = _step.get(), _queue()
    if outer is not None and outer.queue is queue and not outer.ended:
        yield
        return
    place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    queue.leaving.append(place)
    queue.count_outside(1)
    step = _Step(queue)
    token = _step.set(step)
    try:
        yield
    except BaseException:
        place.cancel()  # a failed one does not wait for the others
        raise
    finally:
        _step.reset(token)
        step.ended = True
        if not step.requests:
            queue.count_outside(-1)
    await place


async def submit(engine: WaveEngine[Q, A], request: Q) -> A:
    """Put a request into the next wave of this event loop and wait for its answer.

    A wave starts when every task that could run has run, and no new request has come for `QUIET_TURNS` turns
    of the loop. No clock is read, so the waves are the same in each run, as long as the tasks wait for
    nothing but models. All engines of a loop share its waves for the same reason.
    """
    loop, queue = asyncio.get_running_loop(), _queue()
    ticket: Ticket[Q, A] = Ticket(request, loop.create_future(), queue.whole)
    queue.waiting.setdefault(engine, []).append(ticket)
    queue.arrived += 1
    if queue.pump is None or queue.pump.done():
        queue.pump = loop.create_task(_pump(queue), name="mars-env-batching")
    step = _step.get()
    if step is None or step.queue is not queue:
        return await ticket.future
    step.count(1)  # it waits for a wave, so no wave must wait for it
    try:
        return await ticket.future
    finally:
        step.count(-1)


async def _pump(queue: _Queue) -> None:
    """Run waves until no request is pending."""
    pending: dict[Any, list[Ticket[Any, Any]]] = {}
    try:
        while queue.waiting or pending:
            await _idle(queue)
            wave, queue.waiting = queue.waiting, {}
            for engine, tickets in wave.items():
                pending.setdefault(engine, []).extend(tickets)
            for ticket, answer in (await asyncio.to_thread(_run, pending, whole=queue.whole)).items():
                if ticket.future.done():
                    continue
                if isinstance(answer, BaseException):
                    ticket.future.set_exception(answer)
                else:
                    ticket.future.set_result(answer)
            for engine, tickets in [*pending.items()]:
                tickets[:] = [ticket for ticket in tickets if not ticket.future.done()]
                if not tickets:
                    del pending[engine]
    finally:
        queue.pump = None  # a task holds its loop, and the loop is the queue's weak key
        # Requests remain only if the loop is closing: their callers must not wait for ever.
        for ticket in (t for group in (*pending.values(), *queue.waiting.values()) for t in group):
            if not ticket.future.done():
                ticket.future.cancel()


async def _idle(queue: _Queue) -> None:
    quiet, seen = 0, -1
    while quiet < QUIET_TURNS:
        if queue.outside:
            place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            queue.leaving.append(place)
            await place
            quiet = 0
        await asyncio.sleep(0)
        quiet, seen = (quiet + 1, seen) if queue.arrived == seen else (0, queue.arrived)


def _run(
    pending: Mapping[WaveEngine[Any, Any], Sequence[Ticket[Any, Any]]], *, whole: bool
) -> dict[Ticket[Any, Any], Any]:
    """What the engines answer now; all of it, if the waves are whole."""
    answers: dict[Ticket[Any, Any], Any] = {}
    for engine, tickets in pending.items():
        left = list(tickets)
        with engine_lock:
            while left:
                try:
                    answers |= engine.run(left)
                except Exception as error:  # it fails its own requests, not those of other engines
                    answers |= dict.fromkeys(left, error)
                left = [ticket for ticket in left if ticket not in answers] if whole else []
    return answers
