"""When a request that failed is sent again, and when it is given up."""

import asyncio
import logging
import math
import os
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from mars_env.errors import ConfigError, ModelError, ServerDown
from mars_env.models.endpoint import Endpoint, now

log = logging.getLogger(__name__)

Control = Callable[[], Awaitable[None]]
"""Sends a harmless request once, and notes whether it was answered; raises nothing."""

LONGEST_PAUSE = 30.0
"""Seconds between two attempts at most, unless the server names a longer time."""

SILENCE = 10.0
"""Seconds without an answer after which an outage is logged, once."""


class RequestFailed(Exception):
    """An attempt failed in a way that another one may not; `retry_after`: seconds the server asks to wait."""

    def __init__(self, words: str, retry_after: float = 0.0) -> None:
        super().__init__(words)
        self.retry_after = retry_after


@dataclass(slots=True)
class Attempts:
    """The attempts of one request.

    Attributes:
        tried: Endpoints on which it has failed since it last paused.
        failures: How often it has failed on all endpoints, which then answered another request.
        retry_after: Seconds that those `tried` ask it to wait, at most.
    """

    tried: set[Endpoint] = field(default_factory=set)
    failures: int = 0
    pauses: int = 0
    retry_after: float = 0.0
    failing_since: float = math.inf

    def note(self, endpoint: Endpoint, failure: RequestFailed) -> None:
        """An attempt has failed."""
        self.tried.add(endpoint)
        self.retry_after = max(self.retry_after, failure.retry_after)
        self.failing_since = min(self.failing_since, now())


class Retries:
    """What the requests of one model share: when the servers have last answered one.

    A failure counts once the servers have answered something after it: another request, or else a harmless
    one, the control. A request is given up when `limit` failures count. While the servers answer nothing, it
    waits; after `patience` seconds of that they are down. The first of a request's pauses lasts about
    `backoff` seconds; it doubles each time, up to `LONGEST_PAUSE`.
    """

    def __init__(self, name: str, limit: int, backoff: float, patience: float) -> None:
        if limit < 1 or min(backoff, patience) < 0:
            raise ConfigError("attempts is at least 1, backoff and patience are at least 0")
        self._name, self._limit, self._backoff, self._patience = name, limit, backoff, patience
        self._jitter = random.Random(os.getpid())  # processes of one run must not try in step
        self._answered_at, self._controlling, self._is_out = -math.inf, False, False

    def note_answer(self) -> None:
        """A server has answered a request."""
        self._answered_at, self._is_out = now(), False

    async def wait(self, attempts: Attempts, failure: RequestFailed, control: Control) -> None:
        """Wait until a request that failed on all endpoints is to be sent again; raises if it is given up."""
        failed_at = now()
        while self._answered_at <= failed_at:
            end = max(attempts.failing_since, self._answered_at) + self._patience
            if now() >= end:
                why = f"the servers answered nothing for {self._patience:g} s, start them again"
                raise ServerDown(f"{self._name}: {why}: {failure}")
            self._log_outage(end, failure)
            await asyncio.sleep(min(self._pause(attempts), end - now()))
            if self._answered_at <= failed_at and not self._controlling:
                self._controlling = True
                try:
                    await control()
                finally:
                    self._controlling = False
        attempts.failures += 1
        if attempts.failures >= self._limit:
            times = f"the request failed {attempts.failures} times while others were answered"
            raise ModelError(f"{self._name}: {times}: {failure}")
        attempts.tried.clear()

    def _log_outage(self, end: float, failure: RequestFailed) -> None:
        seconds_left = end - now()
        if not self._is_out and seconds_left < self._patience - SILENCE:
            self._is_out = True
            log.warning(
                "%s: the servers answer nothing; requests are tried again for %.0f s: %s",
                *(self._name, seconds_left, failure),
            )

    def _pause(self, attempts: Attempts) -> float:
        pause = min(LONGEST_PAUSE, self._backoff * 2.0 ** min(attempts.pauses, 16))
        pause = max(attempts.retry_after, pause * self._jitter.uniform(0.5, 1.5))
        attempts.pauses, attempts.retry_after = attempts.pauses + 1, 0.0
        return pause
