"""Batches of rollouts, for a trainer that asks for them from a thread without an event loop."""

import asyncio
import time
from collections.abc import AsyncGenerator
from typing import Any

from mars_env.rollout.pipeline import UpdateBatch
from mars_env.sync import end_tasks, run_sync


class RolloutFeed:
    """Rollouts on the background loop of `mars_env.sync`; they continue while the trainer trains.

    Attributes:
        waited: Seconds that the trainer waited for the latest batch.
        between: Seconds between the latest two batches.
    """

    def __init__(self, batches: AsyncGenerator[UpdateBatch]) -> None:
        self._batches = batches
        self._waits: asyncio.Task[Any] | None = None
        self.waited = self.between = 0.0
        self._latest = time.perf_counter()

    def next(self) -> UpdateBatch | None:
        """The next batch; None if everything is trained. The previous batch now counts as trained."""
        began = time.perf_counter()
        batch = run_sync(self._next())
        now = time.perf_counter()
        self.waited, self.between, self._latest = now - began, now - self._latest, now
        return batch

    def close(self) -> None:
        """Cancel the rollouts under way: also after an interrupt of `next`."""
        run_sync(self._end())

    async def _end(self) -> None:
        if self._waits is not None:  # an interrupt may have come before `run_sync` could cancel it
            await end_tasks([self._waits])
        await self._batches.aclose()

    async def _next(self) -> UpdateBatch | None:
        self._waits = asyncio.current_task()
        return await anext(self._batches, None)
