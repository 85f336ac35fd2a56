"""One of several servers: its addresses, how busy it is, and until when it rests after failures."""

from __future__ import annotations

import math
import time

from yarl import URL

from mars_env.errors import ConfigError


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
