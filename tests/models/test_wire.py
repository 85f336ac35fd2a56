import asyncio
import contextlib
import shutil
import ssl
import subprocess
from itertools import pairwise

import aiohttp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from yarl import URL

from mars_env.errors import ConfigError
from mars_env.models.links import post_by_aiohttp
from mars_env.models.wire import AnswerTooLong, Wire


class Script:
    """A server that answers each request with given pieces of bytes; None ends the connection."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.requests, self.connections = [], 0

    async def __aenter__(self):
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        self.url = URL(f"http://127.0.0.1:{self.server.sockets[0].getsockname()[1]}/v1/x?key=1")
        return self

    async def __aexit__(self, *_):
        self.server.close()

    async def serve(self, reader, writer):
        self.connections += 1
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):  # the client goes
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                length = int(head.lower().partition("content-length: ")[2].partition("\r\n")[0])
                self.requests.append((head, await reader.readexactly(length)))
                for piece in self.answers.pop(0):
                    if piece is None:
                        writer.close()
                        return
                    if isinstance(piece, float):
                        await asyncio.sleep(piece)
                    else:
                        writer.write(piece)
                        await writer.drain()
                        await asyncio.sleep(0)
        writer.close()


def sized(body, *headers, status="200 OK"):
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=1\r\nabc\r\nA\r\n0123456789\r\n0\r\n\r\n"
TRAILED = CHUNKED[:-2] + b"X-Sum: 1\r\n\r\n"


async def exchange(*answers, timeout=5.0, calls=None):
    """Post once for each answer over one wire; the server that was asked, and the results."""
    async with Script(*answers) as server:
        wire = Wire({"X-A": "b"}, timeout)
        try:
            got = [await wire.post(server.url, b"{%d}" % i) for i in range(calls or len(answers))]
        finally:
            wire.close()
    return server, got


async def test_a_request_is_what_http_asks_for():
    server, [answer] = await exchange([sized(b"hi", "X-Y:  z ")])
    [(head, body)] = server.requests
    first, *lines = head.strip().split("\r\n")
    assert first == "POST /v1/x?key=1 HTTP/1.1"
    assert set(lines) == {f"Host: 127.0.0.1:{server.url.port}", "X-A: b", "Content-Length: 3"}
    assert body == b"{0}"
    assert (answer.status, answer.body, answer.headers["x-y"]) == (200, b"hi", "z")


async def test_connections_are_kept():
    server, got = await exchange([sized(b"a")], [CHUNKED], [sized(b"", status="503 No")], [sized(b"d")])
    assert [(a.status, a.body) for a in got] == [
        (200, b"a"),
        (200, b"abc0123456789"),
        (503, b""),
        (200, b"d"),
    ]
    assert server.connections == 1


@pytest.mark.parametrize(
    "first",
    [
        [sized(b"a", "Connection: close")],
        [b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\na"],
        [b"HTTP/1.1 200 OK\r\n\r\n", b"a", None],
        [sized(b"a") + b"HTTP/1.1 200 OK\r\n"],
        [sized(b"a"), None],
    ],
    ids=["close", "1.0", "to the end", "more than was asked for", "closed afterwards"],
)
async def test_a_connection_that_ends_is_not_used_again(first):
    async with Script(first, [sized(b"b")]) as server:
        wire = Wire({}, 5.0)
        assert (await wire.post(server.url, b"1")).body == b"a"
        await asyncio.sleep(0.05)
        assert (await wire.post(server.url, b"2")).body == b"b"
        assert server.connections == 2
        wire.close()


@settings(max_examples=40)
@given(
    st.sampled_from(
        [sized(b'{"a": 1}'), CHUNKED, TRAILED, b"HTTP/1.1 100 Continue\r\n\r\n" + sized(b"late")]
    ),
    st.lists(st.integers(1, 90), max_size=6),
)
def test_answers_may_come_in_any_pieces(answer, cuts):
    places = sorted({0, len(answer), *(cut for cut in cuts if cut < len(answer))})
    pieces = [answer[a:b] for a, b in pairwise(places)]
    server, got = asyncio.run(exchange(pieces, [sized(b"next")]))
    assert [a.body for a in got] in (
        [[b'{"a": 1}', b"next"], [b"abc0123456789", b"next"], [b"late", b"next"]]
    )
    assert server.connections == 1


@pytest.mark.parametrize(
    "pieces",
    [
        [sized(b"abcdef")[:-3], None],
        [CHUNKED[:-20], None],
        [CHUNKED[:-5], None],
        [b"HTTP/1.1 200 OK\r\nContent-Le", None],
        [b"SSH-2.0-x\r\n\r\n"],
        [b"HTTP/1.1 abc\r\n\r\n"],
        [b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n"],
        [b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n"],
        [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-3\r\nabc\r\n"],
        [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcdef\r\n"],
        [b"HTTP/1.1 200 OK\r\nX: " + b"y" * 70_000],
    ],
)
async def test_half_an_answer_is_no_answer(pieces):
    with pytest.raises(aiohttp.ClientPayloadError):
        await exchange(pieces)


async def test_no_answer_at_all():
    with pytest.raises(aiohttp.ServerDisconnectedError):
        await exchange([None])
    with pytest.raises(TimeoutError):
        await exchange([1.0], timeout=0.1)
    with pytest.raises(OSError, match="Connect call failed"):
        await Wire({}, 5.0).post(URL("http://127.0.0.1:9/v1"), b"")


async def test_the_answer_of_a_call_that_was_given_up_goes_to_nobody():
    async with Script([0.2, sized(b"late")], [sized(b"own")]) as server:
        wire = Wire({}, 5.0)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await wire.post(server.url, b"1")
        await asyncio.sleep(0.3)
        assert (await wire.post(server.url, b"2")).body == b"own"
        wire.close()


async def test_closing_ends_what_is_under_way():
    async with Script([5.0]) as server:
        wire = Wire({}, 5.0)
        call = asyncio.ensure_future(wire.post(server.url, b"1"))
        while not server.requests:
            await asyncio.sleep(0.01)
        wire.close()
        with pytest.raises(RuntimeError, match="was closed"):
            await call
        with pytest.raises(RuntimeError, match="is closed"):
            await wire.post(server.url, b"1")


def test_headers_cannot_smuggle_lines():
    with pytest.raises(ConfigError, match="a line break"):
        Wire({"X": "a\r\nY: b"}, None)


async def test_aiohttp_answers_alike():
    async with Script([sized(b"a", "X-Y: z")], [CHUNKED]) as server, aiohttp.ClientSession() as session:
        first, second = [await post_by_aiohttp(session, server.url, b"1") for _ in range(2)]
    assert (first.status, first.body, first.headers["x-y"]) == (200, b"a", "z")
    assert second.body == b"abc0123456789"


HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"

ENDLESS = {
    "line before a chunk": [HEAD, *[b"0" * 65536] * 40],
    "extension of a chunk": [HEAD + b"1;", *[b"x" * 65536] * 40],
    "size of a chunk": [HEAD + b"0x3\r\nabc\r\n0\r\n\r\n"],
    "size with a sign": [HEAD + b"+3\r\nabc\r\n0\r\n\r\n"],
    "size with a line": [HEAD + b"1_0\r\nabc\r\n0\r\n\r\n"],
    "huge size": [HEAD + b"F" * 200 + b"\r\nabc"],
    "trailer": [HEAD + b"0\r\n", *[b"X-A: " + b"b" * 65536 + b"\r\n"] * 40],
    "head": [b"HTTP/1.1 200 OK\r\n", *[b"X-A: " + b"b" * 65536 + b"\r\n"] * 40],
    "headers": [b"HTTP/1.1 200 OK\r\n" + b"X-A: b\r\n" * 300 + b"\r\n"],
    "interim answers": [b"HTTP/1.1 100 Continue\r\n\r\n" * 50],
    "length": [b"HTTP/1.1 200 OK\r\nContent-Length: " + b"1" * 5000 + b"\r\n\r\n"],
    "signed length": [b"HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\na"],
}


@pytest.mark.parametrize("name", ENDLESS)
async def test_what_does_not_end_is_no_answer(name):
    with pytest.raises(aiohttp.ClientPayloadError):
        await exchange(ENDLESS[name])


LONG = {
    "length": [sized(b"a" * 2000)],
    "announced": [b"HTTP/1.1 200 OK\r\nContent-Length: 999999999999\r\n\r\n", 30.0],
    "chunk": [HEAD + b"FFFFFFFFFF\r\n", 30.0],
    "chunks": [HEAD, *[b"64\r\n" + b"a" * 100 + b"\r\n"] * 20],
    "to the end": [b"HTTP/1.1 200 OK\r\n\r\n", *[b"a" * 100] * 20, None],
}


@pytest.mark.parametrize("name", LONG)
async def test_a_body_has_a_limit(name):
    async with Script(LONG[name]) as server:
        wire = Wire({}, 5.0, 1000)
        with pytest.raises(AnswerTooLong, match="longer than 1,000 bytes"):
            await wire.post(server.url, b"")
        wire.close()


@pytest.mark.parametrize("cut", [1, 7, 1000])
async def test_a_body_as_long_as_the_limit_is_read(cut):
    body = bytes(range(97, 122)) * 40
    chunked = HEAD + b"".join(b"%x\r\n%b\r\n" % (min(cut, 1000 - i), body[i : i + cut])
                              for i in range(0, 1000, cut)) + b"0\r\n\r\n"  # fmt: skip
    async with Script([sized(body)], [chunked]) as server:
        wire = Wire({}, 5.0, 1000)
        assert [(await wire.post(server.url, b"")).body for _ in range(2)] == [body, body]
        wire.close()


async def test_what_is_read_of_chunks_leaves_the_buffer():
    async with Script([HEAD, *[b"400\r\n" + b"a" * 1024 + b"\r\n"] * 100, 0.2, b"0\r\n\r\n"]) as server:
        wire = Wire({}, 5.0)
        task = asyncio.create_task(wire.post(server.url, b""))
        await asyncio.sleep(0.1)
        held = max(len(connection._buffer) for connection in wire._all)
        assert len((await task).body) == 102_400 and held < 2048
        wire.close()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("makes a certificate by openssl, which is not installed")
    folder = tmp_path_factory.mktemp("tls")
    names = ["-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")]
    told = ["-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    subprocess.run([openssl, "req", *told, *names], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    return context


async def by_tls(certificate, pieces, most=1000):
    class Secure(Script):
        async def __aenter__(self):
            self.server = await asyncio.start_server(self.serve, "127.0.0.1", 0, ssl=certificate)
            self.url = URL(f"https://127.0.0.1:{self.server.sockets[0].getsockname()[1]}/v1/x")
            return self

    connector = aiohttp.TCPConnector(ssl=False)
    async with Secure(pieces) as server, aiohttp.ClientSession(connector=connector) as session:
        return await post_by_aiohttp(session, server.url, b"", most)


async def test_the_same_bounds_hold_by_tls(certificate):
    assert (await by_tls(certificate, [sized(b"a" * 1000)])).body == b"a" * 1000
    for name in LONG.keys() - {"chunk"}:  # aiohttp waits for what is announced, up to the call's limit
        with pytest.raises(AnswerTooLong):
            async with asyncio.timeout(20):
                await by_tls(certificate, LONG[name])


@pytest.mark.parametrize("name", ["line before a chunk", "huge size", "trailer", "head", "headers", "length"])
async def test_what_does_not_end_is_no_answer_by_tls(certificate, name):
    with pytest.raises(aiohttp.ClientError):
        async with asyncio.timeout(10):
            await by_tls(certificate, [*ENDLESS[name], None])
