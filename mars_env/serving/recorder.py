"""`Recorder`: an OpenAI-compatible server in front of an engine, which stores what agents' calls sampled.

It asks the engine for token ids and log-probabilities as well (docs/other-trainers.md).
"""

import re
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Literal

import aiohttp
from aiohttp import web
from yarl import URL

from mars_env import net
from mars_env.checks import finite
from mars_env.errors import ConfigError, StoreError
from mars_env.models.endpoint import Endpoint
from mars_env.models.http import HTTPModel
from mars_env.models.openai_dialect import NEUTRAL, biasing_fields, completions_of, keeps_logprobs
from mars_env.models.preflight import check_server, model_names
from mars_env.models.requests import NO_LIMIT
from mars_env.models.secrets import Secrets, api_key
from mars_env.rollout.records import MAX_DEPTH, check_plain
from mars_env.serving.chunks import EVENT_STREAM, write_answer
from mars_env.serving.recording import Call, RecordedRun, Reply, digests
from mars_env.text import describe_error, logger, one_line
from mars_env.types import Completion, Problem, Sampling

log = logger(__name__)

AGENT_HEADER, TREE_HEADER = "X-Mars-Agent", "X-Mars-Tree"

_NAME = re.compile(r"[\w.+-]{1,100}")
_MARS_KEY = re.compile(r"mars:([^:]*)(?::(.*))?", re.S)
_NUMBERS = frozenset({*NEUTRAL, "max_tokens", "max_completion_tokens"})

_EXTRAS = ("prompt_token_ids", "token_ids", "logprobs")  # what training needs, asked for or not
_NOT_PASSED = frozenset(
    {"host", "content-length", "content-type", "content-encoding", "connection", "accept-encoding",
     "transfer-encoding", "keep-alive", "te", "trailer", "upgrade"}
)  # fmt: skip


