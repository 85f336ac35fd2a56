"""Slots of an engine, counted on the client's side: the client decides which request is served next."""

import asyncio
import heapq
import itertools
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from mars_env.checks import require_integer


@dataclass(eq=False, slots=True)
class Claim:
    """Slots that are promised to a group of requests."""

    slots: "Slots"
    priority: int  # lower is served first
    promised: int  # requests that the group will make at once and has not made yet


_claim: ContextVar[Claim | None] = ContextVar("claim", default=None)


class Slots:
    """Admits as many requests as an engine decodes in parallel; others wait and are served by priority.

    The priority is that of the `Claim` in whose context a request is made (see `under`), or else 0. Take the
    engine's own limit as `capacity` (vLLM: ``max_num_seqs`` of all replicas).
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = self._free = require_integer(capacity, "capacity")
        self._promised = 0
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._room: list[asyncio.Future[None]] = []
        self._numbers = itertools.count()

    @property
    def busy(self) -> int:
        """Slots in use."""
        return self.capacity - self._free

    @property
    def waiting(self) -> int:
        """Requests that wait for a slot."""
        return sum(not future.done() for _, _, future in self._waiting)  # cancelled ones are still listed

    @property
    def under_way(self) -> int:
        """Requests that have a slot or wait for one."""
        return self.busy + self.waiting

    @asynccontextmanager
    async def hold(self) -> AsyncGenerator[None]:
        """Wait for a slot, and occupy it."""
        claim = _claim.get()
        mine = claim is not None and claim.slots is self
        if claim is not None and mine and claim.promised:
            claim.promised -= 1
            self._promised -= 1
        if self._free:
            self._free -= 1
        else:
            await self._wait(claim.priority if claim is not None and mine else 0)
        try:
            yield
        finally:
            self._free += 1
            self._serve()

    async def room(self) -> None:
        """Wait until a slot is free for which no request waits and which is not promised."""
        while self._free <= self._promised:
            future = asyncio.get_running_loop().create_future()
            self._room.append(future)
            await future

    def promise(self, priority: int, requests: int) -> Claim:
        """Promise slots to this many requests; `room` counts them as used until the requests come."""
        self._promised += requests
        return Claim(self, priority, requests)

    def withdraw(self, claim: Claim) -> None:
        """Withdraw the rest of a promise: no more of its requests will come."""
        self._promised -= claim.promised
        claim.promised = 0
        self._serve()

    async def _wait(self, priority: int) -> None:
        future = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (priority, next(self._numbers), future))
        try:
            await future
        except asyncio.CancelledError:
            if not future.cancelled():  # it got a slot, but was cancelled before it could run
                self._free += 1
                self._serve()
            raise

    def _serve(self) -> None:
        while self._free and self._waiting:
            _, _, future = heapq.heappop(self._waiting)
            if not future.done():
                self._free -= 1
                future.set_result(None)
        if self._room and self._free > self._promised:
            for future in self._room:
                if not future.done():
                    future.set_result(None)
            self._room.clear()


@contextmanager
def under(claim: Claim | None) -> Iterator[None]:
    """Requests made in this context, and in tasks that are created in it, belong to the claim."""
    token = _claim.set(claim)
    try:
        yield
    finally:
        _claim.reset(token)
