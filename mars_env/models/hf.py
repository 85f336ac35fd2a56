"""`HFModel`: a transformers model in this process, batched, with exact token ids and log-probabilities."""

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from mars_env.checks import require_integer
from mars_env.errors import ConfigError, ModelError, explained
from mars_env.identity import full_name
from mars_env.lazy import needs
from mars_env.models.batching import BatchLimits, Ticket, lock_of, submit
from mars_env.models.checkpoint import load_model
from mars_env.models.requests import Sampled, TokenModel
from mars_env.types import Completion, Sampling

with needs("hf", "HFModel needs torch and transformers"):
    import torch
    from transformers import AutoModelForCausalLM

    from mars_env.models.checksums import Checksum, checksums
    from mars_env.models.hf_decoding import (
        Decoding,
        SampleRequest,
        SampleRow,
        ScoreRequest,
        given_logprobs,
        sampling_gap,
    )
    from mars_env.models.hf_module import NO_END, exact_context, validate_context


_Ticket = Ticket[SampleRequest | ScoreRequest, list[Completion]]

_FAULTS = (RuntimeError, ValueError, IndexError)
"""What torch raises for any fault; running out of memory is a RuntimeError, too."""


class HFModel(TokenModel):
    """A causal language model of the transformers library, run in this process.

    Concurrent requests are gathered (see `mars_env.models.batching`) and run as one batch: each distinct
    prompt is read once, and all samples are decoded together, each with its own settings, seed and random
    numbers, so that its tokens depend on its batch only through rounding.

    The log-probabilities are those of the distribution sampled from: after the temperature, top-p and top-k.
    Greedy completions (temperature 0) carry those at temperature 1.

    Args:
        model: A checkpoint's path or name, or a pair of a model and its tokenizer. Several `HFModel` may
            share one torch module.
        device: Where a checkpoint is put; by default the GPU if there is one. A pair is not moved.
        dtype: Of a checkpoint's weights, e.g. ``"bfloat16"``; by default as stored.
        batch: How much is decoded together.
        context: Most tokens of prompt and completion together; by default, and at most, the model's own, as
            far as the length of a text does not change its positions (longrope, dynamic NTK).
        name: Name in messages and the default policy name of agents.
        template_options: Passed to the tokenizer's chat template, e.g. ``{"enable_thinking": False}``.

    Raises:
        ConfigError: The checkpoint cannot be loaded, is not exact in the context that was given, or gives
            other probabilities with its cache than without, as some recurrent models do.
    """

    def __init__(  # public edge: friendly keywords, each with a default
        self,
        model: str | Path | tuple[Any, Any],
        *,
        device: str | None = None,
        dtype: str = "auto",
        batch: BatchLimits | None = None,
        context: int | None = None,
        name: str = "",
        template_options: Mapping[str, Any] | None = None,
    ) -> None:
        if context is not None:
            require_integer(context, "context")
        if isinstance(model, str | Path):
            self.module, self.tokenizer = load_model(AutoModelForCausalLM, model, device, dtype)
            self._checkpoint, self.name = str(model), name or Path(model).name
        else:
            self.module, self.tokenizer = model
            self._checkpoint, self.name = full_name(type(self.module)), name or "hf"
        self.version, self.limits = 0, batch or BatchLimits()
        self.template_options = dict(template_options or {})
        config = self.module.config.get_text_config(decoder=True)
        with explained(ConfigError, self.name, ConfigError):
            validate_context(config, context or 0)
            self._validate_sampling()
        longest = min(getattr(config, "max_position_embeddings", None) or NO_END, exact_context(config))
        self.context: int = longest if context is None else min(longest, context)
        self.vocabulary: int = config.vocab_size
        self._eos = _stop_tokens(self.module, self.tokenizer)

    def _validate_sampling(self) -> None:
        kind = type(self.module).__name__
        cannot = f"HFModel cannot sample from {kind}, use vLLM"
        with self.lock, explained(ConfigError, cannot, *_FAULTS, AttributeError):
            gap = sampling_gap(self.module)
        if not gap < (1e-2 if self.module.dtype == torch.float32 else 1.0):
            raise ConfigError(f"{cannot}: with its cache it gives other probabilities than without")

    def __repr__(self) -> str:
        return f"HFModel({self.name!r}, version={self.version})"

    def identity(self) -> dict[str, Any]:
        """What identifies it: the checkpoint as it was given, its context, and how messages are rendered."""
        return {
            "name": self.name,
            "version": self.version,
            "checkpoint": self._checkpoint,
            "dtype": str(self.module.dtype),
            "context": self.context,
            "template_options": self.template_options,
        }

    @property
    def lock(self) -> threading.RLock:
        """Held while the weights compute or change."""
        return lock_of(self.module)

    @property
    def dtype(self) -> str:
        """The weights' type, e.g. ``"float32"``."""
        return str(self.module.dtype).removeprefix("torch.")

    def checksums(self) -> dict[str, Checksum]:
        """The checksums of all weights, by name."""
        with self.lock:
            return checksums(self.module.state_dict())

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(self.module.parameters()).device

    async def _sampled(self, ids: tuple[int, ...], n: int, sampling: Sampling, room: int) -> list[Completion]:
        return await submit(self, SampleRequest(ids, n, sampling, room))

    async def _scored(self, completion: Completion) -> Completion:
        [scored] = await submit(self, ScoreRequest(completion.prompt_ids, completion.token_ids))
        return replace(completion, logprobs=scored.logprobs, versions=scored.versions)

    def refresh(self, weights: Any = None, version: int | None = None) -> None:
        """Replace the weights in place, after the batch under way: a completion is of one version.

        Args:
            weights: A state dict, or a module with the same parameters; None if the module was
                changed from outside (a trainer that shares it) and only the version is new.
            version: The new version; by default one more than the old.
        """
        with self.lock:
            if weights is not None:
                state = weights if isinstance(weights, Mapping) else weights.state_dict()
                with torch.no_grad():
                    self.module.load_state_dict(state)
            self.version = self.version + 1 if version is None else version

    def logprobs(
        self, prompt_ids: Sequence[int], token_ids: Sequence[int], temperature: float = 1.0
    ) -> list[float]:
        """Natural logarithms of the probabilities of given tokens after a prompt, now and in this thread.

        A temperature of 0 is read as 1, as in `Completion`. See also `score`.
        """
        row = ScoreRequest(tuple(prompt_ids), tuple(token_ids))
        with self.lock:
            [values] = given_logprobs(self.module, [row], temperature or 1.0)
        return list(values)

    def run(self, tickets: Sequence[_Ticket]) -> dict[_Ticket, list[Completion] | BaseException]:
        """Answer a wave of requests; called by `mars_env.models.batching` in a worker thread."""
        answers = self._scores(tickets)
        rows = [
            SampleRow(ticket, ticket.request, i)
            for ticket in tickets
            if isinstance(ticket.request, SampleRequest) and not ticket.dropped
            for i in range(ticket.request.n)
        ]
        samples: dict[SampleRow, Sampled] = {}
        failures: dict[_Ticket, ModelError] = {}
        for batch in _batches(rows, self.limits):
            try:
                samples |= self._decoded(batch)
            except _FAULTS as error:
                failures |= dict.fromkeys((row.ticket for row in batch), _failure(self.name, error))
        return answers | self._completions([row for row in rows if row in samples], samples) | failures

    def _decoded(self, rows: Sequence[SampleRow]) -> dict[SampleRow, Sampled]:
        try:
            return Decoding(self.module, self.tokenizer, self._eos, rows).run(self.version)
        except torch.OutOfMemoryError:
            if len(rows) == 1:
                raise
        half = len(rows) // 2
        return self._decoded(rows[:half]) | self._decoded(rows[half:])

    def _completions(
        self, rows: Sequence[SampleRow], samples: Mapping[SampleRow, Sampled]
    ) -> dict[_Ticket, list[Completion]]:
        completions: dict[_Ticket, list[Completion]] = {row.ticket: [] for row in rows}
        for row in rows:
            completion = self.completion(row.request.ids, row.request.sampling, samples[row])
            completions[row.ticket].append(completion)
        return completions

    def _scores(self, tickets: Sequence[_Ticket]) -> dict[_Ticket, list[Completion] | BaseException]:
        requests = {t: t.request for t in tickets if isinstance(t.request, ScoreRequest) and not t.dropped}
        try:
            scores = given_logprobs(self.module, list(requests.values()))
        except _FAULTS as error:
            return dict.fromkeys(requests, _failure(self.name, error))
        return {
            ticket: [Completion("", logprobs=logprobs, versions=((self.version, len(logprobs)),))]
            for ticket, logprobs in zip(requests, scores, strict=True)
        }


def _batches(rows: Sequence[SampleRow], limits: BatchLimits) -> Iterator[list[SampleRow]]:
    """Rows in the order of their prompts' lengths, whatever the order in which they came."""
    batch: list[SampleRow] = []
    tokens = 0
    for row in sorted(rows, key=_place):
        size = len(row.request.ids) + row.request.room
        if batch and (len(batch) == limits.rows or tokens + size > limits.tokens):
            yield batch
            batch, tokens = [], 0
        batch.append(row)
        tokens += size
    if batch:
        yield batch


def _place(row: SampleRow) -> tuple[Any, ...]:
    request, sampling = row.request, row.request.sampling
    return len(request.ids), request.ids, request.room, sampling.temperature, sampling.seed or 0, row.index


def _stop_tokens(module: Any, tokenizer: Any) -> frozenset[int]:
    tokens: set[int] = set()
    for holder in (getattr(module, "generation_config", None), module.config, tokenizer):
        value = getattr(holder, "eos_token_id", None)
        tokens.update([value] if isinstance(value, int) else value or ())
    return frozenset(tokens)


def _failure(name: str, error: Exception) -> ModelError:
    failure = ModelError(f"{name}: the model failed: {type(error).__name__}: {error}")
    failure.__cause__ = error
    return failure
