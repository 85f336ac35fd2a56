"""Reward models for a search: a classifier, and a judge that reasons."""

import asyncio
import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from pathlib import Path
from typing import Any

from mars_env.agents.prompts import JUDGE_QUESTION, JUDGE_SYSTEM
from mars_env.agents.registry import make_model
from mars_env.errors import ConfigError, ModelError, explained
from mars_env.gate import fill_template
from mars_env.grading.thinking import after_thinking
from mars_env.lazy import import_object, needs
from mars_env.models.checkpoint import load_model
from mars_env.models.requests import check_request
from mars_env.models.token_gate import encode_runs, gate_of
from mars_env.seeds import derive_seed
from mars_env.sync import gather_all
from mars_env.types import INTERRUPTIONS, Message, Model, Ratings, RewardModel, Sampling

_SCORE = re.compile(
    r"^[ \t*_#>`-]*score[ \t*_`]*:[ \t*_`]*(\d{1,3})(?:[ \t]*/[ \t]*10)?[ \t.*_`]*$", re.I | re.M | re.A
)


def judge_question(statement: str, solution: str) -> str:
    """The question about a solution by default."""
    return fill_template(JUDGE_QUESTION, {"problem": statement, "solution": solution})


@dataclass(frozen=True, eq=False)
class GenerativeJudge:
    r"""A language model as a reward model: the mean of several scores from 0 to 10, after reasons.

    The prompt is made of a statement and a solution, and must ask for the last line ``Score: <0 to 10>``.

    Example:
        >>> from mars_env.models.scripted import ScriptedModel
        >>> from mars_env.sync import run_sync
        >>> judge = GenerativeJudge(ScriptedModel(["It holds.\nScore: 10"]))
        >>> run_sync(judge.rate("2 + 2?", ["4"], seed=0)).scores
        (1.0,)
    """

    model: Model
    _: KW_ONLY
    samples: int = 1
    sampling: Sampling = field(default_factory=Sampling)
    prompt: Callable[[str, str], str] = field(default=judge_question, repr=False)
    system: str = field(default=JUDGE_SYSTEM, repr=False)

    def __post_init__(self) -> None:
        check_request(self.samples, self.sampling)

    def identity(self) -> dict[str, Any]:
        """What identifies it: its model, and how that is asked."""
        return {
            "model": self.model,
            "samples": self.samples,
            "sampling": self.sampling,
            "prompt": JUDGE_QUESTION if self.prompt is judge_question else self.prompt,
            "system": self.system,
        }

    async def rate(self, statement: str, texts: Sequence[str], seed: int) -> Ratings:
        """The mean score of each text; None where no judgement of it could be read. Thinking is not read."""
        ratings = await gather_all(self._rate(statement, text, seed) for text in texts)
        return Ratings(tuple(score for score, _ in ratings), sum(tokens for _, tokens in ratings))

    async def _rate(self, statement: str, text: str, seed: int) -> tuple[float | None, int]:
        messages: list[Message] = [{"role": "system", "content": self.system}] if self.system else []
        messages.append({"role": "user", "content": self.prompt(statement, text)})
        sampling = replace(self.sampling, seed=derive_seed(seed, statement, text))
        completions = await self.model.complete(messages, self.samples, sampling)
        scores = [
            score
            for c in completions
            if c.finish_reason not in INTERRUPTIONS
            and (score := read_score(after_thinking(c.text) or "")) is not None
        ]
        tokens = sum(c.sampled_tokens for c in completions)
        return (sum(scores) / len(scores) if scores else None), tokens


def read_score(text: str) -> float | None:
    r"""The score on the last ``Score: <0 to 10>`` line, divided by 10; None if there is none.

    Example:
        >>> read_score("It may fail.\nScore: 3"), read_score("Score: 11"), read_score("A score: of 3?")
        (0.3, None, None)
    """
    scores = _SCORE.findall(text)
    score = int(scores[-1]) if scores else 11
    return score / 10 if score <= 10 else None


