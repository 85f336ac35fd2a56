"""`Wire`: POST over plain HTTP/1.1, for `HTTPModel` when it talks to your own model server.

A general client spends more on a call than the whole engine does (`benchmarks/rollout_overhead.py`). This
one has one method, keeps its connections, and reads whole answers: by Content-Length, in chunks, or up to
the connection's end. aiohttp does the rest (TLS, for example); `Wire` raises its errors.

Answers are bounded: in the length of their head and body, the number of headers and of interim answers, and
the line before a chunk. Parts that are read leave the buffer, so an answer takes its own size and no more.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import cast

import aiohttp
from yarl import URL

from mars_env.errors import ConfigError

MOST_HEAD = 65_536
"""Longest head of an answer, and longest trailer, in bytes."""

MOST_HEADERS = 256
"""Most headers of an answer."""

MOST_INTERIM = 8
"""Most interim answers (100 Continue and the like) before the real one."""

MOST_CHUNK_LINE = 1024
"""Longest line before a chunk, in bytes: its size, and extensions."""

_SIZE = re.compile(rb"[0-9A-Fa-f]{1,15}[ \t]*(;.*)?", re.S)


class AnswerTooLong(Exception):
    """An answer's body is longer than the limit; asking again would not help."""

    def __init__(self, most: int) -> None:
        super().__init__(f"the answer is longer than {most:,} bytes")


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
        most: Longest body of an answer, in bytes.

    Raises:
        ConfigError: A header contains a line break.
    """

    def __init__(self, headers: Mapping[str, str], timeout: float | None, most: int = 1 << 26) -> None:
        if any(mark in text for pair in headers.items() for text in pair for mark in "\r\n\0"):
            raise ConfigError("a header may not contain a line break")
        self._headers = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        self._timeout, self._most = timeout, most
        self._heads: dict[URL, bytes] = {}
        self._idle: dict[tuple[str | None, int | None], list[_Connection]] = {}
        self._all: set[_Connection] = set()
        self._closed = False

    async def post(self, url: URL, body: bytes) -> Answer:
        """Send a body and return the answer.

        Raises:
            OSError, TimeoutError, aiohttp.ClientError: The network or the server failed; may be tried again.
            AnswerTooLong: The body is longer than `most` bytes.
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
        """Close all connections; pending calls end with a RuntimeError."""
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
        made = partial(_Connection, loop, self._all, self._most)
        _, connection = await loop.create_connection(made, host, port)
        return connection

    def _head(self, url: URL) -> bytes:
        """The request's head up to the length of its body."""
        head = f"POST {url.raw_path_qs} HTTP/1.1\r\nHost: {url.raw_authority}\r\n{self._headers}"
        self._heads[url] = encoded = f"{head}Content-Length: ".encode()
        return encoded


