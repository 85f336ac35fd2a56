"""The library's HTTP client, how its servers start, on aiohttp, and whether the hub can be reached."""

import asyncio
import hmac
import json
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self

import aiohttp
from aiohttp import web
from yarl import URL

from mars_env.errors import ConfigError
from mars_env.text import describe_error

NETWORK_ERRORS = (aiohttp.ClientError, TimeoutError, OSError)
"""What a request raises if no server answered, or its answer broke off."""

UNREADABLE = (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError)
"""What reading malformed JSON, or JSON of another form, raises."""

LOOPBACK = ("127.0.0.1", "::1", "localhost")

_sessions: dict[asyncio.AbstractEventLoop, tuple[aiohttp.ClientSession, AsyncGenerator[None]]] = {}


class BodyTooLong(aiohttp.ClientPayloadError):
    """A body is longer than the limit; asking again would not help."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"the answer is longer than {limit:,} bytes")


@dataclass(frozen=True, slots=True)
class Answer:
    """A server's whole answer; names of headers are read in any case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


async def session() -> aiohttp.ClientSession:
    """The running event loop's session, which closes with the loop."""
    global _sessions
    loop = asyncio.get_running_loop()
    session = _sessions.get(loop)
    if session is not None and not session[0].closed:
        return session[0]
    made = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0),
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={"Accept-Encoding": "identity"},  # a small answer may unpack to a huge one
        auto_decompress=False,
    )
    closer = _close_at_end(made)
    running = {other: other_session for other, other_session in _sessions.items() if not other.is_closed()}
    _sessions = {**running, loop: (made, closer)}
    await closer.__anext__()  # does not suspend, so two first calls cannot both come here
    return made


async def _close_at_end(session: aiohttp.ClientSession) -> AsyncGenerator[None]:
    """Event loops close the asynchronous generators that are open in them when they end."""
    try:
        yield
    finally:
        await session.close()


async def read_bounded(response: aiohttp.ClientResponse, limit: int) -> bytes:
    """The body of an answer; a body of more bytes raises `BodyTooLong`."""
    if (response.content_length or 0) > limit:
        raise BodyTooLong(limit)
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > limit:
            raise BodyTooLong(limit)
    return bytes(body)


async def request(
    method: str, url: URL | str, limit: int, seconds: float | None = 300.0, **options: Any
) -> Answer:
    """Send a request and read its whole answer of at most `limit` bytes; else `BodyTooLong`.

    Redirects are not followed. One of `NETWORK_ERRORS` if there is no answer, or it broke off.
    """
    options |= {"allow_redirects": False, "timeout": aiohttp.ClientTimeout(total=seconds)}
    async with (await session()).request(method, url, **options) as response:
        return Answer(response.status, response.headers, await read_bounded(response, limit))


