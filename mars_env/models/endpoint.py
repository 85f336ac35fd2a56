"""The servers of one model: their addresses, how busy each is, until when it rests, which one is next."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Sequence
from copy import copy
from operator import attrgetter
from typing import Self

from yarl import URL

from mars_env.errors import ConfigError, ModelError
from mars_env.models.links import NETWORK_ERRORS, Link


class Endpoint:
    """One server, how busy it is, and until when it rests after failures."""

    def __init__(self, url: str) -> None:
        base = URL(url)
        if base.scheme not in ("http", "https") or not base.host:
            told = "one with a password" if "@" in url else repr(url.partition("?")[0])
            raise ConfigError(f"an endpoint is a URL such as http://localhost:8000/v1, got {told}")
        if base.user or base.password:
            raise ConfigError(
                "a URL may hold no password; name the key's environment variable by api_key_env"
            )
        self.base = base.with_query(None).with_fragment(None)  # what is shown: a query may hold a secret
        path = base.path.rstrip("/")
        self.secrets = tuple(base.query.values())
        self.chat, self.completions, self.models = (
            base.with_path(path + end).with_query(base.query)
            for end in ("/chat/completions", "/completions", "/models")
        )
        self.health = base.with_path(path.removesuffix("/v1") + "/health").with_query(base.query)
        self.busy, self.failures, self.rested_at, self.checked_at = 0, 0, 0.0, -math.inf
        self.drained, self.reachable = False, True

    @property
    def well(self) -> bool:
        """Whether it can be reached; after a failure it takes one request at a time, until one succeeds."""
        return self.reachable and not (self.failures and self.busy)

    def rest(self, seconds: float = 0.0, *, reachable: bool = True) -> None:
        """Take no requests for a while: longer each time, at least these seconds."""
        self.failures += 1
        self.reachable = reachable
        self.rested_at = time.monotonic() + max(seconds, min(30.0, 0.5 * 2.0**self.failures))

    def recover(self) -> None:
        """Forget all failures."""
        self.failures, self.rested_at, self.reachable = 0, 0.0, True


class Endpoints:
    """All servers of one model: chooses the one for the next request, and asks for their health.

    Args:
        urls: Their addresses.
        name: The model's, for messages.
        health_interval: Seconds between two health checks of one endpoint, if there are several.
        patience: Seconds for which a request waits while all are drained.

    Raises:
        ConfigError: An address is none.
    """

    def __init__(self, urls: Sequence[str], name: str, health_interval: float, patience: float) -> None:
        self.all = [Endpoint(url) for url in urls]
        self._name, self._interval, self._patience = name, health_interval, patience
        self._checks: set[asyncio.Task[None]] = set()
        self._turn = 0

    def only(self, url: str) -> Self:
        """The one at an address alone; it stays shared with these."""
        one = copy(self)
        one.all = [endpoint for endpoint in self.all if str(endpoint.base) == url]
        return one

    def find(self, url: str) -> Endpoint | None:
        """The one at an address; a slash at the end does not matter."""
        wanted = str(Endpoint(url).base).rstrip("/")
        return next((one for one in self.all if str(one.base).rstrip("/") == wanted), None)

    async def drain(self, url: str) -> None:
        """See `HTTPModel.drain`."""
        endpoint = self.find(url)
        if endpoint is None:
            raise ConfigError(f"{self._name} has no endpoint {url}")
        endpoint.drained = True
        while endpoint.busy:
            await asyncio.sleep(0.02)

    def admit(self, url: str) -> Endpoint:
        """See `HTTPModel.admit`; the endpoint."""
        endpoint = self.find(url)
        if endpoint is None:
            self.all = [*self.all, endpoint := Endpoint(url)]
        else:
            endpoint.drained = False
            endpoint.recover()
        return endpoint

    async def choose(self, link: Link) -> Endpoint:
        """The least busy endpoint that is well; one that rests or is not reached if there is no other.

        Raises:
            ModelError: All are drained, and none was admitted in time.
        """
        if len(self.all) == 1 and not self.all[0].drained:
            return self.all[0]
        limit = time.monotonic() + self._patience
        while (endpoint := self._best(link)) is None:
            if time.monotonic() > limit:
                raise ModelError(f"{self._name}: every endpoint is drained; admit one")
            await asyncio.sleep(0.02)
        return endpoint

    def _best(self, link: Link) -> Endpoint | None:
        """The least busy endpoint that is well and does not rest, in turn among equals.

        If there is none, the one whose rest ends first; None if all are drained.
        """
        now, count = time.monotonic(), len(self.all)
        self._turn = (self._turn + 1) % count
        order = [each for each in self.all[self._turn :] + self.all[: self._turn] if not each.drained]
        for endpoint in order if count > 1 else ():
            if endpoint.checked_at + self._interval <= now:
                endpoint.checked_at = now
                check = asyncio.create_task(self._check(link, endpoint), name="mars-env-health")
                self._checks.add(check)  # a loop keeps only weak references to its tasks
                check.add_done_callback(self._checks.discard)
        awake = [endpoint for endpoint in order if endpoint.rested_at <= now and endpoint.well]
        if awake:
            return min(awake, key=attrgetter("busy"))
        return min(order, key=attrgetter("rested_at"), default=None)

    async def _check(self, link: Link, endpoint: Endpoint) -> None:
        """Ask a server for its health; any status below 500 is good."""
        try:
            status, _ = await link.get(endpoint.health, self._interval)
            alive = status < 500
        except (*NETWORK_ERRORS, RuntimeError):  # RuntimeError: the session closed meanwhile
            alive = False
        if not alive:
            endpoint.rest(reachable=False)
        elif not endpoint.reachable:
            endpoint.recover()
