"""`HTTPModel`: a model behind an OpenAI-compatible server (vLLM, SGLang, llama.cpp, OpenAI ...)."""

import asyncio
import json
import time
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import aiohttp

from mars_env.errors import ConfigError, ContextError, ModelError
from mars_env.identity import digest_of
from mars_env.models import openai_dialect as dialect
from mars_env.models.endpoint import Endpoint, Endpoints
from mars_env.models.http_scoring import Read, RequestRefused, Scorer, T
from mars_env.models.requests import check_request, is_messages, is_token_ids, plain_chat, require_fit
from mars_env.models.secrets import Secrets, api_key
from mars_env.net import NETWORK_ERRORS, UNREADABLE, Answer, BodyTooLong, request
from mars_env.seeds import derive_seed
from mars_env.sync import Gate, gather_all
from mars_env.text import logger, one_line
from mars_env.types import Completion, FinishReason, Prompt, Sampling

log = logger(__name__)

_LIST_BYTES = 2**24
"""Most of a list of models that is read; hosts of many models describe each."""

_PATIENCE = 30.0
"""Seconds that a server may take to list its models before a run."""

_NOT_TAKEN = frozenset({429, 502, 503, *range(520, 524), 529})
"""Statuses by which a server or what is in front of it takes no requests for now."""

_OWN = ("model", "messages", "prompt", "n", "seed", "stop", "stream", "temperature", "top_p", "top_k")
"""Fields of a request that the model sets."""


