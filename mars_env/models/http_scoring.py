"""Scores of given texts by a model behind a server.

Servers score what they read: vLLM as ``prompt_logprobs``, others as ``echo`` with ``logprobs``. Prompt and
text are sent as token ids, so that exactly what was meant is scored; the ids come from the model's tokenizer,
here.
"""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

from mars_env.checks import MAX_TOKEN_ID, token_ids
from mars_env.checks import logprobs as checked_logprobs
from mars_env.errors import ConfigError, ModelError
from mars_env.lazy import needs
from mars_env.models.checkpoint import from_checkpoint
from mars_env.models.requests import TokenWriter
from mars_env.types import Completion

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


class Scorer(TokenWriter):
    """Writes given texts as token ids, and asks a server for their log-probabilities.

    The tokenizer is one of transformers, or its name or path, which is loaded on first use.
    """

    def __init__(self, name: str, tokenizer: Any, template_options: Mapping[str, Any]) -> None:
        self.name, self._given, self.template_options = name, tokenizer, template_options
        self._form: Form | None = None  # the one that worked
        self.has_tokenizer = tokenizer is not None

    @cached_property
    def tokenizer(self) -> Any:
        """The tokenizer; a name is loaded on first use."""
        if self._given is None:
            advice = "give HTTPModel(tokenizer=...) the model's tokenizer or its name, or ids and end=False"
            raise ConfigError(f"{self.name}: texts are scored as exact token ids: {advice}")
        if isinstance(self._given, str | Path):
            with needs("hf", "a tokenizer's name needs transformers"):
                from transformers import AutoTokenizer
            [self._given] = from_checkpoint(self._given, AutoTokenizer.from_pretrained)
        return self._given

    @property
    def vocabulary(self) -> int:  # type: ignore[override]
        """Token ids are below it."""
        return len(self.tokenizer) if self.has_tokenizer else MAX_TOKEN_ID

    async def logprobs(self, given: Completion, send: Callable[..., Awaitable[Any]]) -> tuple[float, ...]:
        """The log-probability of each token of a completion; `send` sends a request and reads its answer."""
        ids = token_ids([*given.prompt_ids, *given.token_ids])
        why = "its answers have no log-probabilities of the prompt"
        for form in [self._form] if self._form else FORMS:
            fields = json.dumps({"prompt": ids, **FORMS[form]})[1:-1]
            try:
                found: tuple[float, ...] | None = await send(
                    fields, partial(scored_logprobs, form=form, ids=ids)
                )
            except RequestRefused as error:
                why = str(error)
                continue
            if found is not None:
                self._form = form
                return found[len(given.prompt_ids) - 1 :]
        raise ConfigError(f"{self.name}: the server scores no texts, by prompt_logprobs or echo: {why}")
