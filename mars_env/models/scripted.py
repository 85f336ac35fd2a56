"""Scripted models for tests and dry runs, and recordings that are replayed."""

import asyncio
import json
import re
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, field
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from mars_env.errors import ConfigError, ModelError
from mars_env.files import write_atomically
from mars_env.identity import digest_of
from mars_env.models.requests import check_request, is_token_ids, prompt_text
from mars_env.seeds import derive_seed
from mars_env.types import Completion, Model, Prompt, Sampling

Script = Callable[[Prompt, int, int], str]
"""A script: from the prompt, the sample's number and the sample's seed to a string."""

_END = 0
_VOCABULARY = 50_000


@dataclass(eq=False)
class ScriptedModel:
    """A model that follows a script; the same seed gives the same texts.

    It obeys the limits as a real model does: a token is a word with the space before it, an end token follows
    the last one, stop strings end a text, and ``max_tokens`` cuts it.

    Attributes:
        script: A function (see `Script`), or texts: sample i is then the i-th text, in turn, or, where the
            request has a seed, one that the sample's seed picks.
        ids: Whether completions carry token ids and log-probabilities, which are artificial.
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
        return [self._completion(prompt, i, sampling) for i in range(n)]

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


@dataclass(frozen=True, slots=True)
class ModelCall:
    """One request to a model, and its answer."""

    prompt: Prompt
    n: int
    sampling: Sampling
    completions: tuple[Completion, ...]


class RecordingModel:
    """Forwards requests to a model and keeps them as `records`, with their answers, for `ReplayModel`."""

    def __init__(self, model: Model) -> None:
        self.records: list[ModelCall] = []
        self.name = getattr(model, "name", "recorded")
        self._model = model

    def identity(self) -> dict[str, Any]:
        """What identifies it: the model that is recorded."""
        return {"model": self._model}

    async def complete(self, prompt: Prompt, n: int, sampling: Sampling) -> list[Completion]:
        """Sample n completions of the model that is recorded."""
        completions = await self._model.complete(prompt, n, sampling)
        self.records.append(ModelCall(prompt, n, sampling, tuple(completions)))
        return completions


class ReplayModel:
    """Answers the requests of a recording with the recorded answers; any other is a `ModelError`.

    A request is identified by its prompt, its n and its sampling, seed included. One that was recorded
    several times gets its answers in turn, then always the last one.
    """

    def __init__(self, records: Iterable[ModelCall], *, name: str = "replay") -> None:
        self.name = name
        records = list(records)
        self._digest = digest_of([asdict(record) for record in records])
        self._answers: dict[str, list[tuple[Completion, ...]]] = {}
        for record in records:
            key = _request_key(record.prompt, record.n, record.sampling)
            self._answers.setdefault(key, []).append(record.completions)

    def identity(self) -> dict[str, Any]:
        """What identifies it: its recording."""
        return {"name": self.name, "records": self._digest}

    async def complete(self, prompt: Prompt, n: int, sampling: Sampling) -> list[Completion]:
        """The recorded completions of this request."""
        await asyncio.sleep(0)
        answers = self._answers.get(_request_key(prompt, n, sampling))
        if not answers:
            asked = f"n={n}, seed={sampling.seed}, {prompt_text(prompt)[:80]!r}"
            raise ModelError(f"{self.name}: no such request was recorded: {asked}; record it again")
        return list(answers.pop(0) if len(answers) > 1 else answers[0])


def save_records(path: str | Path, records: Iterable[ModelCall]) -> None:
    """Write a recording as JSON lines, one record a line."""
    lines = [json.dumps(asdict(record), allow_nan=False) + "\n" for record in records]
    write_atomically(Path(path), "".join(lines))


def load_records(path: str | Path) -> list[ModelCall]:
    """Read what `save_records` wrote; a `ConfigError` says which line is not a record."""
    records, call = [], TypeAdapter(ModelCall)
    for number, line in enumerate(Path(path).read_text(encoding="utf-8").splitlines(), 1):
        try:
            records.append(call.validate_json(line))
        except ValidationError as error:
            wrong = ", ".join(sorted({str(place) for each in error.errors() for place in each["loc"][:1]}))
            raise ConfigError(f"{path}, line {number}: not a record of a model: {wrong or error}") from error
    return records


def _request_key(prompt: Prompt, n: int, sampling: Sampling) -> str:
    return json.dumps([prompt, n, asdict(sampling)], sort_keys=True, default=dict)


def _words(text: str) -> list[str]:
    """Words with the space before them; a remainder at the end is one more."""
    return re.findall(r"\s*\S+|\s+\Z", text)


def _fake_ids(words: Sequence[str]) -> tuple[int, ...]:
    return tuple(1 + zlib.crc32(word.encode("utf-8", "surrogatepass")) % (_VOCABULARY - 1) for word in words)
