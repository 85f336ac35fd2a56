"""`HFModel`: a transformers model in this process, batched, with exact token ids and log-probabilities."""

import inspect
from asyncio import AbstractEventLoop
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from mars_env.checks import require_integer
from mars_env.errors import ConfigError, ModelError
from mars_env.identity import full_name
from mars_env.lazy import needs
from mars_env.models.batching import BatchLimits, Ticket, engine_lock, submit
from mars_env.models.checkpoint import load_model
from mars_env.models.requests import Sampled, ScoringTokenModel, sampled_completion
from mars_env.types import Completion, Sampling

with needs("hf", "HFModel needs torch and transformers"):
    import torch
    from transformers import AutoModelForCausalLM

    from mars_env.models.hf_decoding import Batch, SampleRequest, SampleRow, ScoreRequest, given_logprobs
    from mars_env.models.hf_step import Step, step_of


_Ticket = Ticket[SampleRequest | ScoreRequest, list[Completion]]

_FAULTS = (RuntimeError, ValueError, IndexError)
"""What torch raises for any fault; running out of memory is a RuntimeError, too."""


class HFModel(ScoringTokenModel):
    """A causal language model of the transformers library, run in this process.

    Concurrent requests are gathered (see `mars_env.models.batching`) and run as one batch: each distinct
    prompt is read once, and all samples are decoded together, each with its own temperature, top-p, top-k,
    limit and seed. A sample has its own random numbers, so its tokens depend on its batch only through
    rounding.

    The log-probabilities are those of the distribution sampled from: after the temperature, top-p and top-k.
    Greedy completions (temperature 0) carry those at temperature 1.

    Args:
        model: A checkpoint's path or name, or a pair of a model and its tokenizer. Several `HFModel` may
            share one torch module.
        device: Where a checkpoint is put; by default the GPU if there is one. A pair is not moved.
        dtype: Of a checkpoint's weights, e.g. ``"bfloat16"``; by default as stored.
        batch: How much is decoded together.
        context: Most tokens of prompt and completion together; by default, and at most, the model's own.
        name: Name in messages and the default policy name of agents.
        template_options: Passed to the tokenizer's chat template, e.g. ``{"enable_thinking": False}``.

    Attributes:
        version: Version of the weights, noted in each completion; see `refresh`.

    Raises:
        MissingExtra: On import, where torch or transformers is not installed.
        ConfigError: The checkpoint cannot be loaded, or is a recurrent model (Mamba, RWKV), or a
            Falcon with alibi.
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
        require_cache(self.module, self.name)
        self.version, self.refreshes, self.limits = 0, 0, batch or BatchLimits()
        self._running: WeakKeyDictionary[AbstractEventLoop, _Running] = WeakKeyDictionary()
        self.template_options = dict(template_options or {})
        config = self.module.config.get_text_config(decoder=True)
        own: int = getattr(config, "max_position_embeddings", None) or 2**31
        self.context = own if context is None else min(own, context)
        self.vocabulary: int = config.vocab_size
        self._eos = _stop_tokens(self.module, self.tokenizer)
        self._attention: str = getattr(config, "_attn_implementation", "eager") or "eager"
        self._step: Step | None = None

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
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(self.module.parameters()).device

    async def _sampled(self, ids: tuple[int, ...], n: int, sampling: Sampling, room: int) -> list[Completion]:
        return await submit(self, SampleRequest(ids, n, sampling, room))

    async def _scored(self, given: Completion) -> Completion:
        [scored] = await submit(self, ScoreRequest(given.prompt_ids, given.token_ids))
        return replace(given, logprobs=scored.logprobs, versions=scored.versions)

    def refresh(self, weights: Any = None, version: int | None = None) -> None:
        """Replace the weights in place.

        Completions under way read their prompts and tokens again with the new weights, and continue;
        `Completion.versions` tells which weights sampled which tokens.

        Args:
            weights: A state dict, or a module with the same parameters; None if the module was
                changed from outside (a trainer that shares it) and only the version is new.
            version: The new version; by default one more than the old.
        """
        with engine_lock:
            if weights is not None:
                state = weights if isinstance(weights, Mapping) else weights.state_dict()
                with torch.no_grad():
                    self.module.load_state_dict(state)
            self.version = self.version + 1 if version is None else version
            self.refreshes += 1

    def logprobs(
        self, prompt_ids: Sequence[int], token_ids: Sequence[int], temperature: float = 1.0
    ) -> list[float]:
        """Natural logarithms of the probabilities of given tokens after a prompt, now and in this thread.

        Where nothing was filtered by top-p or top-k they equal the `Completion.logprobs` of the same weights
        up to rounding; a temperature of 0 is read as 1, as in `Completion`. See also `score`.
        """
        row = ScoreRequest(tuple(prompt_ids), tuple(token_ids))
        with engine_lock, _quiet(self.module):
            [values] = given_logprobs(
                self.module, [row], vocabulary=self.vocabulary, temperature=temperature or 1.0
            )
        return list(values)

    def run(self, tickets: Sequence[_Ticket]) -> dict[_Ticket, list[Completion] | BaseException]:
        """Go on with requests; called by `mars_env.models.batching` in a worker thread."""
        loop = tickets[0].future.get_loop()
        running = self._running.setdefault(loop, _Running(self))
        answers = running.advance(tickets)
        if all(ticket in answers for ticket in tickets):
            del self._running[loop]
        return answers

    def batch(self) -> Batch:
        """An empty batch with the present weights."""
        step = self._step = self._step or step_of(self.module, self._attention)
        return Batch(self.module, step, self._attention, self.tokenizer, self._eos, self.version)

    def scores(self, tickets: Sequence[_Ticket]) -> dict[_Ticket, list[Completion] | BaseException]:
        """The answers to those requests that ask for log-probabilities of given tokens."""
        asked = {t: t.request for t in tickets if isinstance(t.request, ScoreRequest) and not t.dropped}
        try:
            with _quiet(self.module):
                found = given_logprobs(self.module, list(asked.values()), vocabulary=self.vocabulary)
        except _FAULTS as error:
            return dict.fromkeys(asked, _failure(self.name, error))
        return {
            ticket: [Completion("", logprobs=logprobs, versions=((self.version, len(logprobs)),))]
            for ticket, logprobs in zip(asked, found, strict=True)
        }

    def completions(self, rows: Sequence[SampleRow]) -> list[Completion]:
        """What rows that have ended are."""
        texts = self.tokenizer.batch_decode([list(row.tokens) for row in rows], skip_special_tokens=True)
        return [
            sampled_completion(
                row.ids, row.sampling, Sampled(row.tokens, row.logprobs, row.finish, row.versions), text
            )
            for row, text in zip(rows, texts, strict=True)
        ]


class _Running:
    """The requests of one event loop that are under way."""

    def __init__(self, model: HFModel) -> None:
        self.model, self.limits, self.refreshes = model, model.limits, model.refreshes
        self.batch: Batch | None = None
        self.waiting: list[SampleRow] = []
        self.joining: list[SampleRow] = []
        self.found: dict[_Ticket, dict[int, Completion]] = {}

    def advance(self, tickets: Sequence[_Ticket]) -> dict[_Ticket, list[Completion] | BaseException]:
        """Decode until some samples have ended; the requests that are answered thereby."""
        model, new = self.model, [ticket for ticket in tickets if ticket not in self.found]
        answers = model.scores(new)
        for ticket in new:
            if isinstance(request := ticket.request, SampleRequest):
                self.found[ticket] = {}
                for i in range(request.n):
                    self.waiting.append(SampleRow(ticket, i, request.ids, request.sampling, request.room))
        self.waiting.sort(key=lambda row: len(row.ids))
        self._forget({ticket: [] for ticket in (*self.found, *tickets) if ticket.dropped}, answers)
        try:
            ended = self._decoded(any(ticket.whole for ticket in tickets))
            completions = model.completions(ended)
        except _FAULTS as error:
            rows = [*self.joining, *(self.batch.rows if self.batch else ())]
            self.batch, self.joining = None, []
            if isinstance(error, torch.OutOfMemoryError) and len(rows) > 1:
                # Nothing is lost: a row's tokens do not depend on its batch.
                self.limits = replace(self.limits, rows=len(rows) // 2)
                for row in rows:
                    row.versions = ()
                self.waiting = [*rows, *self.waiting]
                return answers
            self._forget({row.ticket: _failure(model.name, error) for row in rows}, answers)
            return answers
        for row, completion in zip(ended, completions, strict=True):
            if row.ticket in self.found:
                self.found[row.ticket][row.sample] = completion
        whole = {
            ticket: [found[i] for i in range(len(found))]
            for ticket, found in self.found.items()
            if isinstance(ticket.request, SampleRequest) and len(found) == ticket.request.n
        }
        self._forget(whole, answers)
        return answers

    def _decoded(self, whole: bool) -> list[SampleRow]:
        """The rows that end next, after those that wait have joined as far as there is room.

        In a whole wave they wait until the batch is empty, so a batch is the same whatever ends first.
        """
        with _quiet(self.model.module):
            if self.batch is None or not self.batch.rows:
                self.batch = self.model.batch()
            elif self.refreshes != self.model.refreshes:
                self.batch.use(self.model.version)
            self.refreshes = self.model.refreshes
            room = 0 if whole and self.batch.rows else self.batch.room(self.limits, self.waiting)
            self.joining, self.waiting = self.waiting[:room], self.waiting[room:]
            if self.joining:
                self.batch.join(self.joining)
            self.joining = []
            return self.batch.advance() if self.batch.rows else []

    def _forget(
        self,
        ended: Mapping[_Ticket, list[Completion] | BaseException],
        answers: dict[_Ticket, list[Completion] | BaseException],
    ) -> None:
        """Answer requests, and drop what is left of them."""
        answers |= ended
        for ticket in ended:
            self.found.pop(ticket, None)
        self.waiting = [row for row in self.waiting if row.ticket not in ended]
        if self.batch is not None:
            self.batch.drop([row for row in self.batch.rows if row.ticket in ended])


@contextmanager
def _quiet(module: Any) -> Iterator[None]:
    """Evaluation mode without gradients; the training mode is restored."""
    training = module.training
    if training:
        module.eval()
    try:
        with torch.no_grad():  # not inference_mode: a trainer may share the module and its buffers
            yield
    finally:
        if training:
            module.train()


def require_cache(module: Any, name: str) -> None:
    """Reject a model that ignores keys and values, where each token would be sampled as the second."""
    kind = type(module)
    if not kind.__module__.startswith("transformers.models."):  # an adapter has no `forward`
        return
    if "past_key_values" not in inspect.signature(kind.forward).parameters:
        raise ConfigError(f"{name}: {kind.__name__} keeps no keys and values, which HFModel needs: use vLLM")
    if getattr(module.config, "alibi", False):  # Falcon reads it off a mask of two dimensions
        raise ConfigError(f"{name}: HFModel cannot sample from {kind.__name__} with alibi: use vLLM")


def _stop_tokens(module: Any, tokenizer: Any) -> frozenset[int]:
    """Every end-of-sequence token that the generation config, the config or the tokenizer names."""
    found: set[int] = set()
    for holder in (getattr(module, "generation_config", None), module.config, tokenizer):
        value = getattr(holder, "eos_token_id", None)
        found.update([value] if isinstance(value, int) else value or ())
    return frozenset(found)


def _failure(name: str, error: Exception) -> ModelError:
    failure = ModelError(f"{name}: the model failed: {type(error).__name__}: {error}")
    failure.__cause__ = error
    return failure
