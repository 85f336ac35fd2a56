"""How probable given texts are, by a model behind a server: `HTTPModel.score`.

Servers can score what they read: vLLM as ``prompt_logprobs``, others as ``echo`` with ``logprobs``. Prompt
and text are sent as token ids to ``/completions``, so that what is scored is exactly what was meant; the ids
come from the model's tokenizer, here.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal, TypeVar

from mars_env.agents.encoding import encode_prompt, require_fit, written
from mars_env.agents.requests import is_messages
from mars_env.checks import MOST_TOKEN_ID, token_ids
from mars_env.checks import logprobs as checked_logprobs
from mars_env.errors import ConfigError, MissingExtra, ModelError
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

CLAMPED: Final = -9999.0
"""What vLLM's server writes for minus infinity."""


class Refused(ModelError):
    """The server refuses a request; another form of it may be taken."""


def scored_logprobs(payload: bytes, form: Form, ids: Sequence[int]) -> tuple[float, ...] | None:
    """The log-probabilities of a prompt's tokens from the second on; None if the answer has none.

    Args:
        payload: The answer's body.
        form: How it was asked for.
        ids: The prompt's.

    Raises:
        ValueError: They are no log-probabilities of these tokens. Other exceptions that a malformed answer
            raises (KeyError, TypeError ...) mean the same.

    Example:
        >>> told = {"choices": [{"prompt_logprobs": [None, {"7": {"logprob": -0.5}}]}]}
        >>> scored_logprobs(json.dumps(told).encode(), "prompt_logprobs", [3, 7])
        (-0.5,)
        >>> told = {"choices": [{"text": "", "logprobs": {"token_logprobs": [None, -0.5]}}]}
        >>> scored_logprobs(json.dumps(told).encode(), "echo", [3, 7])
        (-0.5,)
    """
    choice = json.loads(payload)["choices"][0]
    if form == "prompt_logprobs":
        listed = choice.get("prompt_logprobs")
        if listed is None:
            return None
        values = [entry[str(token)]["logprob"] for entry, token in zip(listed[1:], ids[1:], strict=True)]
    else:
        told = choice.get("logprobs")
        if told is None:
            return None
        listed = told["token_logprobs"]
        if len(listed) < len(ids) or listed[0] is not None:  # of what was sampled alone
            return None
        values = listed[1 : len(ids)]
    if any(value <= CLAMPED for value in values):
        raise ValueError("a token has the probability 0")
    return checked_logprobs(values)


class Scoring(ABC):
    """The part of `HTTPModel` that scores texts."""

    name: str
    version: int
    context: int | None
    _api: str
    _head: str
    _template_options: Mapping[str, Any]
    _tokenizer: Any
    _form: Form | None = None

    @abstractmethod
    async def _ask(self, chat: bool, body: bytes, read: Read[T]) -> T:
        """Send one request, with all attempts."""

    def written(self, prompt: Prompt, *texts: str | Sequence[int], end: bool = True) -> Completion:
        """The completion that given texts would be: its token ids; as `HFModel.written`.

        Raises:
            ConfigError: There is no tokenizer, and more than token ids are given.
            ModelError: There are no tokens, or ids outside the vocabulary.
        """
        needed = (
            end or isinstance(prompt, str) or is_messages(prompt) or any(isinstance(t, str) for t in texts)
        )
        tokenizer = self._loaded() if needed else None
        most = MOST_TOKEN_ID if tokenizer is None else len(tokenizer)
        ids = encode_prompt(tokenizer, prompt, most, self.name, self._template_options)
        return written(tokenizer, ids, texts, most, self.name, end=end)

    async def score(self, prompt: Prompt, *texts: str | Sequence[int], end: bool = True) -> Completion:
        """How probable given texts are after a prompt, at temperature 1; as `HFModel.score`.

        The server is asked as vLLM serves it (``prompt_logprobs``), and then, if it does not know that, by
        ``echo``. What the server says of other tokens than those that were sent is refused.

        Raises:
            ConfigError: The server offers neither, or there is no tokenizer, or messages alone are sent to it
                (``api="chat"``).
            ContextError: Prompt and texts are longer than the model's context, where that is known.
            ModelError: As `written`, or the server failed.
        """
        if self._api == "chat":
            raise ConfigError(f"{self.name}: only /completions can score texts: leave out api='chat'")
        given = self.written(prompt, *texts, end=end)
        require_fit(given, self.context, self.name)
        ids = token_ids([*given.prompt_ids, *given.token_ids])
        why = "its answers have no log-probabilities of the prompt"
        for form in [self._form] if self._form else FORMS:
            fields = {"prompt": list(ids), **FORMS[form]}
            body = f"{self._head}, {json.dumps(fields)[1:]}".encode()

            def read(payload: bytes, form: Form = form) -> tuple[float, ...] | None:
                return scored_logprobs(payload, form, ids)

            try:
                found = await self._ask(False, body, read)
            except Refused as error:
                why = str(error)
                continue
            if found is not None:
                self._form = form
                values = found[len(given.prompt_ids) - 1 :]
                return replace(given, logprobs=values, versions=((self.version, len(values)),))
        raise ConfigError(
            f"{self.name}: the server scores no given texts, neither by prompt_logprobs nor by echo: {why}"
        )

    def _loaded(self) -> Any:
        """The tokenizer; a name is loaded on first use."""
        if self._tokenizer is None:
            raise ConfigError(
                f"{self.name}: texts are scored as exact token ids: give HTTPModel(tokenizer=...) the "
                "model's tokenizer or its name, or token ids and end=False"
            )
        if isinstance(self._tokenizer, str):
            try:
                from transformers import AutoTokenizer
            except ImportError as error:
                raise MissingExtra(
                    "a tokenizer's name needs transformers: pip install 'mars-env[hf]'"
                ) from error
            try:
                self._tokenizer = AutoTokenizer.from_pretrained(self._tokenizer)
            except (OSError, ValueError) as error:
                raise ConfigError(f"the tokenizer {self._tokenizer!r} cannot be loaded: {error}") from error
        return self._tokenizer
