"""Waiting for what other processes, threads and tasks do: that it happens matters, not how soon."""

import asyncio
import time

PATIENCE = 300.0
"""Seconds after which a test gives up; a loaded machine needs a small part of them."""


def wait_until(condition):
    """Wait until a condition holds; fail if it does not within the patience."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "the condition never held"
        time.sleep(0.01)


async def until(condition):
    """The same in an event loop, which goes on meanwhile."""
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.01)