class Recorder(net.Service):
    """Records the chat completions of any program.

    An agent is named by the header ``X-Mars-Agent``, by an API key of the form ``mars:AGENT``, or by the end
    of the model's name (``qwen3@AGENT``); else it is ``agent_0``. In the same way the header ``X-Mars-Tree``
    or a key ``mars:AGENT:TREE`` names the tree, such as ``aime/3#0``: what is played on one problem.

    Args:
        upstream: The engine's address, e.g. ``"http://localhost:8000/v1"``.
        out: Directory of the run; one that exists is continued.
        problems: Problems that trees may name.
        group: See `mars_env.serving.recording.RecordedRun`.
        logprobs: What the engine's log-probabilities are of: ``"raw"`` logits, or ``"processed"``.
        api_key_env: Environment variable with the engine's key; by default the program's own is passed on.
        keys: API keys of programs; without any, only this machine is served. With them agents and trees are
            named by headers or the model's name, and no key is passed on.

    Attributes:
        counts: Of turns stored, of those that cannot be trained on, and of what was not stored, by reason.
        max_body: Longest body of a request and of an answer, in bytes; set it before `start`.
        url: What programs are given as their ``base_url``.
        version: Version of the weights, noted with each token; set it when they change.
    """

    max_body = 64 * 2**20

    def __init__(
        self,
        upstream: str,
        out: str | Path,
        *,
        problems: Sequence[Problem] = (),
        group: Literal["input", "agent"] = "input",
        logprobs: Literal["raw", "processed"] = "raw",
        api_key_env: str | None = None,
        keys: Sequence[str] = (),
    ) -> None:
        if logprobs not in ("raw", "processed") or group not in ("input", "agent"):
            choices = "logprobs is 'raw' or 'processed' and group 'input' or 'agent'"
            raise ConfigError(f"{choices}, got {logprobs!r}, {group!r}")
        self._endpoint, self._upstream = Endpoint(upstream), (upstream, api_key_env)
        self._processed, self.version = logprobs == "processed", 0
        self._key = api_key(api_key_env)
        self._guard = net.Guard(keys, "use the engine and write into the run")
        self._secrets = Secrets([self._key, *self._endpoint.secrets])
        self._recording = RecordedRun(out, {"upstream": str(self._endpoint.base)}, problems, group)
        self.counts: Counter[str] = Counter()
        self._warnings: set[str] = set()

    async def check(self) -> None:
        """Check, by a `ConfigError`, that the engine gives the token ids and log-probabilities of training.

        Without `api_key_env`, one that wants a key is not asked. A `ModelError` if it cannot be reached.
        """
        url, key = self._upstream
        listing = HTTPModel(url, "the engine", api_key_env=key)
        [(base, status, body)] = await listing.listed()
        names = model_names(body) if status == 200 else []
        refused = status in (401, 403) and key is not None
        if names:
            await check_server(HTTPModel(url, names[0], exact=True, api_key_env=key))
        elif status is None or refused:
            await check_server(listing)
        else:
            log.warning("%s lists no models (status %s), so it was not checked for token ids", base, status)

    async def start(self, host: str = "127.0.0.1", port: int = 0) -> None:
        """Start to serve."""
        app = web.Application(client_max_size=self.max_body)
        app.router.add_post("/v1/chat/completions", self._chat)
        app.router.add_get("/v1/models", self._models)
        app.router.add_get("/counts", self._counts)
        try:
            self._server = await net.start_server(app, host, port, self._guard, refusal_of=self._refusal)
        except ConfigError:
            await self.close()
            raise
        self.url = f"{self._server.url}/v1"

    async def close(self) -> None:
        """Stop serving; calls under way get a minute to end."""
        await super().close()
        self._recording.close()

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        body = await net.read_json(request)
        try:
            call, request_body = self._call(request, body)
        except net.UNREADABLE as error:
            raise net.Refusal(400, f"the request cannot be read: {describe_error(error)}") from error
        begun = time.perf_counter()
        async with await self._ask("POST", self._endpoint.chat, request, json=request_body) as reply:
            if reply.status != 200:
                return await self._failure(reply)
            payload = await net.read_bounded(reply, self.max_body)
        if request.transport is None:  # the program went away, and may ask again
            self.counts["abandoned"] += 1
            raise ConnectionResetError
        answer = self._stored(payload, call, body, time.perf_counter() - begun)
        if answer is None:
            return web.Response(body=payload, content_type="application/json")
        if body.get("stream"):
            return await _streamed(request, answer, body.get("stream_options"))
        return web.json_response(answer)

    async def _ask(
        self, method: str, url: URL, request: web.Request, **options: Any
    ) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        headers, limit = self._headers(request), aiohttp.ClientTimeout(total=None, connect=30)
        client = await net.session()
        return client.request(method, url, headers=headers, timeout=limit, allow_redirects=False, **options)

    def _call(self, request: web.Request, body: Any) -> tuple[Call, dict[str, Any]]:
        model, messages = body["model"], body["messages"]
        if not isinstance(model, str) or not isinstance(messages, list) or not messages:
            raise ValueError("a model's name and a list of messages are needed")
        key = _MARS_KEY.fullmatch(net.key_of(request))
        served, mark, named = model.rpartition("@")
        agent = request.headers.get(AGENT_HEADER) or (key and key[1]) or (named if mark else "") or "agent_0"
        tree = request.headers.get(TREE_HEADER) or (key and key[2]) or None
        if _NAME.fullmatch(agent) is None:
            raise ValueError("the name of an agent is made of letters, digits and _ . + -")
        if tree is not None and (len(tree) > 300 or not tree.isprintable()):
            raise ValueError("the id of a tree is printable and at most 300 characters long")
        check_plain(messages, MAX_DEPTH // 2)
        digests(messages)
        policy = served if mark and served and not key and AGENT_HEADER not in request.headers else model
        fields = {name: value for name, value in body.items() if value is not None}
        for name in _NUMBERS & fields.keys():
            finite(fields[name])  # engines read "0.7", but a run with such a temperature could not be read
        for name in ("stream", "stream_options"):  # a whole answer is stored before it is streamed
            fields.pop(name, None)
        exact = {"model": policy, "return_token_ids": True, "logprobs": True}
        return Call(agent, policy, messages, tree), {**NEUTRAL, **fields, **exact}

    def _headers(self, request: web.Request) -> dict[str, str]:
        passed = {
            name: value
            for name, value in request.headers.items()
            if name.lower() not in _NOT_PASSED and not name.lower().startswith("x-mars-")
        }
        if self._key:
            passed["Authorization"] = f"Bearer {self._key}"
        elif self._guard or _MARS_KEY.fullmatch(net.key_of(request)):
            passed.pop("Authorization", None)
        return passed

    async def _failure(self, answer: aiohttp.ClientResponse) -> web.Response:
        self.counts[f"status {answer.status}"] += 1
        text = (await net.read_bounded(answer, self.max_body)).decode("utf-8", "replace")
        headers = {name: answer.headers[name] for name in ("Retry-After",) if name in answer.headers}
        masked, kind = self._secrets.mask(text), answer.content_type
        return web.Response(status=answer.status, text=masked, headers=headers, content_type=kind)

    def _stored(
        self, payload: bytes, call: Call, body: Mapping[str, Any], seconds: float
    ) -> dict[str, Any] | None:
        """Store the turns of an answer; returns it as the program asked for it, None if it is malformed."""
        try:
            answer = net.plain_json(payload)
            check_plain(answer, MAX_DEPTH // 2)
            replies = self._replies(payload, answer, body)
            reply = _without_extras(answer, body)
        except net.UNREADABLE as error:
            self.counts["unreadable"] += 1
            log.warning("an answer of the engine cannot be read, so is not stored: %s", describe_error(error))
            return None
        turns = self._recording.add(call, replies, seconds)
        self.counts["turns"] += len(turns)
        for turn in turns:
            if not turn.trainable:
                self.counts["not trainable"] += 1
                self._warn_once(turn.action.completions[0], body)
        return reply

    def _warn_once(self, completion: Completion, body: Mapping[str, Any]) -> None:
        if not completion.trainable and not completion.token_ids:
            why = "the engine gives no token ids (vLLM 0.10.2 or later does)"
        elif biasing_fields(body):
            why = "the program asks for another distribution (top_p, top_k, a penalty, a form of the answer)"
        elif not keeps_logprobs(_sampling(body), processed=self._processed):
            why = (
                "the log-probabilities are of raw logits, and the temperature is not 1 (start vLLM with "
                "--logprobs-mode processed_logprobs, and the recorder with logprobs processed)"
            )
        else:
            why = "the engine gives no log-probabilities, or writes -9999 for some: they are unknown"
        if why not in self._warnings:
            self._warnings.add(why)
            log.warning("turns are stored that cannot be trained on: %s", why)

    def _replies(self, payload: bytes, answer: Mapping[str, Any], body: Mapping[str, Any]) -> list[Reply]:
        completions = completions_of(
            payload,
            len(answer["choices"]),
            _sampling(body),
            processed=self._processed,
            version=self.version,
            biased=bool(biasing_fields(body)),
        )
        choices = sorted(answer["choices"], key=lambda choice: int(choice.get("index") or 0))
        name = str(answer.get("id", ""))
        return [
            Reply(completion, choice["message"], f"{name}:{place}" if place else name)
            for place, (completion, choice) in enumerate(zip(completions, choices, strict=True))
        ]

    async def _models(self, request: web.Request) -> web.Response:
        async with await self._ask("GET", self._endpoint.models, request) as answer:
            if answer.status != 200:
                return await self._failure(answer)
            listed = await net.read_bounded(answer, self.max_body)
            return web.Response(body=listed, content_type="application/json")

    async def _counts(self, request: web.Request) -> web.Response:
        return web.json_response(dict(self.counts))

    def _refusal(self, error: Exception) -> net.Refusal:
        reason, status, words = "refused", 500, str(error)
        if isinstance(error, net.Refusal):
            status = error.status
        elif isinstance(error, StoreError):  # a program that goes on would lose turns
            log.error("%s", error)
            reason, words = "not stored", f"the turn cannot be stored: {error}"
        elif isinstance(error, net.NETWORK_ERRORS):
            failure = one_line(self._secrets.mask(f"{type(error).__name__}: {error}"), 300)
            reason, status, words = "unreachable", 502, f"the engine cannot be reached: {failure}"
        else:
            raise error
        self.counts[reason] += 1
        return net.Refusal(status, f"recorder: {words}", "recorder_error")


async def _streamed(request: web.Request, answer: Mapping[str, Any], options: Any) -> web.StreamResponse:
    response = web.StreamResponse(headers=EVENT_STREAM)
    await response.prepare(request)
    with_usage = isinstance(options, Mapping) and bool(options.get("include_usage"))
    await write_answer(response, answer, with_usage=with_usage)
    await response.write_eof()
    return response


def _without_extras(answer: Mapping[str, Any], body: Mapping[str, Any]) -> dict[str, Any]:
    """An answer without the token ids and log-probabilities that the program did not ask for."""
    wants = {"logprobs": body.get("logprobs")}
    dropped = {name for name in _EXTRAS if not wants.get(name, body.get("return_token_ids"))}
    reply = {name: value for name, value in answer.items() if name not in dropped}
    reply["choices"] = [
        {name: value for name, value in choice.items() if name not in dropped} for choice in answer["choices"]
    ]
    return reply


def _sampling(body: Mapping[str, Any]) -> Sampling:
    fields = {name: body[name] for name in ("temperature", "top_p", "top_k") if body.get(name) is not None}
    limit = body.get("max_completion_tokens") or body.get("max_tokens") or NO_LIMIT
    return Sampling(max_tokens=int(limit), **{"temperature": 1.0, **fields})
