"""What a transformers model computes for a wave: samples decoded together, and scores of given tokens."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch

from mars_env.models.batching import BatchLimits, Ticket
from mars_env.models.hf_step import CHUNK, GrowingCache, Step, cache_for
from mars_env.seeds import derive_seed
from mars_env.types import Completion, Sampling

LOGITS = 2**27
"""Most logits of one forward pass (half a GiB in float32), unless a single text needs more."""


@dataclass(frozen=True, slots=True)
class SampleRequest:
    """A request for samples: the prompt's token ids, how many, and how they are sampled."""

    ids: tuple[int, ...]
    n: int
    sampling: Sampling


@dataclass(eq=False, slots=True)
class SampleRow:
    """One sample being decoded."""

    ticket: Ticket[Any, list[Completion]]
    sample: int
    ids: tuple[int, ...]
    sampling: Sampling
    room: int
    tokens: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()
    finish: Literal["stop", "length"] = "length"

    def generator(self) -> np.random.Generator:
        """The sample's own random numbers."""
        seed = self.sampling.seed
        return np.random.Generator(
            np.random.PCG64(secrets.randbits(63) if seed is None else derive_seed(seed, self.sample))
        )


def batches_of(rows: Sequence[SampleRow], limits: BatchLimits) -> Iterator[list[SampleRow]]:
    """Split rows, in their order, so that each batch keeps within both limits (or is a single row)."""
    batch: list[SampleRow] = []
    tokens = 0
    for row in rows:
        need = len(row.ids) + row.room
        if batch and (len(batch) == limits.rows or tokens + need > limits.tokens):
            yield batch
            batch, tokens = [], 0
        batch.append(row)
        tokens += need
    if batch:
        yield batch


def decode_rows(
    module: Any,
    step_of_model: Step,
    tokenizer: Any,
    rows: Sequence[SampleRow],
    ends: Set[int],
    attention: str,
) -> None:
    """Decode rows to their ends; fills in their tokens, log-probabilities and finish reasons.

    `step_of_model` is the model's decoding step, `attention` how it attends (``"sdpa"``, ``"eager"`` ...),
    `ends` the token ids that end a sample. The tokenizer reads stop strings.
    """
    device = next(module.parameters()).device
    distinct = {ids: i for i, ids in enumerate(dict.fromkeys(row.ids for row in rows))}
    width = max(map(len, distinct))
    prompts = torch.zeros(len(distinct), width, dtype=torch.long)
    real = torch.zeros(len(distinct), width, dtype=torch.bool)
    for ids, i in distinct.items():  # padding goes on the left and is masked
        prompts[i, width - len(ids) :] = torch.tensor(ids)
        real[i, width - len(ids) :] = True
    prompts, real = prompts.to(device), real.to(device)
    cache = cache_for(module)
    logits = module(
        input_ids=prompts,
        attention_mask=real.long(),
        position_ids=(real.cumsum(-1) - 1).clamp_(min=0),
        past_key_values=cache,
        use_cache=True,
        logits_to_keep=1,
    ).logits[:, -1]
    source = torch.tensor([distinct[row.ids] for row in rows], device=device)
    cache.reorder_cache(source)
    logits, real = logits[source], real[source]
    state = _State(list(rows), real, attention if isinstance(cache, GrowingCache) else "", module.dtype)
    eos = np.array(sorted(ends))
    for step in itertools.count():
        tokens, logprobs = state.choose(logits, step)
        keep = state.record(tokens, logprobs, step, eos, tokenizer)
        if not len(keep) or (step % 16 == 15 and all(state.rows[i].ticket.dropped for i in keep)):
            return
        # Finished rows stay in the batch until they are a quarter of it: dropping them copies the cache.
        if 4 * len(keep) <= 3 * len(state.rows):
            kept = torch.from_numpy(keep).to(device)
            cache.reorder_cache(kept)
            state.select(keep, kept)
            tokens = tokens[kept]
        logits = step_of_model(tokens, state.lengths + step, state.mask(step + 1), cache)


