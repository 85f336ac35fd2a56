"""Answers of every form over one session, faults as typed errors, and servers that guard their address."""

import asyncio
import gc
import subprocess
import sys
import warnings

import pytest
from aiohttp import web
from raw_server import Script
from waiting import PATIENCE, until

from mars_env.errors import ConfigError
from mars_env.net import (
    NETWORK_ERRORS,
    BodyTooLong,
    Guard,
    Refusal,
    read_json,
    request,
    session,
    start_server,
)


def sized(body, *headers, status="200 OK"):
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
CHUNKED = HEAD + b"3;x=1\r\nabc\r\nA\r\n0123456789\r\n0\r\n\r\n"


async def post(server, body=b"", *, most=1 << 20, timeout=60.0):
    return await request("POST", server.url, most, timeout, data=body, headers={"X-A": "b"})


async def exchange(*answers, **options):
    """Post once for each answer; the server that was asked, and the results."""
    async with Script(*answers) as server:
        return server, [await post(server, b"{%d}" % i, **options) for i in range(len(answers))]


async def test_connections_are_kept():
    server, got = await exchange(
        [sized(b"a", "X-Y:  z ")], [CHUNKED], [sized(b"", status="503 No")], [sized(b"d")]
    )
    bodies = [(200, b"a"), (200, b"abc0123456789"), (503, b""), (200, b"d")]
    assert [(a.status, a.body) for a in got] == bodies
    assert got[0].headers["x-y"] == "z" and server.connections == 1
    head, body = server.requests[0]
    assert head.startswith("POST /v1/x?key=1 HTTP/1.1\r\n") and "X-A: b\r\n" in head and body == b"{0}"