class HTTPModel:
    """A model behind one or more OpenAI-compatible endpoints.

    Messages go to ``/chat/completions``; strings and token ids go to ``/completions``. Connection errors,
    time-outs, answers that cannot be read, and the statuses 408, 409, 429 and 5xx are tried again; any other
    status is a `ModelError` at once.

    **Outages.** After a failure an endpoint rests, longer each time, not before ``Retry-After``; then it gets
    one request at a time until one succeeds. All calls wait while no endpoint is ready. A request that no
    server took (no connection, 429, 502, 503, 520 to 523, 529), or that failed together with others, does not
    count as an attempt. A call that has waited for `patience` seconds raises `ServerDown`, which ends a run;
    the same command continues it.

    **Replicas.** Of several endpoints each request goes to the least busy. One that cannot be reached is left
    out until ``/health`` beside ``/v1``, asked every `health_interval` seconds, is well. `drain` takes an
    endpoint out, `admit` puts one in.

    **Seeds.** A call for samples i, i+1 ... carries the upper 31 bits of ``derive_seed(seed, i)``. Servers
    differ in what they do with one seed for several samples: vLLM's current engine gives sample j the seed +
    j; some older servers return n equal samples. With ``samples_per_call=1`` every sample is a call with its
    own seed, so sample i is the same whatever n is. A server that returns fewer samples is asked for the
    rest.

    **Training.** With ``exact=True`` token ids and log-probabilities are asked for as vLLM serves them
    (0.10.2 or later), and top-k, min-p and the penalties are always sent, since vLLM otherwise takes them
    from the checkpoint's generation config. A server's log-probabilities are usually those before the
    temperature; they are then kept only if that makes no difference (temperature 1 or 0, no top-p or top-k).
    Start vLLM with ``--logprobs-mode processed_logprobs`` and say ``logprobs="processed"`` to keep them all.
    No completion is trainable if `extra_body` changes what is sampled from (a penalty, a form of the answer).

    Args:
        base_url: Such as ``"http://localhost:8000/v1"``, or several of them.
        model: The model's name on the server.
        api: ``"auto"`` as above; ``"chat"`` sends a string as one user message; ``"completions"`` sends
            messages as plain text (see `plain_chat`).
        exact: Ask for token ids and log-probabilities.
        logprobs: What the server's log-probabilities are of: ``"raw"`` logits, or ``"processed"``.
        api_key_env: Name of the environment variable that holds the key; by default no key is sent.
        concurrency: Most concurrent calls in one event loop.
        attempts: Most attempts of a call, the first one included.
        backoff: Seconds that an endpoint rests after its first failure; doubles each time, up to 30.
        patience: Seconds that a call waits, in all, while no endpoint is ready.
        timeout: Seconds that one attempt may take.
        max_answer: Longest body of an answer, in bytes. A longer one is a `ModelError` at once: raise it, or
            lower `samples_per_call`.
        samples_per_call: Most samples requested in one call; None for all.
        health_interval: Seconds between two health checks of an endpoint, if there are several.
        limit_field: Name of the field that limits tokens (``"max_completion_tokens"`` for some servers).
        extra_body: More fields of each request; not those of `Sampling`.
        headers: More headers of each request.
        name: Name in messages and the default policy name of agents.
        version: Version of the weights, noted in exact completions.
        tokenizer: The model's tokenizer of transformers, or its name or path, for `score`; and, with
            ``exact=True``, for turns with tools, whose prompts are then token ids.

    Attributes:
        capacity: `concurrency`.
        under_way: Calls that are running or waiting for a place.
        biasing: Fields of `extra_body` that change the distribution sampled from.
        takes_tools: Whether `complete` takes tools: chats do.
        context: Tokens that the server's model can hold, once `learn_context` knows them.

    Raises:
        ConfigError: An argument is invalid, or the key's variable is not set.

    Example:
        >>> HTTPModel("http://localhost:8000/v1", "qwen3")
        HTTPModel('qwen3', ['http://localhost:8000/v1'])
    """

    def __init__(  # public edge: friendly keywords, each with a default
        self,
        base_url: str | Sequence[str],
        model: str,
        *,
        api: Literal["auto", "chat", "completions"] = "auto",
        exact: bool = False,
        logprobs: Literal["raw", "processed"] = "raw",
        api_key_env: str | None = None,
        concurrency: int = 64,
        attempts: int = 6,
        backoff: float = 0.5,
        patience: float = 600.0,
        timeout: float = 600.0,
        max_answer: int = 64 * 2**20,
        samples_per_call: int | None = None,
        health_interval: float = 5.0,
        limit_field: str = "max_tokens",
        extra_body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        name: str = "",
        version: int = 0,
        tokenizer: Any = None,
    ) -> None:
        urls = [base_url] if isinstance(base_url, str) else list(base_url)
        counts = (concurrency, attempts, max_answer, 1 if samples_per_call is None else samples_per_call)
        if not urls or min(counts) < 1 or min(backoff, patience) < 0 or not health_interval > 0:
            least = "at least 1, health_interval above 0, backoff and patience at least 0"
            raise ConfigError(f"endpoints, concurrency, attempts, max_answer, samples_per_call: {least}")
        if api not in ("auto", "chat", "completions"):
            raise ConfigError(f"api is 'auto', 'chat' or 'completions', got {api!r}")
        if logprobs not in ("raw", "processed"):
            raise ConfigError(f"logprobs is 'raw' or 'processed', got {logprobs!r}")
        self.name, self.version = name or model, version
        self._endpoints = Endpoints(urls, self.name, health_interval, backoff)
        self._api, self.processed = api, logprobs == "processed"
        self.takes_tools = api != "completions"
        self.capacity, self.under_way = concurrency, 0
        self.context: int | None = None
        self.model_name, self.exact = model, exact
        self._attempts, self._patience, self._timeout = attempts, patience, timeout
        self._health_interval = health_interval
        self._samples_per_call, self.limit_field = samples_per_call, limit_field
        self.extra_body = more = dict(extra_body or {})
        if clash := sorted({*_OWN, limit_field} & {*more}):
            raise ConfigError(f"extra_body may not set {', '.join(clash)}: the model does")
        self.biasing = tuple(dialect.biasing_fields(more))
        neutral = {name: value for name, value in dialect.NEUTRAL.items() if exact and name not in _OWN}
        self._head = json.dumps({"model": model, **neutral, **more})[:-1]
        self.template_options = more.get("chat_template_kwargs") or {}
        self._scorer = Scorer(self.name, tokenizer, self.template_options)
        self._key = api_key(api_key_env)
        self._headers = {"Content-Type": "application/json", **(headers or {})}
        if self._key:
            self._headers["Authorization"] = f"Bearer {self._key}"
        self._secrets = Secrets([self._key, *(headers or {}).values()])
        for endpoint in self._endpoints.all:
            self._secrets.add(*endpoint.secrets)
        if any(mark in word for pair in self._headers.items() for word in pair for mark in "\r\n\0"):
            raise ConfigError("a header may not contain a line break")
        self._gate, self._max_answer = Gate(concurrency), max_answer

    def __repr__(self) -> str:  # never the key, the headers or the body
        return f"HTTPModel({self.name!r}, {self.endpoints})"

    def identity(self) -> dict[str, Any]:
        """What identifies it: what is asked for, with digests of `extra_body`; not where or by which key."""
        return {
            "model": self.model_name,
            "version": self.version,
            "api": self._api,
            "exact": self.exact,
            "processed": self.processed,
            "samples_per_call": self._samples_per_call,
            "limit_field": self.limit_field,
            "extra_body": {name: digest_of(value) for name, value in self.extra_body.items()},
        }

    @property
    def endpoints(self) -> list[str]:
        """The endpoints' addresses, drained ones too."""
        return [str(endpoint.base) for endpoint in self._endpoints.all]

    def at(self, url: str) -> "HTTPModel":
        """This model behind one of its endpoints alone."""
        one = copy(self)
        one._endpoints = self._endpoints.only(url)
        return one

    async def learn_context(self) -> int | None:
        """Ask the servers for the model's context length, and keep it as `context`; None if none says."""
        listed = await self.listed(self._health_interval)
        answers = [dialect.context_of(body, self.model_name) for _, status, body in listed if status == 200]
        self.context = min((one for one in answers if one is not None), default=None)
        return self.context

    async def listed(self, seconds: float = _PATIENCE) -> list[tuple[str, int | None, bytes]]:
        """What each endpoint says of its models: address, status, body; no status if it cannot be reached."""
        answers: list[tuple[str, int | None, bytes]] = []
        for endpoint in self._endpoints.all:
            try:
                got = await request("GET", endpoint.models, _LIST_BYTES, seconds, headers=self._headers)
                answers.append((str(endpoint.base), got.status, got.body))
            except NETWORK_ERRORS as error:
                words = self._masked(f"{type(error).__name__}: {error}")
                answers.append((str(endpoint.base), None, words.encode()))
        return answers

    async def drain(self, url: str) -> None:
        """Send no more requests to an endpoint; returns when its running ones have ended.

        It can then be stopped, or given new weights. Requests wait for `patience` seconds while every
        endpoint is drained.
        """
        endpoint = self._endpoints.find(url)
        if endpoint is None:
            raise ConfigError(f"{self.name} has no endpoint {url}")
        endpoint.drained = True
        while endpoint.busy:
            await asyncio.sleep(0.02)

    def admit(self, url: str) -> None:
        """Send requests to an endpoint: one that was drained, or a new one."""
        endpoint = self._endpoints.find(url) or self._endpoints.add(url)
        self._secrets.add(*endpoint.secrets)
        endpoint.admit()

    @property
    def tokenizer(self) -> Any:
        """The model's tokenizer, where prompts of token ids are exact; else None."""
        exact = self.exact and self._api != "chat" and self._scorer.has_tokenizer
        return self._scorer.tokenizer if exact else None

    @property
    def encode(self) -> Callable[..., tuple[int, ...]] | None:
        """Gives the token ids of a prompt, by the given tokenizer, as `HFModel.encode`; None without one."""
        return self._scorer.encode if self._scorer.has_tokenizer else None

    async def complete(
        self, prompt: Prompt, n: int, sampling: Sampling, *, tools: Sequence[Mapping[str, Any]] = ()
    ) -> list[Completion]:
        """Sample n completions of one prompt.

        A chat may have `tools`, in OpenAI's form. Calls of them stand in the completion's text, each as JSON
        in ``<tool_call>``.

        Where a server counts tokens only for all samples of a call together, they are divided in proportion
        to the lengths of the texts. A completion that the model's context cut off has the finish reason
        ``"context"``. A request that the server refuses for its length gives empty ones (see
        ``Sampling.overflow``), and so does one that its content filter refuses (``"content_filter"``).

        Raises:
            ModelError: The server refused the request, or all attempts failed.
            ServerDown: No server took it for `patience` seconds.
            ContextError: The request is too long for the context, and the sampling refuses that.
        """
        check_request(n, sampling)
        chat, field = self._field(prompt)
        if tools and chat:
            field += f', "tools": {json.dumps(list(tools))}'
        # vLLM refuses several samples of a greedy request.
        step = 1 if sampling.temperature == 0 else min(n, self._samples_per_call or n)
        parts = [
            self._samples(chat, field, begin, min(step, n - begin), sampling) for begin in range(0, n, step)
        ]
        return [completion for part in await gather_all(parts) for completion in part]

    def written(self, prompt: Prompt, *texts: str | Sequence[int], end: bool = True) -> Completion:
        """The completion that given texts would be: its token ids; as `HFModel.written`.

        A `ConfigError` if there is no tokenizer, and more than token ids are given.
        """
        return self._scorer.written(prompt, *texts, end=end)

    async def score(self, prompt: Prompt, *texts: str | Sequence[int], end: bool = True) -> Completion:
        """How probable given texts are after a prompt, at temperature 1; as `HFModel.score`.

        The server is asked as vLLM serves it (``prompt_logprobs``), else by ``echo``.

        Raises:
            ConfigError: The server offers neither, or there is no tokenizer, or ``api="chat"``.
            ContextError: Prompt and texts are longer than the model's context, where that is known.
            ModelError: As `written`, or the server failed.
        """
        if self._api == "chat":
            raise ConfigError(f"{self.name}: only /completions can score texts: leave out api='chat'")
        given = self.written(prompt, *texts, end=end)
        require_fit(given, self.context, self.name)
        values = await self._scorer.logprobs(given, partial(self._send, False))
        return replace(given, logprobs=values, versions=((self.version, len(values)),))

    async def _samples(
        self, chat: bool, field: str, first: int, n: int, sampling: Sampling
    ) -> list[Completion]:
        """Samples `first` to `first + n - 1`."""
        found: list[Completion] = []
        own: Any = {"processed": self.processed, "context": self.context, "biased": bool(self.biasing)}
        try:
            while (left := n - len(found)) > 0:  # a server may not know n, or limit it
                given = replace(sampling, seed=None)
                tail = dialect.sampling_fields(left, given, chat, self.exact, self.limit_field)
                if sampling.seed is not None:
                    tail += f', "seed": {derive_seed(sampling.seed, first + len(found)) >> 32}'
                read = partial(dialect.completions_of, n=left, sampling=sampling, version=self.version, **own)
                found += await self._send(chat, f"{field}, {tail}", read)
        except _Unanswered as refusal:
            if refusal.reason == "context" and sampling.overflow == "refuse":
                advice = 'raise the context, lower max_tokens, or set overflow="unknown"'
                raise ContextError(f"{refusal}: {advice}") from refusal
            log.warning("%s; its samples are UNKNOWN", refusal)
            return [Completion("", refusal.reason, temperature=sampling.temperature)] * n
        return found

    def _field(self, prompt: Prompt) -> tuple[bool, str]:
        """Whether it is a chat, and the prompt as a JSON field."""
        if self._api == "chat" and isinstance(prompt, str):
            prompt = [{"role": "user", "content": prompt}]
        if is_messages(prompt):
            if self._api != "completions":
                return True, f'"messages": {dialect.messages_json(prompt)}'
            prompt = plain_chat(prompt)
        if isinstance(prompt, str):
            return False, f'"prompt": {json.dumps(prompt)}'
        if self._api == "chat" or not is_token_ids(prompt):
            raise ModelError(f"{self.name}: token ids (at least one) need api='auto' or api='completions'")
        return False, f'"prompt": {json.dumps([int(token) for token in prompt])}'

    async def _send(self, chat: bool, fields: str, read: Read[T]) -> T:
        """Send a request until it is answered; see the class for what counts as an attempt."""
        body = f"{self._head}, {fields}}}".encode()
        attempts, waited = 0, 0.0
        self.under_way += 1
        try:
            while True:
                async with self._gate.semaphore():
                    began = time.monotonic()
                    endpoint = await self._endpoints.choose(self._headers, self._patience - waited)
                    waited += time.monotonic() - began
                    try:
                        return await self._attempt(endpoint, chat, body, read)
                    except _Fault as fault:
                        attempts += fault.taken
                        if attempts >= self._attempts:
                            why = f"{self.name}: no answer after {attempts} attempts: {endpoint.base}"
                            raise ModelError(f"{why}: {fault}") from fault
        finally:
            self.under_way -= 1

    async def _attempt(self, endpoint: Endpoint, chat: bool, body: bytes, read: Read[T]) -> T:
        sent = time.monotonic()
        url = endpoint.chat if chat else endpoint.completions
        with endpoint.occupied():
            try:
                answer = await request(
                    "POST", url, self._max_answer, self._timeout, data=body, headers=self._headers
                )
                found = self._read(endpoint, answer, read)
            except _Fault as error:
                fault = error
            except BodyTooLong as error:
                why = f"{endpoint.base}: {error}: raise max_answer, or lower samples_per_call"
                raise ModelError(f"{self.name}: {why}") from None
            except TimeoutError:
                words = f"no whole answer within {self._timeout:g} s: raise timeout, or lower max_tokens"
                fault = _Fault(words, reachable=False)
            except NETWORK_ERRORS as error:
                taken = not isinstance(error, aiohttp.ClientConnectorError)
                words = self._masked(f"{type(error).__name__}: {error}")
                fault = _Fault(words, taken=taken, reachable=False)
            except ModelError:  # refused, which is an answer
                endpoint.recover()
                raise
            else:
                endpoint.recover()
                return found
        noted = {"taken": fault.taken, "reachable": fault.reachable}
        fault.taken &= endpoint.rest(str(fault), sent, fault.retry_after, **noted)
        log.info("%s: %s: %s", self.name, endpoint.base, fault)
        raise fault

    def _read(self, endpoint: Endpoint, answer: Answer, read: Read[T]) -> T:
        """What is read from an answer; even one of status 200 may hold an error."""
        if answer.status != 200:
            raise self._refusal(endpoint, answer)
        try:
            return read(answer.body)
        except UNREADABLE as error:
            if embedded := dialect.embedded_error(answer.body):
                status, body = embedded
                raise self._refusal(endpoint, replace(answer, status=status, body=body)) from None
            why = repr(error)
            if isinstance(error, json.JSONDecodeError | UnicodeDecodeError):  # these repeat all of it
                why = f"{error}: {dialect.error_text(answer.body, self._secrets.mask)}"
            raise _Fault(self._masked(f"the answer cannot be read: {why}")) from None

    def _refusal(self, endpoint: Endpoint, answer: Answer) -> Exception:
        """The error that a status means."""
        words = dialect.error_text(answer.body, self._secrets.mask)
        if 300 <= answer.status < 400 and (target := answer.headers.get("location")):
            shown = self._masked(dialect.base_of(target))
            words = f"it redirects to {shown}, which is not followed: give that address instead"
        status = f"status {answer.status}: {words}"
        if answer.status in (408, 409, 429) or answer.status >= 500:
            wait = dialect.retry_after(answer.headers.get("retry-after"))
            return _Fault(status, wait, taken=answer.status not in _NOT_TAKEN)
        sentence = f"{endpoint.base}: {status}"
        if dialect.is_too_long(answer.status, answer.body):
            words = f"{self.name}: prompt and limit exceed the model's context: {sentence}"
            return _Unanswered(words, "context")
        if dialect.is_filtered(answer.body):
            return _Unanswered(f"{self.name}: a filter refuses the request: {sentence}", "content_filter")
        advice = dialect.advised(answer.status, words, endpoint.base.path)
        return RequestRefused(f"{self.name}: the server refused the request: {sentence}{advice}")

    def _masked(self, words: str) -> str:
        """Words without secrets. What they come from may hold them and must not be kept."""
        return one_line(self._secrets.mask(words), 300)


class _Fault(Exception):
    """A fault that a new attempt may not have, and whether the server had taken the request."""

    def __init__(
        self, words: str, retry_after: float = 0.0, *, taken: bool = True, reachable: bool = True
    ) -> None:
        super().__init__(words)
        self.retry_after, self.taken, self.reachable = retry_after, taken, reachable


class _Unanswered(ModelError):
    """The server refused a request for its length or its content; `reason` is its samples' finish reason."""

    def __init__(self, words: str, reason: FinishReason) -> None:
        super().__init__(words)
        self.reason: FinishReason = reason
