"""The servers of one model: their addresses, how busy each is, and which one a request goes to."""

import asyncio
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager

from yarl import URL

from mars_env.errors import ConfigError

TRIED_AGAIN = 5.0
"""Seconds after a failure before an endpoint is tried again while others answer."""


def now() -> float:
    """The running event loop's clock."""
    return asyncio.get_running_loop().time()


class Endpoint:
    """One server; `base` is its address without a query, which may hold a secret.

    `busy` requests are under way; `failed_at` is when its last one failed, None once it has answered another.
    """

    def __init__(self, url: str) -> None:
        base = URL(url)
        if base.scheme not in ("http", "https") or not base.host:
            address = "one with a password" if "@" in url else repr(url.partition("?")[0])
            raise ConfigError(f"an endpoint is a URL such as http://localhost:8000/v1, got {address}")
        if base.user or base.password:
            raise ConfigError("a URL may hold no password; name the key's variable by api_key_env")
        self.base = base.with_query(None).with_fragment(None)
        path = base.path.rstrip("/")
        self.secrets = tuple(base.query.values())
        self.chat, self.completions, self.models = (
            base.with_path(path + end).with_query(base.query)
            for end in ("/chat/completions", "/completions", "/models")
        )
        self.busy = 0
        self.failed_at: float | None = None

    @contextmanager
    def occupied(self) -> Iterator[None]:
        """While a request is under way."""
        self.busy += 1
        try:
            yield
        finally:
            self.busy -= 1

    def is_preferred(self) -> bool:
        """Whether it answered its last request, or is due to be tried again by one."""
        return self.failed_at is None or (not self.busy and now() >= self.failed_at + TRIED_AGAIN)


class Endpoints:
    """All servers of one model. A failure changes only which one is preferred: no request waits for it."""

    def __init__(self, all: Sequence[Endpoint]) -> None:
        self.all = list(all)
        self._turn = 0

    def untried(self, tried: Collection[Endpoint]) -> list[Endpoint]:
        """Those to which a request was not sent yet."""
        return [endpoint for endpoint in self.all if endpoint not in tried]

    def choose(self, tried: Collection[Endpoint]) -> Endpoint:
        """The least busy endpoint, in turn among equals: an untried one and a preferred one if there is."""
        self._turn = (self._turn + 1) % len(self.all)
        order = self.all[self._turn :] + self.all[: self._turn]
        untried = [endpoint for endpoint in order if endpoint not in tried] or order
        preferred = [endpoint for endpoint in untried if endpoint.is_preferred()] or untried
        return min(preferred, key=lambda endpoint: endpoint.busy)
