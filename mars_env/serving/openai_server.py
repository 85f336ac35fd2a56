"""What the library's servers share: an address, reading requests, keys, errors as OpenAI words them."""

from __future__ import annotations

import hmac
import json
from collections.abc import Mapping, Sequence
from typing import Any

from aiohttp import web

from mars_env.errors import ConfigError

LOOPBACK = ("127.0.0.1", "::1", "localhost")
"""Addresses that only this machine reaches."""

UNREADABLE = (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError)
"""What reading malformed JSON, or JSON of another form, raises."""


class Refusal(Exception):
    """A request that is refused, in the words that its client reads.

    Args:
        status: Of the answer.
        sentence: Why, and what to do.
        kind: The error's type, by which programs tell errors apart.
        code: The error's code; by default the status.
        headers: Of the answer.
    """

    def __init__(
        self,
        status: int,
        sentence: str,
        kind: str = "invalid_request_error",
        *,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(sentence)
        self.status, self.headers = status, dict(headers or {})
        self.body = {"error": {"message": sentence, "type": kind, "code": code or status}}


def error_response(refusal: Refusal) -> web.Response:
    """The answer of a refusal, as OpenAI's clients read it."""
    return web.json_response(refusal.body, status=refusal.status, headers=refusal.headers)


def plain_json(text: str | bytes) -> Any:
    """JSON without NaN and infinities, which a run cannot store.

    Raises:
        ValueError: It is not.

    Example:
        >>> plain_json('{"seed": NaN}')
        Traceback (most recent call last):
        ValueError: NaN is no JSON
    """

    def refuse(word: str) -> None:
        raise ValueError(f"{word} is no JSON")

    return json.loads(text, parse_constant=refuse)


async def read_body(request: web.Request) -> bytes:
    """The body of a request, which is announced as JSON: a web page could send another one unasked.

    Raises:
        Refusal: It is not, or is too long.
    """
    if request.content_type != "application/json":
        raise Refusal(415, "the body of a request is JSON: send Content-Type: application/json")
    try:
        return await request.read()
    except web.HTTPRequestEntityTooLarge as error:
        raise Refusal(413, f"the request is longer than {request.client_max_size:,} bytes") from error


async def read_json(request: web.Request) -> Any:
    """The JSON of a request.

    Raises:
        Refusal: As `read_body`.
        ValueError: It is not JSON; other exceptions of `UNREADABLE` mean the same.
    """
    return plain_json(await read_body(request))


class Guard:
    """Whom a server serves: this machine alone, or clients with a key.

    Args:
        keys: Keys of clients.
        danger: What whoever reaches the server could do without one, for the message.

    Raises:
        ConfigError: A key is empty.
    """

    def __init__(self, keys: Sequence[str], danger: str) -> None:
        if not all(isinstance(key, str) and key.strip() for key in keys):
            raise ConfigError("a key is a string that is not empty")
        self._keys, self._danger = [key.strip().encode() for key in keys], danger

    def __bool__(self) -> bool:
        return bool(self._keys)

    def require(self, host: str) -> None:
        """Check the address at which the server will listen.

        Raises:
            ConfigError: Others than this machine reach it, and there are no keys.
        """
        if host not in LOOPBACK and not self._keys:
            raise ConfigError(
                f"whoever reaches {host} could {self._danger}: give clients a key, or serve on 127.0.0.1"
            )

    def check(self, request: web.Request) -> None:
        """Check a request.

        Raises:
            Refusal: It has none of the keys.
        """
        given = key_of(request).encode("utf-8", "replace")
        if self._keys and not any(hmac.compare_digest(given, key) for key in self._keys):
            raise Refusal(
                401,
                "the API key is missing or wrong: send Authorization: Bearer KEY",
                "authentication_error",
                code="invalid_api_key",
            )


def key_of(request: web.Request) -> str:
    """The API key of a request; empty if there is none."""
    return request.headers.get("Authorization", "").removeprefix("Bearer ").strip()


async def listen(runner: web.AppRunner, host: str, port: int) -> str:
    """Serve an application on one address; returns it, such as ``"http://127.0.0.1:8100"``.

    Raises:
        ConfigError: The address cannot be used.
    """
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
    except (OSError, OverflowError) as error:
        why = getattr(error, "strerror", None) or error
        raise ConfigError(f"cannot serve on {host}:{port}: {why}") from error
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{runner.addresses[0][1]}"
