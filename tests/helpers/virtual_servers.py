"""Servers in memory, in virtual time, for tests of what requests, trees and runs do when some are refused."""

import asyncio
import json
import re
from collections import Counter
from contextlib import contextmanager
from unittest.mock import patch

import aiohttp

from mars_env.errors import ConfigError
from mars_env.net import Answer


def status(code, **headers):
    """A refusal of this status."""
    return Answer(code, headers, b'{"error": {"message": "not this one"}}')


class Unreachable(aiohttp.ClientConnectorError):
    """Nothing listens there."""

    def __init__(self):
        OSError.__init__(self, "nothing listens")

    def __str__(self):
        return "nothing listens"


REFUSALS = {
    "429": status(429),
    "429 later": status(429, **{"retry-after": "20"}),
    "500": status(500),
    "502": status(502),
    "error under 200": Answer(200, {}, b'{"error": {"message": "too large", "code": 429}}'),
    "reset": aiohttp.ServerDisconnectedError(),
    "unreachable": Unreachable(),
}
"""What a server answers to a request that it refuses, or what the client raises then."""


class Servers:
    """OpenAI-compatible servers, by the host of their address; each answers `slots` requests at a time.

    Attributes:
        seconds: That an answer takes.
        refused: A request is refused if this expression matches ``host: body``.
        refusal: How, one of `REFUSALS`, at once.
        dead: Hosts that refuse everything.
        requests: How many each host was sent.
    """

    def __init__(self, slots=10**6, seconds=1.0, refused="(?!)", refusal="500", dead=()):
        self.slots, self.seconds = slots, seconds
        self.refused, self.refusal, self.dead = re.compile(refused), REFUSALS[refusal], set(dead)
        self.requests, self.bodies, self._rooms = Counter(), [], {}

    async def request(self, method, url, limit, seconds=None, *, data=b"", headers=None):
        body = data.decode()
        self.requests[url.host] += 1
        self.bodies.append(f"{url.host}: {body}")
        if url.host in self.dead or self.refused.search(self.bodies[-1]):
            await asyncio.sleep(0.01)
            if isinstance(self.refusal, Exception):
                raise self.refusal
            return self.refusal
        async with self._rooms.setdefault(url.host, asyncio.Semaphore(self.slots)):
            await asyncio.sleep(self.seconds)
        asked = json.loads(body)
        texts = [f"{asked.get('seed')} {index} \\boxed{{4}}" for index in range(asked["n"])]
        choices = [{"index": i, "text": text, "finish_reason": "stop"} for i, text in enumerate(texts)]
        if "messages" in asked:
            choices = [
                {**each, "message": {"role": "assistant", "content": each["text"]}} for each in choices
            ]
        return Answer(200, {}, json.dumps({"choices": choices}).encode())


@contextmanager
def serving(servers):
    """While this is open, every `HTTPModel` of the process asks these servers."""
    with patch("mars_env.models.http.request", servers.request):
        yield servers


def address(*hosts):
    """Addresses of hosts for an `HTTPModel`."""
    if not hosts:
        raise ConfigError("no host")
    return [f"http://{host}/v1" for host in hosts]