MALFORMED = {
    "body": [sized(b"abcdef")[:-3], None],
    "chunk": [CHUNKED[:-20], None],
    "no HTTP": [b"SSH-2.0-x\r\n\r\n"],
    "huge length": [b"HTTP/1.1 200 OK\r\nContent-Length: " + b"1" * 5000 + b"\r\n\r\n"],
    "head without end": [b"HTTP/1.1 200 OK\r\n", *[b"X-A: " + b"b" * 65536 + b"\r\n"] * 40],
    "trailer without end": [HEAD + b"0\r\n", *[b"X-A: " + b"b" * 65536 + b"\r\n"] * 40],
    "nothing": [None],
    "silence": [5.0],
    "drip": [b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n", *[b"a", 0.05] * 99],
}


@pytest.mark.parametrize("name", MALFORMED)
async def test_half_an_answer_is_a_network_error(name):
    with pytest.raises(NETWORK_ERRORS) as caught:
        await exchange(MALFORMED[name], timeout=1.0)
    assert not isinstance(caught.value, BodyTooLong)
    if name in ("silence", "drip"):
        assert isinstance(caught.value, TimeoutError) and caught.value.errno is None


LONG = {
    "length": [sized(b"a" * 2000)],
    "announced": [b"HTTP/1.1 200 OK\r\nContent-Length: 999999999999\r\n\r\n", 30.0],
    "chunks": [HEAD, *[b"64\r\n" + b"a" * 100 + b"\r\n"] * 20],
    "to the end": [b"HTTP/1.1 200 OK\r\n\r\n", *[b"a" * 100] * 20, None],
}


@pytest.mark.parametrize("name", LONG)
async def test_a_body_has_a_limit(name):
    with pytest.raises(BodyTooLong):
        await exchange(LONG[name], most=1000)


async def test_a_call_that_is_cancelled_closes_its_connection_at_once():
    async with Script([b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", 30.0], [sized(b"next")]) as server:
        call = asyncio.ensure_future(post(server))
        await until(lambda: server.requests)
        call.cancel()
        await asyncio.wait_for(server.gone.wait(), PATIENCE)
        assert (await post(server)).body == b"next" and server.connections == 2


def test_sessions_close_with_their_loops_without_a_warning():
    gc.collect()  # what other tests left must not warn here
    problems = []

    async def main():
        asyncio.get_running_loop().set_exception_handler(lambda _, context: problems.append(context))
        async with Script([sized(b"a"), None]) as server:
            await post(server)
            await asyncio.sleep(0.05)  # until the server has closed its end
        assert await session() is await session()
        return await session()

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        first, second = asyncio.run(main()), asyncio.run(main())
        assert first.closed and second.closed and first is not second
        del first, second
        gc.collect()
    assert not problems and not [each for each in caught if "nclosed" in str(each.message)]


EXIT = """
import asyncio, mars_env.net as net
from mars_env.sync import run_sync
async def ask():
    async with (await net.session()).post(URL) as response:
        async for part in response.content.iter_any():
            started.set()
async def parts():
    yield 1
    await asyncio.sleep(3600)
async def wait():
    async for _ in parts():
        pass
async def start():
    tasks.extend(asyncio.create_task(each) for each in (ask(), wait()))
    await started.wait()
tasks, started = [], asyncio.Event()
run_sync(start())
"""


async def test_the_interpreter_ends_quietly_while_requests_run():
    """Also with tasks inside asynchronous generators, which no event loop can close while they wait."""
    async with Script([b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\na", 30.0]) as server:
        run = [sys.executable, "-X", "dev", "-c", EXIT.replace("URL", repr(server.url))]
        process = await asyncio.create_subprocess_exec(*run, stderr=subprocess.PIPE)
        _, errors = await process.communicate()
    assert (process.returncode, errors) == (0, b"")


async def echo(request):
    return web.json_response(await read_json(request))


async def well(request):
    return web.Response(text="well")


def application(handler=echo):
    app = web.Application(client_max_size=100)
    app.router.add_post("/x", handler)
    app.router.add_get("/health", well)
    return app


async def status(url, *, key=None, body=b"{}", kind="application/json"):
    headers = {"Content-Type": kind} | ({"Authorization": f"Bearer {key}"} if key else {})
    return (await request("POST", f"{url}/x", 1000, data=body, headers=headers)).status


async def test_a_server_with_keys_serves_their_clients():
    server = await start_server(application(), guard=Guard(["right", " other "]))
    statuses = {key: await status(server.url, key=key) for key in (None, "wrong", "right", "other")}
    health = (await request("GET", f"{server.url}/health", 1000)).status
    await server.close()
    assert statuses == {None: 401, "wrong": 401, "right": 200, "other": 200} and health == 200
    with pytest.raises(NETWORK_ERRORS):
        await status(server.url)


async def test_others_than_this_machine_need_a_key():
    with pytest.raises(ConfigError):
        await start_server(application(), "0.0.0.0", guard=Guard([], "write"))
    with pytest.raises(ConfigError):
        Guard([" "])
    await (await start_server(application(), "0.0.0.0", guard=Guard(["k"], "write"))).close()


async def test_errors_of_handlers_are_answers():
    async def fail(request):
        raise Refusal(418, "no") if await request.read() == b"{}" else KeyError("x")

    server = await start_server(application(fail), refusal_of=lambda error: Refusal(400, repr(error)))
    plain = await start_server(application())
    answers = (
        await status(server.url),
        await status(plain.url, kind="text/plain"),
        await status(plain.url, body=b"x" * 200),
    )
    for one in (server, plain):
        await one.close()
    assert answers == (400, 415, 413)


async def test_a_client_that_leaves_is_no_error(caplog):
    """Neither while its request comes, nor while its answer goes out."""

    async def stream(request):
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b"x" * 65536)
            await asyncio.sleep(0)

    def unexpected(error):
        raise AssertionError(error)

    for handler in (echo, stream):
        server = await start_server(application(handler), refusal_of=unexpected)
        host, port = server.url.removeprefix("http://").split(":")
        length = 50 if handler is echo else 0
        lines = ["POST /x HTTP/1.1", f"Host: {host}", "Content-Type: application/json"]
        head = "\r\n".join([*lines, f"Content-Length: {length}", "", ""])
        _, writer = await asyncio.open_connection(host, int(port))
        writer.write(head.encode() + b"{"[:length])
        await asyncio.sleep(0.1)
        writer.transport.abort()
        await asyncio.sleep(0.1)
        await server.close()
    assert "Traceback" not in caplog.text and not caplog.records
