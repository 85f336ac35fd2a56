"""What a transformers model computes: samples decoded together, and scores of given tokens."""

import itertools
import secrets
from collections.abc import Collection, Iterator, Sequence, Set
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
    """A request for samples: the prompt's token ids, how many, how they are sampled, and their room."""

    ids: tuple[int, ...]
    n: int
    sampling: Sampling
    room: int


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
    versions: tuple[tuple[int, int], ...] = ()

    def generator(self) -> np.random.Generator:
        """The sample's own random numbers."""
        seed = self.sampling.seed
        return np.random.Generator(
            np.random.PCG64(secrets.randbits(63) if seed is None else derive_seed(seed, self.sample))
        )


class Batch:
    """Samples that are decoded together; others join as they end.

    Rows end in the same column and are padded on the left. Rows that have ended stay until they are a
    quarter, since dropping them copies the cache. `ends` are the token ids that end a sample.
    """

    def __init__(
        self, module: Any, step: Step, attention: str, tokenizer: Any, ends: Set[int], version: int
    ) -> None:
        self.rows: list[SampleRow] = []
        self._module, self._step, self._tokenizer, self._version = module, step, tokenizer, version
        self._attention, self._eos = attention, np.array(sorted(ends))
        self._device = next(module.parameters()).device
        self._generators: list[np.random.Generator] = []
        self._cache: Any = None
        self._logits = torch.empty(0)
        self._width = 0
        self._live, self._left, self._counts, self._room = (np.empty(0, t) for t in (bool, int, int, int))
        self._draws, self._logprobs = np.empty((0, CHUNK)), np.empty((0, 0))
        self._tokens: npt.NDArray[np.int64] = np.empty((0, 0), np.int64)

    def room(self, limits: BatchLimits, waiting: Sequence[SampleRow]) -> int:
        """How many of the rows that wait may join now."""
        if self.rows and not isinstance(self._cache, GrowingCache):
            return 0
        rows, tokens = len(self.rows), sum(len(row.ids) + row.room for row in self.rows)
        for number, row in enumerate(waiting):
            rows, tokens = rows + 1, tokens + len(row.ids) + row.room
            if rows > 1 and (rows > limits.rows or tokens > limits.tokens):
                return number
        return len(waiting)

    def join(self, rows: Sequence[SampleRow]) -> None:
        """Add rows, and read their prompts."""
        cache, logits, left, width = self._read([row.ids for row in rows])
        if self.rows:
            self._cache.join(cache)
            logits = torch.cat([self._logits, logits])
            left = np.concatenate([self._left - self._width, left - width]) + max(self._width, width)
            width = max(self._width, width)
        else:
            self._cache = cache
        self._logits, self._left, self._width = logits, left, width
        new = len(rows)
        self.rows += rows
        self._generators += [row.generator() for row in rows]
        self._live = np.concatenate([self._live, np.ones(new, bool)])
        self._counts = np.concatenate([self._counts, np.zeros(new, int)])
        self._room = np.concatenate([self._room, [row.room for row in rows]])
        added = ((0, new), (0, 0))
        self._draws, self._tokens = np.pad(self._draws, added), np.pad(self._tokens, added)
        self._logprobs = np.pad(self._logprobs, added)
        self._arrange()

    def use(self, version: int) -> None:
        """Go on with new weights, which read prompts and tokens again."""
        for row, count in zip(self.rows, self._counts.tolist(), strict=True):
            row.versions = merged_versions(row.versions, self._version, count)
        self._version = version
        texts = [(*row.ids, *tokens) for row, tokens in zip(self.rows, self._sampled(), strict=True)]
        self._cache, self._logits, self._left, self._width = self._read(texts)
        self._arrange()

    def drop(self, leaving: Collection[SampleRow]) -> None:
        """Take rows out that are no longer wanted."""
        if leaving:
            self._keep(np.array([i for i, row in enumerate(self.rows) if row not in leaving], int))

    def advance(self) -> list[SampleRow]:
        """Decode until a quarter of the rows has ended; these leave, with tokens and finish reasons."""
        for number in itertools.count(1):
            tokens, logprobs = self._choose()
            self._record(tokens, logprobs)
            if number % 16 == 0:
                self._live &= [not row.ticket.dropped for row in self.rows]
            gone = [row for row, live in zip(self.rows, self._live, strict=True) if not live]
            if leaves := 4 * len(gone) >= len(self.rows):
                keep = np.flatnonzero(self._live)
                tokens = tokens[torch.from_numpy(keep).to(self._device)]
                self._keep(keep)
            if self.rows:
                places = torch.from_numpy(self._lengths + self._counts - 1).to(self._device)[:, None]
                self._logits = self._step(tokens, places, self._mask(), self._cache)
                self._width += 1
            if leaves:
                return gone
        raise AssertionError

    def _read(self, texts: Sequence[tuple[int, ...]]) -> tuple[Any, torch.Tensor, npt.NDArray[Any], int]:
        """The cache of some texts, the logits after them, their padding and width; each is read once."""
        distinct = {ids: i for i, ids in enumerate(dict.fromkeys(texts))}
        width = max(map(len, distinct))
        prompts = torch.zeros(len(distinct), width, dtype=torch.long)
        real = torch.zeros(len(distinct), width, dtype=torch.bool)
        for ids, i in distinct.items():
            prompts[i, width - len(ids) :] = torch.tensor(ids)
            real[i, width - len(ids) :] = True
        prompts, real = prompts.to(self._device), real.to(self._device)
        cache = cache_for(self._module)
        logits = self._module(
            input_ids=prompts,
            attention_mask=real.long(),
            position_ids=(real.cumsum(-1) - 1).clamp_(min=0),
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=1,
        ).logits[:, -1]
        source = torch.tensor([distinct[ids] for ids in texts], device=self._device)
        cache.reorder_cache(source)
        return cache, logits[source], np.array([width - len(ids) for ids in texts]), width

    def _sampled(self) -> list[tuple[int, ...]]:
        return [tuple(t[:n].tolist()) for t, n in zip(self._tokens, self._counts, strict=True)]

    def _keep(self, keep: npt.NDArray[Any]) -> None:
        """Drop all other rows, and columns that are padding in all that stay."""
        self.rows = [self.rows[i] for i in keep]
        self._generators = [self._generators[i] for i in keep]
        self._live, self._left, self._counts = self._live[keep], self._left[keep], self._counts[keep]
        self._room, self._draws = self._room[keep], self._draws[keep]
        self._tokens, self._logprobs = self._tokens[keep], self._logprobs[keep]
        if not self.rows:
            self._cache = None
            return
        rows = torch.from_numpy(keep).to(self._device)
        if isinstance(self._cache, GrowingCache):
            begin = int(self._left.min()) // CHUNK * CHUNK
            self._cache.keep(rows, begin)
            self._left, self._width = self._left - begin, self._width - begin
        else:
            self._cache.reorder_cache(rows)
        self._logits = self._logits[rows]
        self._arrange()

    def _arrange(self) -> None:
        """The rows' settings as vectors."""
        sampling = [row.sampling for row in self.rows]

        def vector(values: Sequence[float], dtype: torch.dtype) -> torch.Tensor:
            return torch.tensor(values, dtype=dtype, device=self._device)[:, None]

        self._temperature = vector([s.temperature or 1.0 for s in sampling], torch.float32)
        self._tempered = any(s.temperature not in (0.0, 1.0) for s in sampling)
        self._greedy = vector([s.temperature == 0 for s in sampling], torch.bool)
        self._any_greedy = any(s.temperature == 0 for s in sampling)
        self._filtered = any(s.temperature and (s.top_p < 1 or s.top_k > 0) for s in sampling)
        # A greedy row is not filtered: its log-probabilities are those at temperature 1.
        self._top_p = vector([s.top_p if s.temperature else 1.0 for s in sampling], torch.float32)
        self._top_k = vector([(s.top_k if s.temperature else 0) or 2**31 for s in sampling], torch.long)
        self._stops = any(s.stop for s in sampling)
        self._lengths = np.array([len(row.ids) for row in self.rows])
        self._uniforms = torch.from_numpy(self._draws).to(self._device)
        self._bias = torch.empty(0)

    def _choose(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Sample one token per row: shapes (rows,) and (rows,)."""
        places = self._counts % CHUNK
        if len(empty := np.flatnonzero(places == 0)):
            self._draws[empty] = np.stack([self._generators[i].random(CHUNK) for i in empty])
            self._uniforms = torch.from_numpy(self._draws).to(self._device)
        uniforms = self._uniforms.gather(1, torch.from_numpy(places).to(self._device)[:, None])
        logits = self._logits.float()
        if self._tempered:
            logits = logits / self._temperature
        if self._filtered:
            logits = filtered(logits, self._top_p, self._top_k)
        logprobs = torch.log_softmax(logits, -1)
        tokens = draw(logprobs, uniforms)
        if self._any_greedy:
            tokens = torch.where(self._greedy, logits.argmax(-1, keepdim=True), tokens)
        return tokens[:, 0], logprobs.gather(1, tokens)[:, 0]

    def _record(self, tokens: torch.Tensor, logprobs: torch.Tensor) -> None:
        """Record the tokens; rows that end get theirs."""
        if self._counts.max() == self._tokens.shape[1]:
            room = ((0, 0), (0, CHUNK + self._tokens.shape[1]))
            self._tokens, self._logprobs = np.pad(self._tokens, room), np.pad(self._logprobs, room)
        drawn, places = tokens.cpu().numpy(), np.arange(len(self.rows))
        self._tokens[places, self._counts] = drawn  # a finished row's token lies beyond its end
        self._logprobs[places, self._counts] = logprobs.cpu().numpy()
        self._counts = self._counts + 1
        stopped = np.isin(drawn, self._eos)
        if self._stops:
            for i in np.flatnonzero(self._live & ~stopped):
                stops = self.rows[i].sampling.stop
                sampled = self._tokens[i, : self._counts[i]]
                stopped[i] = bool(stops) and completes_stop(sampled, stops, self._tokenizer)
        for i in np.flatnonzero(self._live & (stopped | (self._counts >= self._room))):
            row, count = self.rows[i], int(self._counts[i])
            row.finish = "stop" if stopped[i] else "length"
            row.tokens = tuple(self._tokens[i, :count].tolist())
            row.logprobs = tuple(self._logprobs[i, :count].tolist())
            row.versions = merged_versions(row.versions, self._version, count)
            self._live[i] = False

    def _mask(self) -> torch.Tensor | None:
        """The attention mask of the next step.

        For torch's own attention it is a bias, (rows, 1, 1, keys), made here once and sliced; the library
        would build it again at every step. Other attentions may need more of it than a bias says.
        """
        adds = self._attention == "sdpa" and isinstance(self._cache, GrowingCache)
        if adds and not self._left.any():
            return None
        keys = self._width + 1
        if self._bias.shape[-1] < keys:
            columns = torch.arange(keys + CHUNK, device=self._device)
            real = columns >= torch.from_numpy(self._left).to(self._device)[:, None]
            if adds:
                bias = torch.zeros(real.shape, dtype=self._module.dtype, device=self._device)
                self._bias = bias.masked_fill_(~real, torch.finfo(bias.dtype).min)[:, None, None]
            else:
                self._bias = real.long()
        return self._bias[..., :keys]


Runs = tuple[tuple[int, int], ...]
"""Versions and how many tokens each has sampled, in their order."""


def merged_versions(runs: Runs, version: int, count: int) -> Runs:
    """Which weights sampled so many tokens, if those not in `runs` are of this version.

    Example:
        >>> merged_versions(((1, 5),), 2, 8)
        ((1, 5), (2, 3))
    """
    new = count - sum(number for _, number in runs)
    return (*runs, (version, new)) if new else runs


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
