"""`Wire`: POST over plain HTTP/1.1, for `HTTPModel` when it talks to a model server of one's own.

A general client spends more on a call than the whole engine does (`benchmarks/rollout_overhead.py`). This
one knows one method, keeps its connections, and reads whole answers: by Content-Length, in chunks, or up to
the connection's end. Anything else (TLS, for one) is left to aiohttp, whose errors it raises.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

import aiohttp
from yarl import URL

from mars_env.errors import ConfigError

_MOST_HEAD = 65_536
"""Longest head of an answer, in bytes."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A server's answer; names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Wire:
    """Connections of one event loop, kept for the next call.

    Args:
        headers: Of every request.
        timeout: Seconds that a call may take.

    Raises:
        ConfigError: If a header holds the end of a line.
    """

    def __init__(self, headers: Mapping[str, str], timeout: float | None) -> None:
        if any(mark in text for pair in headers.items() for text in pair for mark in "\r\n\0"):
            raise ConfigError("a header may hold no end of a line")
        self._headers = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        self._timeout = timeout
        self._heads: dict[URL, bytes] = {}
        self._idle: dict[tuple[str | None, int | None], list[_Connection]] = {}
        self._all: set[_Connection] = set()
        self._closed = False

    async def post(self, url: URL, body: bytes) -> Answer:
        """Send a body and return the answer.

        Raises:
            OSError, TimeoutError, aiohttp.ClientError: The network or the server failed; may be tried again.
            RuntimeError: The wire is closed.
        """
        request = b"%b%d\r\n\r\n%b" % (self._heads.get(url) or self._head(url), len(body), body)
        timer, connection = None, self._kept(url)
        try:
            if connection is None:
                async with asyncio.timeout(self._timeout):
                    connection = await self._connect(url)
            if self._timeout is not None:
                timer = connection.loop.call_later(self._timeout, connection.fail, TimeoutError("no answer"))
            answer = await connection.send(request)
        except BaseException:
            if connection is not None:
                connection.abort()  # a late answer must not be taken for the next one's
            raise
        finally:
            if timer is not None:
                timer.cancel()
        if connection.reusable:
            self._idle.setdefault((url.host, url.port), []).append(connection)
        else:
            connection.abort()
        return answer

    def close(self) -> None:
        """Close all connections; calls under way end in a RuntimeError."""
        self._closed = True
        for connection in list(self._all):
            connection.fail(RuntimeError("the connection was closed"))
            connection.abort()
        self._idle.clear()

    def _kept(self, url: URL) -> _Connection | None:
        if self._closed:
            raise RuntimeError("the wire is closed")
        idle = self._idle.get((url.host, url.port))
        while idle:
            connection = idle.pop()
            if connection.reusable:
                return connection
        return None

    async def _connect(self, url: URL) -> _Connection:
        loop = asyncio.get_running_loop()
        host, port = url.host or "", url.port or 80
        _, connection = await loop.create_connection(lambda: _Connection(loop, self._all), host, port)
        return connection

    def _head(self, url: URL) -> bytes:
        """The request's head up to the length of its body."""
        head = f"POST {url.raw_path_qs} HTTP/1.1\r\nHost: {url.raw_authority}\r\n{self._headers}"
        self._heads[url] = encoded = f"{head}Content-Length: ".encode()
        return encoded