class _State:
    """The rows that are being decoded, and their settings as vectors."""

    def __init__(self, rows: list[SampleRow], real: torch.Tensor, attention: str, dtype: torch.dtype) -> None:
        self.rows = rows
        self.live = np.ones(len(rows), dtype=bool)
        self.lengths = real.sum(-1, keepdim=True)
        self._real, self._padded = real, not bool(real.all())
        self._attention, self._dtype, self._device = attention, dtype, real.device
        self._generators = [row.generator() for row in rows]
        self._room = np.array([row.room for row in rows])
        self._uniforms = torch.empty(0)
        self._bias = torch.empty(0)
        self._places = np.arange(len(rows))
        self._tokens, self._logprobs = np.empty((len(rows), 0), np.int64), np.empty((len(rows), 0))
        self._stops = any(row.sampling.stop for row in rows)
        self._vectors()

    def _vectors(self) -> None:
        sampling = [row.sampling for row in self.rows]

        def vector(values: list[float], dtype: torch.dtype) -> torch.Tensor:
            return torch.tensor(values, dtype=dtype, device=self._device)[:, None]

        self._temperature = vector([s.temperature or 1.0 for s in sampling], torch.float32)
        self._tempered = any(s.temperature not in (0.0, 1.0) for s in sampling)
        self._greedy = vector([s.temperature == 0 for s in sampling], torch.bool)
        self._any_greedy = any(s.temperature == 0 for s in sampling)
        self._filtered = any(s.temperature and (s.top_p < 1 or s.top_k > 0) for s in sampling)
        # A greedy row is not filtered: its log-probabilities are those at temperature 1.
        self._top_p = vector([s.top_p if s.temperature else 1.0 for s in sampling], torch.float32)
        self._top_k = vector([(s.top_k if s.temperature else 0) or 2**31 for s in sampling], torch.long)

    def choose(self, logits: torch.Tensor, step: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Sample one token per row: shapes (rows,) and (rows,)."""
        if step % CHUNK == 0:
            draws = np.stack([generator.random(CHUNK) for generator in self._generators])
            self._uniforms = torch.from_numpy(draws).to(self._device)
        logits = logits.float()
        if self._tempered:
            logits = logits / self._temperature
        if self._filtered:
            logits = filtered(logits, self._top_p, self._top_k)
        logprobs = torch.log_softmax(logits, -1)
        tokens = draw(logprobs, self._uniforms[:, step % CHUNK, None])
        if self._any_greedy:
            tokens = torch.where(self._greedy, logits.argmax(-1, keepdim=True), tokens)
        return tokens[:, 0], logprobs.gather(1, tokens)[:, 0]

    def record(
        self,
        tokens: torch.Tensor,
        logprobs: torch.Tensor,
        step: int,
        eos: npt.NDArray[np.int64],
        tokenizer: Any,
    ) -> npt.NDArray[np.int64]:
        """Record the tokens of unfinished rows; returns the places of those that continue."""
        if step == self._tokens.shape[1]:
            room = ((0, 0), (0, CHUNK + step))
            self._tokens, self._logprobs = np.pad(self._tokens, room), np.pad(self._logprobs, room)
        drawn = tokens.cpu().numpy()
        self._tokens[self._places, step] = drawn  # a finished row's token lies beyond its end
        self._logprobs[self._places, step] = logprobs.cpu().numpy()
        stopped = np.isin(drawn, eos)
        if self._stops:
            for i in np.flatnonzero(self.live & ~stopped):
                stops = self.rows[i].sampling.stop
                sampled = self._tokens[self._places[i], : step + 1]
                stopped[i] = bool(stops) and completes_stop(sampled, stops, tokenizer)
        for i in np.flatnonzero(self.live & (stopped | (step + 1 >= self._room))):
            row, place = self.rows[i], self._places[i]
            row.finish = "stop" if stopped[i] else "length"
            row.tokens = tuple(self._tokens[place, : step + 1].tolist())
            row.logprobs = tuple(self._logprobs[place, : step + 1].tolist())
            self.live[i] = False
        return np.flatnonzero(self.live)

    def select(self, keep: npt.NDArray[np.int64], kept: torch.Tensor) -> None:
        """Drop all other rows."""
        self.rows = [self.rows[i] for i in keep]
        self._generators = [self._generators[i] for i in keep]
        self.live, self._room, self._places = self.live[keep], self._room[keep], self._places[keep]
        self.lengths, self._real, self._uniforms = self.lengths[kept], self._real[kept], self._uniforms[kept]
        self._bias = torch.empty(0)
        self._stops = any(row.sampling.stop for row in self.rows)
        self._vectors()

    def mask(self, generated: int) -> torch.Tensor | None:
        """The attention mask of a decoding step over the prompt and `generated` tokens.

        For the attentions that add a bias it is made here once and sliced, (rows, 1, 1, keys);
        the library would build it again at every step.
        """
        if not self._padded and self._attention in ("sdpa", "eager"):
            return None
        rows, width = self._real.shape
        if self._bias.shape[-1] < width + generated:
            grown = torch.ones(rows, width + generated + CHUNK, dtype=torch.bool, device=self._device)
            grown[:, :width] = self._real
            if self._attention in ("sdpa", "eager"):
                bias = torch.zeros(grown.shape, dtype=self._dtype, device=self._device)
                self._bias = bias.masked_fill_(~grown, torch.finfo(bias.dtype).min)[:, None, None]
            else:
                self._bias = grown.long()
        return self._bias[..., : width + generated]


def draw(logprobs: torch.Tensor, uniforms: torch.Tensor) -> torch.Tensor:
    """Sample by the inverse of the cumulative distribution, in double precision.

    `logprobs` has the shape (rows, vocabulary), `uniforms` and the result (rows, 1). A token of probability 0
    is never drawn.
    """
    rows, vocabulary = logprobs.shape
    limit = max(1, 2**26 // vocabulary)  # the sums take 8 bytes an entry: keep them under half a gigabyte
    parts = []
    for begin in range(0, rows, limit):
        sums = logprobs[begin : begin + limit].double().exp_().cumsum(-1)
        total = sums[:, -1:]
        target = torch.minimum(
            uniforms[begin : begin + limit] * total, torch.nextafter(total, torch.zeros_like(total))
        )
        parts.append(torch.searchsorted(sums, target, right=True))
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def filtered(logits: torch.Tensor, top_p: torch.Tensor, top_k: torch.Tensor) -> torch.Tensor:
    """Set the logits outside the top k, then outside the nucleus of the rest, to minus infinity."""
    ordered, order = logits.sort(dim=-1, descending=True, stable=True)
    ranks = torch.arange(logits.shape[-1], device=logits.device)[None]
    ordered = ordered.masked_fill(ranks >= top_k, -torch.inf)
    probabilities = torch.softmax(ordered, -1)
    before = probabilities.cumsum(-1) - probabilities
    drop = (before >= top_p - 1e-6) & (top_p < 1) & (ranks > 0)
    return torch.empty_like(logits).scatter_(-1, order, ordered.masked_fill(drop, -torch.inf))


def completes_stop(tokens: npt.NDArray[np.int64], stops: Sequence[str], tokenizer: Any) -> bool:
    """Whether a stop text has just been completed; decodes only as much of the end as can hold one."""
    end = tokens[-(max(map(len, stops)) + 8) :]
    for part in (end, tokens):  # the end may decode differently on its own
        text = tokenizer.decode(part.tolist(), skip_special_tokens=True)
        if not any(stop in text for stop in stops):
            return False
    return True


@dataclass(frozen=True, slots=True)
class ScoreRequest:
    """A request for the log-probabilities of tokens after a prompt."""

    ids: tuple[int, ...]
    tokens: tuple[int, ...]


@torch.no_grad()
def given_logprobs(
    module: Any, rows: Sequence[ScoreRequest], *, vocabulary: int, temperature: float = 1.0
) -> list[tuple[float, ...]]:
    """Natural logarithms of the probabilities of each row's tokens, in the order of the rows.

    Rows of like length go together, at most `LOGITS` logits of a `vocabulary`. Padding is on the right, so no
    token attends to it.
    """
    device = next(module.parameters()).device
    found: list[tuple[float, ...]] = [()] * len(rows)
    for places in _batches(rows, vocabulary):
        batch = [rows[place] for place in places]
        width = max(len(row.ids) + len(row.tokens) for row in batch)
        ids = torch.zeros(len(batch), width, dtype=torch.long)
        for i, row in enumerate(batch):
            ids[i, : len(row.ids) + len(row.tokens)] = torch.tensor([*row.ids, *row.tokens])
        first = min(len(row.ids) for row in batch)  # the earliest token that is asked for
        logits = module(
            input_ids=ids[:, :-1].to(device), use_cache=False, logits_to_keep=width - first
        ).logits.float()
        for i, (place, row) in enumerate(zip(places, batch, strict=True)):
            start = len(row.ids) - first
            own = torch.log_softmax(logits[i, start : start + len(row.tokens)] / temperature, -1)
            chosen = torch.tensor(row.tokens, device=device)
            found[place] = tuple(own.gather(1, chosen[:, None])[:, 0].tolist())
    return found


def _batches(rows: Sequence[ScoreRequest], vocabulary: int) -> Iterator[list[int]]:
    """Places of the rows that go together, the shortest first; rows without tokens are left out."""
    sizes = [len(row.ids) + len(row.tokens) for row in rows]
    order = sorted((place for place, row in enumerate(rows) if row.tokens), key=sizes.__getitem__)
    batch: list[int] = []
    first = 0
    for place in order:
        row = rows[place]
        first = min(first, len(row.ids)) if batch else len(row.ids)
        kept = sizes[place] - first
        if batch and (len(batch) + 1) * kept * vocabulary > LOGITS:
            yield batch
            batch, first = [], len(row.ids)
        batch.append(place)
    if batch:
        yield batch