class HFRewardModel:
    """A Hugging Face sequence classifier as a reward model.

    Statement and solution go in as a chat of a user and an assistant, without a chat template as two
    paragraphs. With one label, the rating is the sigmoid of its logit; with several, the probability of the
    last one. Texts beyond `max_tokens`, or what the model can hold, are cut on the left, so that the end of
    the solution stays; `batch` are rated at once. A `ConfigError` if the checkpoint cannot be loaded.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        device: str | None = None,
        dtype: str = "auto",
        max_tokens: int = 8192,
        batch: int = 8,
    ) -> None:
        with needs("hf", "HFRewardModel needs torch and transformers"):
            from transformers import AutoModelForSequenceClassification
        self.module, self.tokenizer = load_model(AutoModelForSequenceClassification, path, device, dtype)
        self.path, self.device = str(path), self.module.device
        self.tokenizer.truncation_side = "left"
        if self.tokenizer.pad_token is None:
            self.tokenizer.pad_token = self.tokenizer.eos_token
        if self.module.config.pad_token_id is None:  # decoders find a text's last token by it
            self.module.config.pad_token_id = self.tokenizer.pad_token_id
        context: int = getattr(self.module.config, "max_position_embeddings", None) or max_tokens
        self._max_tokens = min(max_tokens, context, self.tokenizer.model_max_length)
        self._batch = batch
        self._lock = threading.Lock()  # one forward pass at a time: requests come from several threads

    def __repr__(self) -> str:
        return f"HFRewardModel({self.path!r})"

    def identity(self) -> dict[str, Any]:
        """What identifies it: the checkpoint as it was given, and where texts are cut."""
        return {"path": self.path, "max_tokens": self._max_tokens}

    async def rate(self, statement: str, texts: Sequence[str], seed: int) -> Ratings:
        """The rating of each text, whatever the seed; a `ModelError` if the classifier failed."""
        with explained(ModelError, f"{self.path} could not rate {len(texts)} texts", RuntimeError):
            scores = await asyncio.to_thread(self._rate, statement, list(texts))
        return Ratings(tuple(scores))

    def _rate(self, statement: str, texts: Sequence[str]) -> list[float]:
        import torch

        rows = [self._ids(statement, text) for text in texts]
        scores: list[float] = []
        with self._lock, torch.inference_mode():
            for start in range(0, len(rows), self._batch):
                logits = self._logits(rows[start : start + self._batch]).float()
                one = logits.shape[-1] == 1
                rated = logits[:, 0].sigmoid() if one else logits.softmax(dim=-1)[:, -1]
                scores += rated.tolist()
        return scores

    def _logits(self, rows: list[list[int]]) -> Any:  # shape (rows, labels)
        padded = self.tokenizer.pad({"input_ids": rows}, padding=len(rows) > 1, return_tensors="pt")
        return self.module(**padded.to(self.device)).logits

    def _ids(self, statement: str, text: str) -> list[int]:
        """Statement and text as token ids; what they spell out of control tokens is ordinary text."""
        chat: list[Message] = [{"role": "user", "content": statement}, {"role": "assistant", "content": text}]
        special = self.tokenizer.chat_template is None  # a chat template writes its own
        runs = gate_of(self.tokenizer).runs(self._render, chat)
        if len(runs) > 1:
            return encode_runs(self.tokenizer, runs, special=special)[-self._max_tokens :]
        return self.tokenizer.encode(
            runs[0], truncation=True, max_length=self._max_tokens, add_special_tokens=special
        )

    def _render(self, chat: Sequence[Message], _: Sequence[Any]) -> str:
        if self.tokenizer.chat_template is None:
            return "\n\n".join(message["content"] for message in chat)
        return str(self.tokenizer.apply_chat_template(chat, tokenize=False))


def make_reward_model(spec: RewardModel | str) -> RewardModel:
    """A reward model from its specification: what the command line and `mars_env.make` take.

    It is ``classifier:path-or-name`` for `HFRewardModel`, a specification of a model (see
    `mars_env.agents.make_agents`) for a `GenerativeJudge`, or ``my_module:object``, a reward model or a class
    of one. A reward model stays as it is.
    """
    if not isinstance(spec, str):
        return spec
    kind, _, rest = spec.partition(":")
    if kind == "classifier":
        return HFRewardModel(rest)
    if kind in ("http", "https", "hf", "vllm", "scripted"):
        model, sampling = make_model(spec)
        return GenerativeJudge(model, sampling=sampling or Sampling())
    value = import_object(spec)
    value = value() if isinstance(value, type) else value
    if isinstance(value, RewardModel):
        return value
    if isinstance(value, Model):
        return GenerativeJudge(value)
    raise ConfigError(f"{spec!r} names neither a reward model nor a model that could judge")
