"""The connections of one model to its servers: a `Link` for each event loop that uses it."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncGenerator, Mapping
from contextlib import suppress
from dataclasses import dataclass

import aiohttp
from yarl import URL

from mars_env.models.wire import MOST_HEADERS, Answer, AnswerTooLong, Wire

NETWORK_ERRORS = (aiohttp.ClientError, TimeoutError, OSError)
"""What a request raises that no server answered."""


@dataclass(eq=False, slots=True)
class Link:
    """What one event loop reaches the servers by: plain HTTP by a `Wire`, TLS by an aiohttp session.

    Attributes:
        session: For TLS, and for pages.
        wire: For plain HTTP.
        most: Longest body of an answer, in bytes.
        semaphore: Bounds the concurrent requests.
        keeper: Closes session and wire when it is closed.
        orphaned: Closes `keeper` when the `Links` are collected.
    """

    session: aiohttp.ClientSession
    wire: Wire
    most: int
    semaphore: asyncio.Semaphore
    keeper: AsyncGenerator[None, None]
    orphaned: weakref.finalize[..., Links]

    async def post(self, url: URL, body: bytes) -> Answer:
        """Send a request; its answer holds at most `most` bytes.

        Raises:
            AnswerTooLong: The body is longer.
            aiohttp.ClientError: The server cannot be reached, or its answer cannot be read.
        """
        if url.scheme == "http":
            return await self.wire.post(url, body)
        return await post_by_aiohttp(self.session, url, body, self.most)

    async def get(self, url: URL, seconds: float, most: int = 0) -> tuple[int, bytes]:
        """The status of a page, and up to `most` bytes of it where the status is 200."""
        limit = aiohttp.ClientTimeout(total=seconds)
        async with self.session.get(url, timeout=limit, allow_redirects=False) as response:
            body = bytearray()
            while response.status == 200 and len(body) < most:
                part = await response.content.read(most - len(body))  # as much as has come
                if not part:
                    break
                body += part
            return response.status, bytes(body)


class Links:
    """A link for each event loop, made on first use; closes with its loop, this object, or by `aclose`.

    Args:
        headers: Of each request.
        timeout: Seconds that one request may take; None for no limit.
        most: Longest body of an answer, in bytes.
        capacity: Most concurrent requests in one event loop.
    """

    def __init__(self, headers: Mapping[str, str], timeout: float | None, most: int, capacity: int) -> None:
        self._headers, self._timeout = dict(headers), timeout
        self._most, self._capacity = most, capacity
        self._links: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Link] = weakref.WeakKeyDictionary()

    @property
    def open(self) -> Link | None:
        """The running event loop's link, if it has one."""
        return self._links.get(asyncio.get_running_loop())

    async def connect(self) -> Link:
        """Make the running event loop's link."""
        loop = asyncio.get_running_loop()
        for other in [other for other in self._links if other.is_closed()]:
            self._links.pop(other).orphaned.detach()  # its session closed with it, and would keep it alive
        session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),  # the semaphore is the limit
            timeout=aiohttp.ClientTimeout(total=self._timeout),
            headers={**self._headers, "Accept-Encoding": "identity"},
            auto_decompress=False,  # a small answer may unpack to a huge one
        )
        wire = Wire(self._headers, self._timeout, self._most)
        keeper = _keep(session, wire)
        orphaned = weakref.finalize(self, _close_in, loop, keeper)
        orphaned.atexit = False
        link = Link(session, wire, self._most, asyncio.Semaphore(self._capacity), keeper, orphaned)
        self._links[loop] = link
        await keeper.__anext__()  # does not suspend, so two first calls cannot both come here
        return link

    async def aclose(self) -> None:
        """Close the running event loop's link; the next request makes a new one."""
        link = self._links.pop(asyncio.get_running_loop(), None)
        if link is not None:
            link.orphaned.detach()
            await link.keeper.aclose()


async def post_by_aiohttp(
    session: aiohttp.ClientSession, url: URL, body: bytes, most: int = 1 << 26
) -> Answer:
    """`Wire.post` by aiohttp, for servers that are reached by TLS."""
    async with session.post(url, data=body, allow_redirects=False) as response:
        headers = {name.lower(): value for name, value in response.headers.items()}
        if len(response.raw_headers) > MOST_HEADERS:
            raise aiohttp.ClientPayloadError(f"it has more than {MOST_HEADERS} headers")
        if (response.content_length or 0) > most:
            raise AnswerTooLong(most)
        whole = bytearray()
        async for part in response.content.iter_any():
            whole += part
            if len(whole) > most:
                raise AnswerTooLong(most)
        return Answer(response.status, headers, bytes(whole))


async def _keep(session: aiohttp.ClientSession, wire: Wire) -> AsyncGenerator[None, None]:
    """Holds a session and a wire until this generator is closed.

    Event loops close the asynchronous generators that still run in them when `asyncio.run` ends, so the
    session closes with its loop.
    """
    try:
        yield
    finally:
        wire.close()
        await session.close()


def _close_in(loop: asyncio.AbstractEventLoop, keeper: AsyncGenerator[None, None]) -> None:
    """Close a keeper whose `Links` were collected, in its own event loop: this may be another thread.

    The finalizer that calls this refers to the session. So the session itself is never collected with its
    model while it is open, which would break off its connections in the wrong thread.
    """
    with suppress(RuntimeError):  # the loop is closed, and the session with it
        loop.call_soon_threadsafe(lambda: loop.create_task(_closed(keeper)))


async def _closed(keeper: AsyncGenerator[None, None]) -> None:
    await keeper.aclose()
