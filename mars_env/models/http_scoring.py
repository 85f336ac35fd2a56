"""Scores of given texts by a model behind a server.

Servers score what they read: vLLM as ``prompt_logprobs``, others as ``echo`` with ``logprobs``. Prompt and
text are sent as token ids, so that exactly what was meant is scored; the ids come from the model's tokenizer,
here.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, Protocol, TypeVar

from mars_env.checks import MAX_TOKEN_ID, token_ids
from mars_env.checks import logprobs as checked_logprobs
from mars_env.errors import ConfigError, ModelError
from mars_env.lazy import needs
from mars_env.models.checkpoint import from_checkpoint
from mars_env.models.requests import encode_prompt, is_messages, written
from mars_env.types import Completion, Prompt

T = TypeVar("T")

Read = Callable[[bytes], T]
"""Reads the body of an answer."""

Form = Literal["prompt_logprobs", "echo"]
"""How a server is asked to score a prompt."""

FORMS: Final[Mapping[Form, Mapping[str, Any]]] = {
    "prompt_logprobs": {"max_tokens": 1, "temperature": 1.0, "prompt_logprobs": 0},
    "echo": {"max_tokens": 0, "temperature": 1.0, "echo": True, "logprobs": 1},
}
"""The fields of a request in each form, in the order in which they are tried."""


class RequestRefused(ModelError):
    """The server refuses a request; another form of it may be taken."""


def scored_logprobs(payload: bytes, form: Form, ids: Sequence[int]) -> tuple[float, ...] | None:
    """The log-probabilities of a prompt's tokens from the second on; None if the answer has none.

    Raises:
        ValueError, KeyError, TypeError ...: They are not log-probabilities of these tokens.
    """
    choice = json.loads(payload)["choices"][0]
    found = choice.get("prompt_logprobs" if form == "prompt_logprobs" else "logprobs")
    if found is None:
        return None
    if form == "prompt_logprobs":
        entries = zip(found[1:], ids[1:], strict=True)
        return checked_logprobs([entry[str(token)]["logprob"] for entry, token in entries])
    listed = found["token_logprobs"]
    if len(listed) < len(ids) or listed[0] is not None:  # of what was sampled alone
        return None
    return checked_logprobs(listed[1 : len(ids)])


class Send(Protocol):
    """Sends one request to ``/completions``, with all attempts, and returns what was read from the answer."""

    async def __call__(self, fields: str, read: Read[T]) -> T:
        """Send fields of JSON; raises `RequestRefused`, or `ModelError` if all attempts fail."""


class Scorer:
    """Writes given texts as token ids, and asks a server for their log-probabilities.

    The tokenizer is one of transformers, or its name or path, which is loaded on first use.
    """

    def __init__(self, name: str, tokenizer: Any, template_options: Mapping[str, Any]) -> None:
        self._name, self._tokenizer, self._template_options = name, tokenizer, template_options
        self._form: Form | None = None  # the one that worked
        self.has_tokenizer = tokenizer is not None

    def encode(self, prompt: Prompt, tools: Sequence[Mapping[str, Any]] = ()) -> tuple[int, ...]:
        """See `HTTPModel.encode`."""
        tokenizer = self.tokenizer()
        return encode_prompt(tokenizer, prompt, len(tokenizer), self._name, self._template_options, tools)

    def written(self, prompt: Prompt, texts: Sequence[str | Sequence[int]], end: bool) -> Completion:
        """See `HTTPModel.written`."""
        needed = (
            end or isinstance(prompt, str) or is_messages(prompt) or any(isinstance(t, str) for t in texts)
        )
        tokenizer = self.tokenizer() if needed else None
        most = MAX_TOKEN_ID if tokenizer is None else len(tokenizer)
        ids = encode_prompt(tokenizer, prompt, most, self._name, self._template_options)
        return written(tokenizer, ids, texts, most, self._name, end=end)

    async def logprobs(self, given: Completion, send: Send) -> tuple[float, ...]:
        """The log-probability of each token of a completion; see `HTTPModel.score`."""
        ids = token_ids([*given.prompt_ids, *given.token_ids])
        why = "its answers have no log-probabilities of the prompt"
        for form in [self._form] if self._form else FORMS:
            fields = json.dumps({"prompt": ids, **FORMS[form]})[1:-1]
            try:
                found = await send(fields, partial(scored_logprobs, form=form, ids=ids))
            except RequestRefused as error:
                why = str(error)
                continue
            if found is not None:
                self._form = form
                return found[len(given.prompt_ids) - 1 :]
        raise ConfigError(f"{self._name}: the server scores no texts, by prompt_logprobs or echo: {why}")

    def tokenizer(self) -> Any:
        """The tokenizer; a name is loaded on first use."""
        if self._tokenizer is None:
            advice = "give HTTPModel(tokenizer=...) the model's tokenizer or its name, or ids and end=False"
            raise ConfigError(f"{self._name}: texts are scored as exact token ids: {advice}")
        if isinstance(self._tokenizer, str | Path):
            with needs("hf", "a tokenizer's name needs transformers"):
                from transformers import AutoTokenizer
            [self._tokenizer] = from_checkpoint(self._tokenizer, AutoTokenizer.from_pretrained)
        return self._tokenizer