@dataclass(slots=True)
class _Reading:
    """An answer as far as it has arrived."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    interim: int = 0  # answers before this one
    headed: bool = False  # whether the head is complete, and the buffer holds what follows it
    length: int | None = None  # of the body; None in chunks, or up to the connection's end
    chunked: bool = False
    in_chunk: bool = False
    left: int = 0  # bytes of the chunk that have not come yet; the end of a line follows them
    body: bytearray = field(default_factory=bytearray)


class _Connection(asyncio.Protocol):
    """One connection and the answer that is read from it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, all_of_them: set[_Connection], most: int) -> None:
        self.loop, self._all, self._most = loop, all_of_them, most
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
        if reading.headed and reading.length is None and not reading.chunked and error is None:
            self._finish()
        elif self._buffer or reading.headed:
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
        except AnswerTooLong as error:
            self.fail(error)
            self.abort()
        except ValueError as error:  # also what int() says of a status that is none
            self.fail(aiohttp.ClientPayloadError(f"not an answer of HTTP/1.1: {error}"))
            self.abort()

    def _read(self) -> None:
        """Take from the buffer what has arrived; finish when the answer is complete."""
        reading, buffer = self._reading, self._buffer
        while not reading.headed:
            end = buffer.find(b"\r\n\r\n", 0, MOST_HEAD)
            if end < 0:
                if len(buffer) >= MOST_HEAD:
                    raise ValueError("its head does not end")
                return
            self._read_head(bytes(buffer[:end]))
            del buffer[: end + 4]
            if 100 <= reading.status < 200:  # the real answer follows
                reading.interim += 1
                if reading.interim > MOST_INTERIM:
                    raise ValueError("interim answers do not end")
                continue
            reading.headed = True
        if reading.chunked:
            self._read_chunks()
            return
        if len(reading.body) + len(buffer) > self._most:
            raise AnswerTooLong(self._most)
        if not reading.body:
            reading.body, self._buffer = buffer, reading.body  # the usual answer arrives in one piece
        else:
            reading.body += buffer
            buffer.clear()
        if reading.length is not None and len(reading.body) >= reading.length:
            self.reusable = self.reusable and len(reading.body) == reading.length
            del reading.body[reading.length :]
            self._finish()

    def _read_head(self, head: bytes) -> None:
        reading = self._reading
        first, *lines = head.decode("latin-1").split("\r\n")
        version, _, rest = first.partition(" ")
        if not version.startswith("HTTP/1."):
            raise ValueError(f"it starts with {first[:200]!r}")
        if len(lines) > MOST_HEADERS:
            raise ValueError(f"it has more than {MOST_HEADERS} headers")
        reading.status = int(rest[:3])
        reading.headers = {
            name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)
        }
        kept = reading.headers.get("connection", "" if version == "HTTP/1.1" else "close").lower()
        self.reusable = "close" not in kept
        reading.length = None
        if reading.headers.get("transfer-encoding", "").lower() == "chunked":
            reading.chunked = True
        elif (length := reading.headers.get("content-length")) is not None:
            if not (length.isascii() and length.isdigit() and len(length) < 16):
                raise ValueError("a length that is not a number")
            reading.length = int(length)
            if reading.length > self._most:
                raise AnswerTooLong(self._most)
        elif reading.status == 204:
            reading.length = 0

    def _read_chunks(self) -> None:
        """Take what has come of chunks; one of no length ends the body, an empty line what follows it."""
        buffer, reading = self._buffer, self._reading
        at = 0  # what stands before is read, and leaves the buffer at the end
        try:
            while True:
                if reading.left:
                    part = buffer[at : at + reading.left]
                    reading.body += part
                    reading.left -= len(part)
                    at += len(part)
                if reading.left or (reading.in_chunk and len(buffer) - at < 2):
                    return
                if reading.in_chunk:
                    if buffer[at : at + 2] != b"\r\n":
                        raise ValueError("a chunk that does not end where it says")
                    reading.in_chunk = False
                    at += 2
                line = buffer.find(b"\r\n", at, at + MOST_CHUNK_LINE)
                if line < 0:
                    if len(buffer) - at >= MOST_CHUNK_LINE:
                        raise ValueError("the line before a chunk does not end")
                    return
                if _SIZE.fullmatch(buffer, at, line) is None:
                    raise ValueError("a chunk whose size is not a number")
                size = int(bytes(buffer[at:line]).partition(b";")[0], 16)
                if not size:
                    self._read_trailer(at, line)
                    return
                if len(reading.body) + size > self._most:
                    raise AnswerTooLong(self._most)
                reading.left, reading.in_chunk, at = size, True, line + 2
        finally:
            del buffer[:at]

    def _read_trailer(self, at: int, line: int) -> None:
        end = self._buffer.find(b"\r\n\r\n", line, line + MOST_HEAD)
        if end >= 0:
            self.reusable = self.reusable and len(self._buffer) == end + 4
            self._finish()
        elif len(self._buffer) - at >= MOST_HEAD:
            raise ValueError("what follows its body does not end")

    def _finish(self) -> None:
        waiter, self._waiter = self._waiter, None
        reading = self._reading
        if waiter is not None and not waiter.done():
            waiter.set_result(Answer(reading.status, reading.headers, bytes(reading.body)))
