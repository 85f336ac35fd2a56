"""`HTTPModel`: a model behind an OpenAI-compatible server (vLLM, SGLang, llama.cpp, OpenAI ...)."""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any, Literal

from mars_env.errors import ConfigError, ContextError, ModelError
from mars_env.gate import SERVED, Spellings, map_strings, safe_messages
from mars_env.identity import digest_of
from mars_env.models import openai_dialect as dialect
from mars_env.models.endpoint import Endpoint, Endpoints, now
from mars_env.models.http_scoring import Read, Scorer, T
from mars_env.models.requests import (
    check_request,
    is_messages,
    is_token_ids,
    plain_chat,
    require_fit,
    with_messages,
)
from mars_env.models.retries import Attempts, RequestFailed, Retries
from mars_env.models.secrets import Secrets, api_key
from mars_env.models.token_gate import gate_of
from mars_env.net import NETWORK_ERRORS, UNREADABLE, Answer, BodyTooLong, request
from mars_env.seeds import derive_seed
from mars_env.sync import Gate, gather_samples
from mars_env.text import describe_error, logger, one_line
from mars_env.types import Completion, FinishReason, Prompt, Sampling

log = logger(__name__)

_LIST_BYTES, _LIST_SECONDS = 2**24, 30.0
"""Most of a list of models that is read, since hosts of many models describe each; how long it may take."""

CONTROL = Sampling(max_tokens=16, temperature=1.0, overflow="unknown")
"""How a harmless request is sampled, to see whether a server answers; some servers refuse smaller limits."""

_OWN = ("model", "messages", "prompt", "n", "seed", "stop", "stream", "temperature", "top_p", "top_k")