class Refusal(Exception):
    """A request that is rejected: the answer's status and headers, and an error in OpenAI's form."""

    def __init__(
        self,
        status: int,
        message: str,
        kind: str = "invalid_request_error",
        *,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.headers = status, dict(headers or {})
        self.body = {"error": {"message": message, "type": kind, "code": code or status}}


def plain_json(text: str | bytes) -> Any:
    """JSON without NaN and infinities, which a run cannot store; else a `ValueError`."""

    def reject(word: str) -> None:
        raise ValueError(f"{word} is not JSON")

    return json.loads(text, parse_constant=reject)


async def read_json(request: web.Request) -> Any:
    """The JSON of a request; a body not announced as JSON, which any web page could send, is rejected."""
    if request.content_type != "application/json":
        raise Refusal(415, "the body of a request is JSON: send Content-Type: application/json")
    try:
        return plain_json(await request.read())
    except web.HTTPRequestEntityTooLarge as error:
        raise Refusal(413, f"the request is longer than {request.client_max_size:,} bytes") from error
    except UNREADABLE as error:
        raise Refusal(400, f"the request cannot be read: {describe_error(error)}") from error


class Guard:
    """Whom a server serves: this machine alone, or clients with a key; others would be a `danger`."""

    def __init__(self, keys: Sequence[str] = (), danger: str = "") -> None:
        if not all(isinstance(key, str) and key.strip() for key in keys):
            raise ConfigError("a key is a string that is not empty")
        self._keys, self._danger = [key.strip().encode() for key in keys], danger

    def __bool__(self) -> bool:
        return bool(self._keys)

    def require(self, host: str) -> None:
        """Reject, by a `ConfigError`, an address that others reach if there are no keys."""
        if host not in LOOPBACK and not self._keys:
            why = f"anyone who reaches {host} could {self._danger}"
            raise ConfigError(f"{why}: give clients a key, or serve on 127.0.0.1")

    def check(self, request: web.Request) -> None:
        """Reject a request without one of the keys; without keys, one that a web page could have made.

        A page of another site is told by its Origin, one whose name was led to this machine by the Host.
        """
        if not self._keys:
            _require_local(request)
        sent = key_of(request).encode("utf-8", "replace")
        if self._keys and not any(hmac.compare_digest(sent, key) for key in self._keys):
            what = "the API key is missing or wrong: send Authorization: Bearer KEY"
            raise Refusal(401, what, "authentication_error", code="invalid_api_key")


def _require_local(request: web.Request) -> None:
    origin = request.headers.get("Origin")
    hosts = [URL(f"http://{request.host}").host, *([] if origin is None else [URL(origin).host])]
    if not set(hosts) <= set(LOOPBACK):
        raise Refusal(403, "without keys only programs of this machine are served, at 127.0.0.1")


def key_of(request: web.Request) -> str:
    """The API key of a request, or nothing."""
    return request.headers.get("Authorization", "").removeprefix("Bearer ").strip()


def own_refusal(error: Exception) -> Refusal:
    """The error itself, if a handler raised a `Refusal`; any other is raised on."""
    if isinstance(error, Refusal):
        return error
    raise error


@dataclass(frozen=True, slots=True)
class Server:
    """A running server; `url` is its address, such as ``"http://127.0.0.1:8100"``."""

    url: str
    _runner: web.AppRunner

    async def close(self) -> None:
        """Stop serving: requests under way get the server's grace to end."""
        await self._runner.cleanup()


class Service(ABC):
    """What serves from `start` to `close`, at `url`; an asynchronous context manager."""

    url = ""
    _server: Server | None = None

    @abstractmethod
    async def start(self, host: str = "127.0.0.1", port: int = 0) -> None:
        """Serve, by default to this machine alone; port 0 is a free one."""

    async def close(self) -> None:
        """Stop serving."""
        if self._server is not None:
            await self._server.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


async def start_server(
    app: web.Application,
    host: str = "127.0.0.1",
    port: int = 0,
    guard: Guard | None = None,
    *,
    refusal_of: Callable[[Exception], Refusal] = own_refusal,
    grace: float = 60.0,
    cancels: bool = False,
) -> Server:
    """Start to serve an application on one address; port 0 is a free one.

    Handlers, but for that of ``/health``, are for those whom the `guard` serves: by default this machine
    alone. `refusal_of` gives the answer for an error of a handler. Requests under way get `grace` seconds to
    end when the server closes; with `cancels`, a handler is cancelled when its client leaves.
    """
    guard = Guard() if guard is None else guard
    guard.require(host)
    app.middlewares.append(_guarded(guard, refusal_of))
    runner = web.AppRunner(app, access_log=None, handler_cancellation=cancels, shutdown_timeout=grace)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
    except (OSError, OverflowError) as error:
        await runner.cleanup()
        why = getattr(error, "strerror", None) or error
        raise ConfigError(f"cannot serve on {host}:{port}: {why}") from error
    address = f"[{host}]" if ":" in host else host
    return Server(f"http://{address}:{runner.addresses[0][1]}", runner)


def _guarded(guard: Guard, refusal_of: Callable[[Exception], Refusal]) -> Any:
    @web.middleware
    async def guarded(
        request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        try:
            if request.path != "/health":
                guard.check(request)
            if request.match_info.http_exception is not None:
                there = f"there is no {request.method} {request.path}, only {_routes(request.app)}"
                raise Refusal(404, there)
            return await handler(request)
        except web.HTTPException:
            raise
        except Exception as error:
            left = request.transport is None or request.transport.is_closing()
            if left and isinstance(error, (*NETWORK_ERRORS, web.RequestPayloadError)):
                return web.Response(status=499)  # to nobody: the client is gone
            refusal = refusal_of(error)
            return web.json_response(refusal.body, status=refusal.status, headers=refusal.headers)

    return guarded


def _routes(app: web.Application) -> str:
    routes = [(each.method, each.resource) for each in app.router.routes() if each.method != "HEAD"]
    return ", ".join(f"{method} {resource.canonical}" for method, resource in routes if resource is not None)


def hub_answers() -> bool:
    """Whether the Hugging Face hub answers one request; its own libraries ask for nearly a minute."""
    from huggingface_hub import constants, get_session

    with suppress(Exception):  # of httpx, or in older versions of requests
        get_session().head(constants.ENDPOINT, timeout=constants.HF_HUB_ETAG_TIMEOUT)
        return True
    return False
