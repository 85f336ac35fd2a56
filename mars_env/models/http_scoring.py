"""Scores of texts by a vLLM server, which scores the token ids that it reads (``prompt_logprobs``)."""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeVar

from mars_env.checks import MAX_TOKEN_ID, token_ids
from mars_env.checks import logprobs as checked_logprobs
from mars_env.errors import ConfigError
from mars_env.lazy import needs
from mars_env.models.checkpoint import from_checkpoint
from mars_env.models.requests import TokenWriter
from mars_env.types import Completion

T = TypeVar("T")

Read = Callable[[bytes], T]


def parse_scores(payload: bytes, ids: Sequence[int]) -> tuple[float, ...]:
    """The log-probabilities of a prompt's tokens from the second on; empty if the answer has none."""
    entries = json.loads(payload)["choices"][0].get("prompt_logprobs")
    if entries is None:
        return ()
    pairs = zip(entries[1:], ids[1:], strict=True)
    return checked_logprobs([entry[str(token)]["logprob"] for entry, token in pairs])


class Scorer(TokenWriter):
    """Writes texts as token ids, and asks a server for their log-probabilities."""

    def __init__(self, name: str, tokenizer: Any, template_options: Mapping[str, Any]) -> None:
        self.name, self._tokenizer, self.template_options = name, tokenizer, template_options
        self.has_tokenizer = tokenizer is not None

    @cached_property
    def tokenizer(self) -> Any:
        """Of transformers; a name or path is loaded on first use."""
        if self._tokenizer is None:
            advice = "give HTTPModel(tokenizer=...) the model's tokenizer or its name, or ids and end=False"
            raise ConfigError(f"{self.name}: texts are scored as exact token ids: {advice}")
        if isinstance(self._tokenizer, str | Path):
            with needs("hf", "a tokenizer's name needs transformers"):
                from transformers import AutoTokenizer
            [self._tokenizer] = from_checkpoint(self._tokenizer, AutoTokenizer.from_pretrained)
        return self._tokenizer

    @property
    def vocabulary(self) -> int:  # type: ignore[override]
        """Token ids are below it."""
        return len(self.tokenizer) if self.has_tokenizer else MAX_TOKEN_ID

    async def logprobs(
        self, completion: Completion, send: Callable[..., Awaitable[tuple[float, ...]]]
    ) -> tuple[float, ...]:
        """Of each token of a completion; `send` sends a request and reads its answer."""
        ids = token_ids([*completion.prompt_ids, *completion.token_ids])
        request = {"prompt": ids, "max_tokens": 1, "temperature": 1.0, "prompt_logprobs": 0}
        scores = await send(json.dumps(request)[1:-1], partial(parse_scores, ids=ids))
        if not scores:
            raise ConfigError(f"{self.name}: its answers have no log-probabilities of the prompt: use vLLM")
        return scores[len(completion.prompt_ids) - 1 :]