class HTTPModel:
    """A model behind one or more OpenAI-compatible endpoints.

    Messages go to ``/chat/completions``; strings and token ids go to ``/completions``.

    **Outages.** Connection errors, time-outs, answers that cannot be read, and the statuses 408, 409, 429 and
    5xx are tried again on the other endpoints, then after a pause that doubles each time, not before
    ``Retry-After``. A failure counts once the servers have answered another request after it, or else a
    harmless one of at most 16 tokens; after `attempts` of them the request is given up. While they answer
    nothing it waits; after `patience` seconds the call raises `ServerDown`, which ends a run; the same
    command continues it. Any other status is a `ModelError` at once.

    **Replicas.** Of several endpoints each request goes to the least busy of those that answered their last
    request. One that did not gets a request every five seconds.

    **Seeds.** A call for samples i, i+1 ... carries the upper 31 bits of ``derive_seed(seed, i)``. Servers
    use one seed for several samples in different ways; with ``samples_per_call=1`` every sample has its own.

    **Training.** With ``exact=True`` token ids and log-probabilities are asked for as vLLM serves them
    (0.10.2 or later). Log-probabilities before the temperature are kept only if that makes no difference
    (temperature 1 or 0, no top-p or top-k): start vLLM with ``--logprobs-mode processed_logprobs`` and say
    ``logprobs="processed"`` to keep them all. No completion is trainable if `extra_body` changes what is
    sampled from (a penalty, a form of the answer).

    Args:
        base_url: Such as ``"http://localhost:8000/v1"``, or several of them.
        model: The model's name on the server.
        api: ``"auto"`` as above; ``"chat"`` sends a string as one user message; ``"completions"`` sends
            messages as plain text (see `plain_chat`).
        exact: Ask for token ids and log-probabilities.
        logprobs: What the server's log-probabilities are of: ``"raw"`` logits, or ``"processed"``.
        api_key_env: Name of the environment variable that holds the key; by default no key is sent.
        concurrency: Most concurrent calls in one event loop.
        attempts: Most failures of a call on every endpoint while the servers answer others.
        backoff: Seconds that a call waits after it has failed on every endpoint; doubles each time, up to 30.
        patience: Seconds that the servers may answer nothing.
        timeout: Seconds that one attempt may take.
        max_answer: Longest body of an answer, in bytes. A longer one is a `ModelError` at once.
        samples_per_call: Most samples requested in one call; None for all.
        limit_field: Name of the field that limits tokens (``"max_completion_tokens"`` for some servers).
        extra_body: More fields of each request; not those of `Sampling`.
        headers: More headers of each request.
        name: Name in messages and the default policy name of agents.
        version: Version of the weights, noted in exact completions.
        tokenizer: The model's tokenizer of transformers, or its name or path, for `score`, for the control
            tokens that are broken in chats, and, with ``exact=True``, for chats sent as token ids.

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
        limit_field: str = "max_tokens",
        extra_body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        name: str = "",
        version: int = 0,
        tokenizer: Any = None,
    ) -> None:
        urls = [base_url] if isinstance(base_url, str) else list(base_url)
        counts = (concurrency, max_answer, 1 if samples_per_call is None else samples_per_call)
        if not urls or min(counts) < 1:
            raise ConfigError("endpoints, concurrency, max_answer and samples_per_call are at least 1")
        if api not in ("auto", "chat", "completions"):
            raise ConfigError(f"api is 'auto', 'chat' or 'completions', got {api!r}")
        if logprobs not in ("raw", "processed"):
            raise ConfigError(f"logprobs is 'raw' or 'processed', got {logprobs!r}")
        self.name, self.version = name or model, version
        self._endpoints = Endpoints([Endpoint(url) for url in urls])
        self._retries = Retries(self.name, attempts, backoff, patience)
        self._api, self.processed = api, logprobs == "processed"
        self.takes_tools = api != "completions"
        self.capacity = concurrency
        self.context: int | None = None
        self.model_name, self.exact = model, exact
        self._timeout = timeout
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
        in_urls = [secret for endpoint in self._endpoints.all for secret in endpoint.secrets]
        self._secrets = Secrets([self._key, *(headers or {}).values(), *in_urls])
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
        """Addresses."""
        return [str(endpoint.base) for endpoint in self._endpoints.all]

    def at(self, url: str) -> "HTTPModel":
        """This model behind one of its endpoints alone."""
        one = copy(self)
        one._endpoints = Endpoints([each for each in self._endpoints.all if str(each.base) == url])
        return one

    async def learn_context(self) -> int | None:
        """Ask the servers for the model's context length, and keep it as `context`; None if none says."""
        listed = await self.listed()
        answers = [dialect.context_of(body, self.model_name) for _, status, body in listed if status == 200]
        self.context = min((one for one in answers if one is not None), default=None)
        return self.context

    async def listed(self, seconds: float = _LIST_SECONDS) -> list[tuple[str, int | None, bytes]]:
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

    @property
    def tokenizer(self) -> Any:
        """The model's tokenizer, where prompts of token ids are exact; else None."""
        exact = self.exact and self._api != "chat" and self._scorer.has_tokenizer
        return self._scorer.tokenizer if exact else None

    @property
    def _tokens(self) -> Spellings:
        """The control tokens of the server's model, or, without its tokenizer, of all listed dialects."""
        return gate_of(self._scorer.tokenizer).tokens if self._scorer.has_tokenizer else SERVED

    @property
    def encode(self) -> Callable[..., tuple[int, ...]] | None:
        """Gives the token ids of a prompt, by the given tokenizer, as `HFModel.encode`; None without one."""
        return self._scorer.encode if self._scorer.has_tokenizer else None

    async def complete(
        self, prompt: Prompt, n: int, sampling: Sampling, *, tools: Sequence[Mapping[str, Any]] = ()
    ) -> list[Completion]:
        """Sample n completions of one prompt.

        A chat may have `tools`, in OpenAI's form. Calls of them stand in the completion's text, each as JSON
        in ``<tool_call>``. A request that the server refuses for its length gives empty completions (see
        ``Sampling.overflow``), and so does one that its content filter refuses (``"content_filter"``).

        Raises:
            ModelError: All requests were refused, or all their attempts failed. One of several that failed
                gives completions with the finish reason ``"fault"``.
            ServerDown: No server answered anything for `patience` seconds.
            ContextError: The request is too long for the context, and the sampling refuses that.
        """
        check_request(n, sampling)
        if self.tokenizer is not None and is_messages(prompt):
            chat, field, _ = self._field(self._scorer.encode(prompt, tools))
            sent: Prompt = prompt
        else:
            chat, field, sent = self._field(prompt)
        if tools and chat:
            field += f', "tools": {json.dumps(map_strings(list(tools), self._tokens.broken))}'
        # vLLM refuses several samples of a greedy request.
        step = 1 if sampling.temperature == 0 else min(n, self._samples_per_call or n)
        sizes = [min(step, n - begin) for begin in range(0, n, step)]

        def lost(call: int, error: Exception) -> list[Completion]:
            fault = describe_error(error)
            return [Completion("", "fault", temperature=sampling.temperature, fault=fault)] * sizes[call]

        calls = [self._samples(chat, field, call * step, size, sampling) for call, size in enumerate(sizes)]
        completions = [completion for samples in await gather_samples(calls, lost) for completion in samples]
        return with_messages(completions, sent)

    def written(self, prompt: Prompt, *texts: str | Sequence[int], end: bool = True) -> Completion:
        """As `HFModel.written`; a `ConfigError` if there is no tokenizer, and texts are given."""
        return self._scorer.written(prompt, *texts, end=end)

    async def score(self, prompt: Prompt, *texts: str | Sequence[int], end: bool = True) -> Completion:
        """As `HFModel.score`, by vLLM's server (``prompt_logprobs``).

        Raises:
            ConfigError: The server gives no scores, or there is no tokenizer, or ``api="chat"``.
            ContextError: Prompt and texts are longer than the model's context, where that is known.
            ModelError: As `written`, or the server failed.
        """
        if self._api == "chat":
            raise ConfigError(f"{self.name}: only /completions can score texts: leave out api='chat'")
        completion = self.written(prompt, *texts, end=end)
        require_fit(completion, self.context, self.name)
        values = await self._scorer.logprobs(completion, partial(self._send, False))
        return replace(completion, logprobs=values, versions=((self.version, len(values)),))

    async def _samples(
        self, chat: bool, field: str, first: int, n: int, sampling: Sampling
    ) -> list[Completion]:
        completions: list[Completion] = []
        settings: Any = {"processed": self.processed, "context": self.context, "biased": bool(self.biasing)}
        try:
            while (left := n - len(completions)) > 0:  # a server may not know n, or limit it
                unseeded = replace(sampling, seed=None)
                tail = dialect.sampling_fields(left, unseeded, chat, self.exact, self.limit_field)
                if sampling.seed is not None:
                    tail += f', "seed": {derive_seed(sampling.seed, first + len(completions)) >> 32}'
                read = partial(
                    dialect.completions_of, n=left, sampling=sampling, version=self.version, **settings
                )
                completions += await self._send(chat, f"{field}, {tail}", read)
        except _Unanswered as refusal:
            if refusal.reason == "context" and sampling.overflow == "refuse":
                advice = 'raise the context, lower max_tokens, or set overflow="unknown"'
                raise ContextError(f"{refusal}: {advice}") from refusal
            log.warning("%s; its samples are UNKNOWN", refusal)
            return [Completion("", refusal.reason, temperature=sampling.temperature)] * n
        return completions

    def _field(self, prompt: Prompt) -> tuple[bool, str, Prompt]:
        """Whether it is a chat, the prompt as a JSON field, and as it is sent."""
        if self._api == "chat" and isinstance(prompt, str):
            prompt = [{"role": "user", "content": prompt}]
        if is_messages(prompt):
            messages = safe_messages(prompt, self._tokens)
            if self._api != "completions":
                return True, f'"messages": {dialect.messages_json(messages)}', messages
            prompt = plain_chat(messages)
        if isinstance(prompt, str):
            return False, f'"prompt": {json.dumps(prompt)}', prompt
        if self._api == "chat" or not is_token_ids(prompt):
            raise ModelError(f"{self.name}: token ids (at least one) need api='auto' or api='completions'")
        return False, f'"prompt": {json.dumps([int(token) for token in prompt])}', prompt

    async def _send(self, chat: bool, fields: str, read: Read[T]) -> T:
        attempts = Attempts()
        while True:
            async with self._gate.semaphore():
                endpoint = self._endpoints.choose(attempts.tried)
                try:
                    return await self._attempt(endpoint, chat, fields, read)
                except RequestFailed as error:
                    failure = error
            attempts.note(endpoint, failure)
            if not self._endpoints.untried(attempts.tried):
                await self._retries.wait(attempts, failure, partial(self._control, chat))

    async def _control(self, chat: bool) -> None:
        _, field, _ = self._field([{"role": "user", "content": "Hello"}] if chat else "Hello")
        tail = dialect.sampling_fields(1, CONTROL, chat, self.exact, self.limit_field) + ', "seed": 0'
        read = partial(
            dialect.completions_of, n=1, sampling=CONTROL, processed=self.processed, version=self.version
        )
        with suppress(RequestFailed, ModelError):
            await self._attempt(self._endpoints.choose(()), chat, f"{field}, {tail}", read)

    async def _attempt(self, endpoint: Endpoint, chat: bool, fields: str, read: Read[T]) -> T:
        body = f"{self._head}, {fields}}}".encode()
        try:
            with endpoint.occupied():
                value = self._read(endpoint, await self._answer(endpoint, chat, body), read)
        except RequestFailed as failure:
            endpoint.failed_at = now()
            log.info("%s: %s", self.name, failure)
            raise
        except ModelError:  # refused, which is an answer
            self._note_answer(endpoint)
            raise
        self._note_answer(endpoint)
        return value

    def _note_answer(self, endpoint: Endpoint) -> None:
        endpoint.failed_at = None
        self._retries.note_answer()

    async def _answer(self, endpoint: Endpoint, chat: bool, body: bytes) -> Answer:
        url = endpoint.chat if chat else endpoint.completions
        try:
            return await request(
                "POST", url, self._max_answer, self._timeout, data=body, headers=self._headers
            )
        except BodyTooLong as error:
            why = f"{endpoint.base}: {error}: raise max_answer, or lower samples_per_call"
            raise ModelError(f"{self.name}: {why}") from None
        except TimeoutError:
            late = f"no whole answer within {self._timeout:g} s: raise timeout, or lower max_tokens"
            raise RequestFailed(f"{endpoint.base}: {late}") from None
        except NETWORK_ERRORS as error:
            words = self._masked(f"{endpoint.base}: {type(error).__name__}: {error}")
            raise RequestFailed(words) from None

    def _read(self, endpoint: Endpoint, answer: Answer, read: Read[T]) -> T:
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
            raise RequestFailed(self._masked(f"{endpoint.base}: the answer cannot be read: {why}")) from None

    def _refusal(self, endpoint: Endpoint, answer: Answer) -> Exception:
        words = dialect.error_text(answer.body, self._secrets.mask)
        if 300 <= answer.status < 400 and (target := answer.headers.get("location")):
            address = self._masked(dialect.base_of(target))
            words = f"it redirects to {address}, which is not followed: give that address instead"
        sentence = f"{endpoint.base}: status {answer.status}: {words}"
        if answer.status in (408, 409, 429) or answer.status >= 500:
            return RequestFailed(sentence, dialect.retry_after(answer.headers.get("retry-after")))
        if dialect.is_too_long(answer.status, answer.body):
            words = f"{self.name}: prompt and limit exceed the model's context: {sentence}"
            return _Unanswered(words, "context")
        if dialect.is_filtered(answer.body):
            return _Unanswered(f"{self.name}: a filter refuses the request: {sentence}", "content_filter")
        return ModelError(f"{self.name}: the server refused the request: {sentence}")

    def _masked(self, words: str) -> str:
        """Without secrets. What the words come from may hold them and must not be kept."""
        return one_line(self._secrets.mask(words), 300)


class _Unanswered(ModelError):
    """The server refused a request for its length or its content; `reason` is its samples' finish reason."""

    def __init__(self, words: str, reason: FinishReason) -> None:
        super().__init__(words)
        self.reason: FinishReason = reason
