"""An OpenAI-compatible server that fails in thirty ways; the soak starts several and kills some.

    python benchmarks/faulty_server.py PORT LOG RATE

An answer depends on its request alone, so a run gives the same trees however often a server fails. RATE of
the requests suffer a fault of `FAULTS`, drawn at random. Each text that was sent whole is a line of LOG.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import random
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import IO, Any

Fault = Callable[[asyncio.StreamWriter, bytes], Awaitable[None]]

HANG = 8.0  # seconds; the client's limit is lower


def head(status: int, length: int, *more: str) -> bytes:
    lines = [f"HTTP/1.1 {status} X", "Content-Type: application/json", f"Content-Length: {length}", *more]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def status(code: int, *headers: str) -> Fault:
    async def fail(writer: asyncio.StreamWriter, body: bytes) -> None:
        error = json.dumps({"error": {"message": "a planned fault"}}).encode()
        writer.write(head(code, len(error), *headers) + error)

    return fail


def body(change: Callable[[bytes], bytes]) -> Fault:
    """A whole answer of status 200 with another body."""

    async def fail(writer: asyncio.StreamWriter, body: bytes) -> None:
        changed = change(body)
        writer.write(head(200, len(changed)) + changed)

    return fail


async def close(writer: asyncio.StreamWriter, body: bytes) -> None:
    writer.close()


async def reset(writer: asyncio.StreamWriter, body: bytes) -> None:
    """Reset the connection in the middle of the body."""
    writer.write(head(200, len(body)) + body[: len(body) // 2])
    await writer.drain()
    writer.transport.abort()


async def hang(writer: asyncio.StreamWriter, body: bytes) -> None:
    await asyncio.sleep(HANG)
    writer.close()


async def hang_in_body(writer: asyncio.StreamWriter, body: bytes) -> None:
    writer.write(head(200, len(body)) + body[: len(body) // 2])
    await hang(writer, body)


async def drip(writer: asyncio.StreamWriter, body: bytes) -> None:
    """Send a few bytes at a time, too slowly."""
    writer.write(head(200, len(body)))
    for byte in body[:20]:
        writer.write(bytes([byte]))
        await asyncio.sleep(HANG / 20)
    writer.close()


async def too_short(writer: asyncio.StreamWriter, body: bytes) -> None:
    """State more bytes than follow."""
    writer.write(head(200, len(body) + 50) + body)
    await writer.drain()
    writer.close()


async def too_long(writer: asyncio.StreamWriter, body: bytes) -> None:
    """State fewer bytes than follow."""
    writer.write(head(200, len(body) - 9) + body)
    await writer.drain()
    writer.close()


async def no_http(writer: asyncio.StreamWriter, body: bytes) -> None:
    writer.write(b"220 mail.example.com ESMTP\r\n")
    writer.close()


async def bad_chunks(writer: asyncio.StreamWriter, body: bytes) -> None:
    writer.write(b"HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n" + body)
    writer.close()


async def half_a_header(writer: asyncio.StreamWriter, body: bytes) -> None:
    writer.write(b"HTTP/1.1 200 X\r\nContent-Le")
    writer.close()


FAULTS: dict[str, Fault] = {
    **{f"status {code}": status(code) for code in (408, 409, 500, 502, 503, 504, 520, 529)},
    "status 429": status(429, "Retry-After: 0.2"),
    "status 429, odd wait": status(429, "Retry-After: soon"),
    "status 503, date": status(503, "Retry-After: Fri, 31 Dec 1999 23:59:59 GMT"),
    "error of status 200": body(lambda _: b'{"error": {"message": "overloaded", "code": 503}}'),
    "empty body": body(lambda _: b""),
    "cut JSON": body(lambda text: text[:-9]),
    "HTML": body(lambda _: b"<html><body>Bad gateway</body></html>"),
    "broken UTF-8": body(lambda text: text.replace(b"boxed", b"bo\xff\xfed").replace(b"Step", b"\xc3\x28")),
    "a list": body(lambda text: b"[" + text + b"]"),
    "null": body(lambda _: b"null"),
    "no choices": body(lambda _: b'{"choices": []}'),
    "null message": body(lambda _: b'{"choices": [{"index": 0, "message": null, "finish_reason": "stop"}]}'),
    "deep JSON": body(lambda _: b"[" * 100_000),
    "NUL bytes": body(lambda text: bytes(len(text))),
    "close": close, "reset": reset, "hang": hang, "hang in the body": hang_in_body, "drip": drip,
    "stated length too long": too_short, "stated length too short": too_long, "no HTTP": no_http,
    "bad chunks": bad_chunks, "half a header": half_a_header,
}  # fmt: skip


def answer(asked: Any) -> tuple[str, str]:
    """Text and finish reason: a function of the request alone. A few are odd, which is no fault."""
    prompt = str(asked["messages"][-1]["content"])
    digest = hashlib.sha256(f"{asked.get('seed')} {json.dumps(asked['messages'])}".encode()).hexdigest()
    rng = random.Random(digest)
    reason = rng.choices(["stop", "length", "content_filter"], [95, 4, 1])[0]
    if "Correctness: Correct" in prompt:
        return f"Step {digest}.\nCorrectness: {rng.choice(['Correct', 'Wrong'])}", reason
    return f"By {digest} it is \\boxed{{{rng.randrange(20)}}}.", reason


async def handle(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, log: IO[str], rate: float
) -> None:
    try:
        while not writer.is_closing():
            request = await reader.readuntil(b"\r\n\r\n")
            first, *lines = request.decode("latin-1").split("\r\n")
            fields = dict(line.lower().split(": ", 1) for line in lines if ": " in line)
            sent = await reader.readexactly(int(fields.get("content-length", 0)))
            if not first.startswith("POST"):
                known = b'{"object": "list", "data": [{"id": "m", "object": "model"}]}'
                writer.write(head(200, len(known)) + known)
                continue
            text, reason = answer(json.loads(sent))
            choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": reason}
            whole = json.dumps({"choices": [choice]}).encode()
            if random.random() < rate:
                await random.choice([*FAULTS.values()])(writer, whole)
                await writer.drain()
                continue
            log.write(json.dumps(text) + "\n")
            log.flush()
            writer.write(head(200, len(whole)) + whole)
            await writer.drain()
    except (OSError, EOFError, asyncio.IncompleteReadError):
        pass  # the client has left
    finally:
        writer.close()


async def main(port: int, log: Path, rate: float) -> None:
    with log.open("a", encoding="utf-8") as file:
        server = await asyncio.start_server(
            lambda reader, writer: handle(reader, writer, file, rate), "127.0.0.1", port
        )
        async with server:
            await server.serve_forever()


if __name__ == "__main__":
    logging.disable(logging.WARNING)  # clients that leave are expected
    asyncio.run(main(int(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3])))
