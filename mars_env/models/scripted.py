"""Scripted models for tests and dry runs, and recordings that are replayed."""

import asyncio
import re
import zlib
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

from mars_env.errors import ConfigError
from mars_env.models.requests import check_request, is_token_ids, prompt_text, with_messages
from mars_env.seeds import derive_seed
from mars_env.types import Completion, Prompt, Sampling

Script = Callable[[Prompt, int, int], str]
"""A script: from the prompt, the sample's number and the sample's seed to a string."""

_END = 0
_VOCABULARY = 50_000


@dataclass(eq=False)
class ScriptedModel:
    """A model that follows a script; the same seed gives the same texts.

    A token is a word with the space before it; an end token follows the last one.

    Attributes:
        script: A function (see `Script`), or texts: sample i is then the i-th text, in turn, or, where the
            request has a seed, one that the sample's seed picks.
        ids: Whether completions carry artificial token ids and log-probabilities.
        latency: Seconds that each request takes.
        name: The default policy name of agents.

    Example:
        >>> from mars_env.sync import run_sync
        >>> model = ScriptedModel(lambda prompt, sample, seed: f"sample {sample}")
        >>> [completion.text for completion in run_sync(model.complete("2 + 2?", 2, Sampling()))]
        ['sample 0', 'sample 1']
    """

    script: Script | Sequence[str] = field(repr=False)
    _: KW_ONLY
    ids: bool = field(default=False, repr=False)
    latency: float = field(default=0.0, repr=False)
    name: str = "scripted"

    def __post_init__(self) -> None:
        if not callable(self.script) and (isinstance(self.script, str) or not self.script):
            raise ConfigError("a script is a function or a list of at least one text")

    def identity(self) -> dict[str, Any]:
        """What identifies it: its script."""
        return {"name": self.name, "script": self.script, "ids": self.ids}

    def encode(self, prompt: Prompt) -> tuple[int, ...]:
        """The artificial token ids of a prompt."""
        return tuple(prompt) if is_token_ids(prompt) else _fake_ids(_words(prompt_text(prompt)))

    async def complete(self, prompt: Prompt, n: int, sampling: Sampling) -> list[Completion]:
        """N samples of the script; a `ConfigError` if it gives no string."""
        check_request(n, sampling)
        await asyncio.sleep(self.latency)
        return with_messages([self._completion(prompt, i, sampling) for i in range(n)], prompt)

    def _completion(self, prompt: Prompt, sample: int, sampling: Sampling) -> Completion:
        seed = derive_seed(sampling.seed or 0, sample)
        if callable(self.script):
            text = self.script(prompt, sample, seed)
        else:
            text = self.script[(sample if sampling.seed is None else seed) % len(self.script)]
        if not isinstance(text, str):
            raise ConfigError(f"{self.name}: a script gives a string, got {type(text).__name__}")
        for stop in sampling.stop:
            text = text.partition(stop)[0]
        words = _words(text)
        cut = len(words) >= sampling.max_tokens  # the end token needs a place, too
        ids = _fake_ids(words)[: sampling.max_tokens] if cut else (*_fake_ids(words), _END)
        read = self.encode(prompt)
        return Completion(
            text="".join(words[: sampling.max_tokens]) if cut else text,
            finish_reason="length" if cut else "stop",
            prompt_ids=read if self.ids else (),
            token_ids=ids if self.ids else (),
            logprobs=(-0.6931471805599453,) * len(ids) if self.ids else (),
            temperature=sampling.temperature,
            versions=((0, len(ids)),) if self.ids else (),
            prompt_tokens=len(read),
            completion_tokens=len(ids),
        )


def _words(text: str) -> list[str]:
    return re.findall(r"\s*\S+|\s+\Z", text)


def _fake_ids(words: Sequence[str]) -> tuple[int, ...]:
    return tuple(1 + zlib.crc32(word.encode("utf-8", "surrogatepass")) % (_VOCABULARY - 1) for word in words)