@dataclass(slots=True)
class _Reading:
    """An answer as far as it has come."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body_at: int = 0  # where the body begins; 0 while the head is not complete
    length: int | None = None  # of the body; None in chunks, or up to the connection's end
    chunks: list[bytes] | None = None


class _Connection(asyncio.Protocol):
    """One connection and the answer that is read from it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, all_of_them: set[_Connection]) -> None:
        self.loop, self._all = loop, all_of_them
        self.reusable = True
        self._buffer, self._reading = bytearray(), _Reading()
        self._waiter: asyncio.Future[Answer] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._all.add(self)

    def connection_lost(self, error: Exception | None) -> None:
        self.reusable = False
        self._all.discard(self)
        reading = self._reading
        if reading.body_at and reading.length is None and reading.chunks is None and error is None:
            self._finish(bytes(self._buffer[reading.body_at :]))
        elif self._buffer:
            self.fail(aiohttp.ClientPayloadError("Payload is not completed: the connection was closed"))
        else:
            self.fail(error or aiohttp.ServerDisconnectedError())

    def send(self, request: bytes) -> asyncio.Future[Answer]:
        self._waiter = waiter = self.loop.create_future()
        self._buffer.clear()
        self._reading = _Reading()
        if self._transport.is_closing():
            self.fail(aiohttp.ServerDisconnectedError())
        else:
            self._transport.write(request)
        return waiter

    def fail(self, error: Exception) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_exception(error)

    def abort(self) -> None:
        self.reusable, self._waiter = False, None
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        if self._waiter is None:  # nobody asked
            self.abort()
            return
        self._buffer += data
        try:
            self._read()
        except ValueError as error:  # also what int() says of a length that is none
            self.fail(aiohttp.ClientPayloadError(f"not an answer of HTTP/1.1: {error}"))
            self.abort()

    def _read(self) -> None:
        """Take from the buffer what has come; finish when the answer is whole."""
        reading, buffer = self._reading, self._buffer
        while not reading.body_at:
            end = buffer.find(b"\r\n\r\n")
            if end < 0:
                if len(buffer) > _MOST_HEAD:
                    raise ValueError("its head does not end")
                return
            self._read_head(bytes(buffer[:end]))
            if 100 <= reading.status < 200:  # the real answer follows
                del buffer[: end + 4]
                continue
            reading.body_at = end + 4
        if reading.chunks is not None:
            self._read_chunks(reading.chunks)
        elif reading.length is not None and len(buffer) >= (end := reading.body_at + reading.length):
            self.reusable = self.reusable and len(buffer) == end
            self._finish(bytes(buffer[reading.body_at : end]))

    def _read_head(self, head: bytes) -> None:
        reading = self._reading
        first, *lines = head.decode("latin-1").split("\r\n")
        version, _, rest = first.partition(" ")
        if not version.startswith("HTTP/1."):
            raise ValueError(f"it begins with {first[:40]!r}")
        reading.status = int(rest[:3])
        reading.headers = {
            name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)
        }
        kept = reading.headers.get("connection", "" if version == "HTTP/1.1" else "close").lower()
        self.reusable = "close" not in kept
        if reading.headers.get("transfer-encoding", "").lower() == "chunked":
            reading.chunks = []
        elif (length := reading.headers.get("content-length")) is not None:
            reading.length = int(length)
            if reading.length < 0:
                raise ValueError("a negative length")
        elif reading.status == 204:
            reading.length = 0

    def _read_chunks(self, chunks: list[bytes]) -> None:
        """Chunks that are complete; a chunk of no length ends the body, an empty line what follows it."""
        buffer, reading = self._buffer, self._reading
        while (line := buffer.find(b"\r\n", reading.body_at)) >= 0:
            size = int(bytes(buffer[reading.body_at : line]).partition(b";")[0], 16)
            if size < 0:
                raise ValueError("a chunk of negative length")
            if not size:
                if buffer[line : line + 4] == b"\r\n\r\n" or buffer.find(b"\r\n\r\n", line) >= 0:
                    self._finish(b"".join(chunks))
                return
            if len(buffer) < line + 4 + size:
                return
            chunks.append(bytes(buffer[line + 2 : line + 2 + size]))
            if buffer[line + 2 + size : line + 4 + size] != b"\r\n":
                raise ValueError("a chunk that does not end where it says")
            reading.body_at = line + 4 + size

    def _finish(self, body: bytes) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(Answer(self._reading.status, self._reading.headers, body))
