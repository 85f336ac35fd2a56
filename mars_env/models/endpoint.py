"""The servers of one model: their addresses, how busy each is, until when it rests, which one is next."""

import asyncio
import math
import os
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from operator import attrgetter
from typing import Self

from yarl import URL

from mars_env.errors import ConfigError, ServerDown
from mars_env.net import NETWORK_ERRORS, request
from mars_env.sync import Gate
from mars_env.text import logger

log = logger(__name__)

LONGEST_REST = 30.0
"""Seconds that an endpoint rests at most, unless its server names a longer time."""

_POLL = 0.02
"""Seconds between two looks at endpoints of which none is ready; one call looks for all that wait."""

_HEALTH_BYTES = 2**20
"""Longest answer of a server about its health."""

_NOTICED = 3
"""After this many failures in a row an endpoint is reported as down."""


class Endpoint:
    """One server: how busy it is, and its health, which all calls share.

    After a failure it rests for `backoff` seconds, doubled each time up to `LONGEST_REST`, varied by a half.

    Attributes:
        busy: Requests that are under way.
        probes: Those of them that were sent after a failure, to see whether it is well again.
        failures: Failures in a row. Requests that were under way at a failure count as one with it.
        trouble: What the last failure was.
    """

    def __init__(self, url: str, backoff: float = 0.5, jitter: random.Random | None = None) -> None:
        base = URL(url)
        if base.scheme not in ("http", "https") or not base.host:
            shown = "one with a password" if "@" in url else repr(url.partition("?")[0])
            raise ConfigError(f"an endpoint is a URL such as http://localhost:8000/v1, got {shown}")
        if base.user or base.password:
            raise ConfigError("a URL may hold no password; name the key's variable by api_key_env")
        self.base = base.with_query(None).with_fragment(None)  # what is shown: a query may hold a secret
        path = base.path.rstrip("/")
        self.secrets = tuple(base.query.values())
        self.chat, self.completions, self.models = (
            base.with_path(path + end).with_query(base.query)
            for end in ("/chat/completions", "/completions", "/models")
        )
        self.health = base.with_path(path.removesuffix("/v1") + "/health").with_query(base.query)
        self.busy, self.probes, self.failures, self.trouble = 0, 0, 0, ""
        self.drained, self.reachable = False, True
        self._backoff, self._jitter = backoff, jitter or random.Random(0)
        self._rested_at, self._closed_until, self._failed_at = 0.0, 0.0, -math.inf
        self.checked_at = -math.inf

    def ready(self, now: float) -> bool:
        """Whether it takes a request; after a failure it takes one at a time, until one succeeds."""
        return now >= max(self._rested_at, self._closed_until) and not (self.failures and self.probes)

    @contextmanager
    def occupied(self) -> Iterator[None]:
        """While a request is under way."""
        probe = bool(self.failures)
        self.busy += 1
        self.probes += probe
        try:
            yield
        finally:
            self.busy -= 1
            self.probes -= probe

    def rest(
        self, why: str, sent: float, seconds: float = 0.0, *, taken: bool = True, reachable: bool = True
    ) -> bool:
        """Take no requests for a while after a failure of a request that was `sent` then (monotonic clock).

        A server that has not `taken` the request takes no others either, whatever becomes of those under way.
        `seconds` is what it asked for (``Retry-After``).

        Returns:
            Whether this is news: requests that fail together say nothing about each of them.
        """
        now = time.monotonic()
        self._closed_until = max(self._closed_until, now + seconds)
        if sent < self._failed_at:
            return False
        self.failures, self._failed_at = self.failures + 1, now
        self.reachable, self.trouble = reachable, why
        pause = min(LONGEST_REST, self._backoff * 2.0 ** min(self.failures - 1, 16))
        self._rested_at = now + pause * self._jitter.uniform(0.5, 1.5)
        if not taken:
            self._closed_until = max(self._closed_until, self._rested_at)
        if self.failures == _NOTICED:
            log.warning("%s is down, calls wait for it: %s", self.base, why)
        return True

    def recover(self) -> None:
        """It has answered: forget its failures, but not for how long it takes no requests."""
        if self.failures >= _NOTICED:
            log.warning("%s is back", self.base)
        self.failures, self._rested_at, self.reachable = 0, 0.0, True

    def admit(self) -> None:
        """Take requests from now on."""
        self.recover()
        self.drained, self._closed_until = False, 0.0


class Endpoints:
    """All servers of one model: chooses the one for the next request, and asks for their health."""

    def __init__(self, urls: Sequence[str], name: str, health_interval: float, backoff: float) -> None:
        self._jitter = random.Random(os.getpid())  # processes of one run must not try in step
        self._backoff = backoff
        self.all = [Endpoint(url, backoff, self._jitter) for url in urls]
        self._name, self._interval = name, health_interval
        self._checks: set[asyncio.Task[None]] = set()
        self._queue = Gate(1)
        self._turn = 0

    def only(self, url: str) -> Self:
        """The one at an address alone; it stays shared with these."""
        one = copy(self)
        one._queue = Gate(1)
        one.all = [endpoint for endpoint in self.all if str(endpoint.base) == url]
        return one

    def find(self, url: str) -> Endpoint | None:
        """The one at an address; a slash at the end does not matter."""
        wanted = str(Endpoint(url).base).rstrip("/")
        return next((one for one in self.all if str(one.base).rstrip("/") == wanted), None)

    def add(self, url: str) -> Endpoint:
        """Another one."""
        endpoint = Endpoint(url, self._backoff, self._jitter)
        self.all = [*self.all, endpoint]
        return endpoint

    async def choose(self, headers: Mapping[str, str], patience: float) -> Endpoint:
        """The least busy endpoint that is ready, as soon as there is one; calls wait in their order.

        Raises:
            ServerDown: None was for `patience` seconds.
        """
        if (endpoint := self._best(headers)) is not None:
            return endpoint
        try:
            async with asyncio.timeout(patience), self._queue.semaphore():
                while (endpoint := self._best(headers)) is None:
                    await asyncio.sleep(_POLL)
                return endpoint
        except TimeoutError:
            raise ServerDown(f"{self._name}: {self._lacking()}") from None

    def _lacking(self) -> str:
        """Why no endpoint is ready."""
        troubles = [f"{each.base}: {each.trouble}" for each in self.all if not each.drained and each.trouble]
        if not troubles:
            return "every endpoint is drained; admit one"
        return f"no server took the call within its patience; start the server again ({'; '.join(troubles)})"

    def _best(self, headers: Mapping[str, str]) -> Endpoint | None:
        """The least busy endpoint that is ready, in turn among equals."""
        now, count = time.monotonic(), len(self.all)
        self._turn = (self._turn + 1) % count
        order = [each for each in self.all[self._turn :] + self.all[: self._turn] if not each.drained]
        for endpoint in order if count > 1 else ():
            if endpoint.checked_at + self._interval <= now:
                endpoint.checked_at = now
                check = asyncio.create_task(self._check(headers, endpoint), name="mars-env-health")
                self._checks.add(check)  # a loop keeps only weak references to its tasks
                check.add_done_callback(self._checks.discard)
        able = [endpoint for endpoint in order if endpoint.reachable] or order
        ready = [endpoint for endpoint in able if endpoint.ready(now)]
        return min(ready, key=attrgetter("busy"), default=None)

    async def _check(self, headers: Mapping[str, str], endpoint: Endpoint) -> None:
        """Ask a server for its health; any status below 500 is good."""
        sent, words = time.monotonic(), "it cannot be reached"
        try:
            answer = await request("GET", endpoint.health, _HEALTH_BYTES, self._interval, headers=headers)
            alive, words = answer.status < 500, f"/health says {answer.status}"
        except NETWORK_ERRORS:
            alive = False
        if not alive:
            endpoint.rest(words, sent, reachable=False)
        elif not endpoint.reachable:
            endpoint.recover()
