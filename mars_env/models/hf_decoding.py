"""What a transformers model computes: samples decoded together, and scores of given tokens."""

from collections.abc import Iterator, Sequence, Set
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from mars_env.models.batching import Ticket
from mars_env.models.hf_cache import cache_for
from mars_env.models.hf_module import cache_argument, evaluation
from mars_env.models.requests import Sampled
from mars_env.seeds import derive_seed
from mars_env.types import Completion, Sampling

LOGITS = 2**27
"""Most logits of one forward pass (half a GiB in float32), unless a single text needs more."""

CHUNK = 64


@dataclass(frozen=True, slots=True)
class SampleRequest:
    """A request for n samples after a prompt's token ids."""

    ids: tuple[int, ...]
    n: int
    sampling: Sampling
    room: int


@dataclass(frozen=True, eq=False, slots=True)
class SampleRow:
    """One of the samples that a ticket asks for."""

    ticket: Ticket[Any, list[Completion]]
    request: SampleRequest
    index: int

    def generator(self) -> np.random.Generator:
        """The sample's own random numbers."""
        seed = self.request.sampling.seed
        return np.random.default_rng(None if seed is None else derive_seed(seed, self.index))


class Decoding:
    """Samples that are decoded together: all have as many tokens, until each ends with one of `ends`.

    Prompts are padded on the left. Rows that have ended stay until they are a quarter, because dropping them
    copies the cache. The tokenizer decodes what is compared with stop texts.
    """

    def __init__(self, module: Any, tokenizer: Any, ends: Set[int], rows: Sequence[SampleRow]) -> None:
        self._module, self._tokenizer, self._ends = module, tokenizer, np.array(sorted(ends))
        self._device = next(module.parameters()).device
        self._cache, self._cache_argument = cache_for(module), cache_argument(module)
        # The load balancing loss is for training, and does not take the mask of a growing cache.
        routed = getattr(module.config, "output_router_logits", False)
        self._options = {"output_router_logits": False} if routed else {}
        self._width = max(len(row.request.ids) for row in rows)
        self._steps = 0
        self._rows, self._generators = list(rows), [row.generator() for row in rows]
        self._live = np.ones(len(rows), bool)
        self._draws = np.empty((len(rows), CHUNK))
        self._tokens, self._logprobs = np.empty((len(rows), 0), np.int64), np.empty((len(rows), 0))
        self._samples: dict[SampleRow, Sampled] = {}

    @torch.no_grad()  # not inference_mode: a trainer may share the module and its buffers
    def run(self, version: int) -> dict[SampleRow, Sampled]:
        """The samples of weights of this version; those of dropped tickets may be missing."""
        with evaluation(self._module):
            self._read()
            while True:
                tokens, logprobs = self._choose()
                self._record(tokens.cpu().numpy(), logprobs.cpu().numpy(), version)
                if not self._live.any():
                    return self._samples
                if 4 * self._live.sum() <= 3 * len(self._live):
                    places = torch.from_numpy(np.flatnonzero(self._live)).to(self._device)
                    tokens = tokens[places]
                    self._cache.reorder_cache(places)
                    self._keep(self._live)
                # Ended rows go no further than their room, since the context may rescale all positions.
                steps = self._rooms.clamp(max=self._steps)
                self._logits = self._forward(tokens[:, None], self._lengths + steps - 1)

    def _read(self) -> None:
        prompts = {ids: i for i, ids in enumerate(dict.fromkeys(row.request.ids for row in self._rows))}
        ids = torch.zeros(len(prompts), self._width, dtype=torch.long)
        for prompt, i in prompts.items():
            ids[i, self._width - len(prompt) :] = torch.tensor(prompt)
        self._lengths = torch.tensor([[len(prompt)] for prompt in prompts], device=self._device)
        self._padded = min(map(len, prompts)) < self._width
        columns = torch.arange(self._width, device=self._device)
        positions = (columns - (self._width - self._lengths)).clamp_(min=0)
        logits = self._forward(ids.to(self._device), positions)
        source = torch.tensor([prompts[row.request.ids] for row in self._rows], device=self._device)
        self._cache.reorder_cache(source)
        self._logits = logits[source]
        self._arrange()

    def _forward(self, ids: Tensor, positions: Tensor) -> Tensor:
        """The logits after the last of these tokens [S, T], which the cache keeps: [S, V]."""
        mask = None
        if self._padded:
            columns = torch.arange(self._width + self._steps, device=self._device)
            mask = (columns >= self._width - self._lengths).long()
        logits: Tensor = self._module(
            input_ids=ids,
            attention_mask=mask,
            position_ids=positions,
            use_cache=True,
            logits_to_keep=1,
            **{self._cache_argument: self._cache, **self._options},
        ).logits
        return logits[:, -1]

    def _keep(self, keep: npt.NDArray[np.bool_]) -> None:
        places = np.flatnonzero(keep)
        self._rows = [self._rows[i] for i in places]
        self._generators = [self._generators[i] for i in places]
        self._tokens, self._logprobs = self._tokens[keep], self._logprobs[keep]
        self._draws, self._live = self._draws[keep], self._live[keep]
        self._arrange()

    def _arrange(self) -> None:
        sampling = [row.request.sampling for row in self._rows]

        def column(values: Sequence[float], dtype: torch.dtype) -> Tensor:
            return torch.tensor(values, dtype=dtype, device=self._device)[:, None]

        self._lengths = column([len(row.request.ids) for row in self._rows], torch.long)
        self._rooms = column([row.request.room for row in self._rows], torch.long)
        self._room = np.array([row.request.room for row in self._rows])
        self._has_stop = np.array([bool(s.stop) for s in sampling])
        self._temperature = column([s.temperature or 1.0 for s in sampling], torch.float32)
        self._greedy = column([s.temperature == 0 for s in sampling], torch.bool)
        self._filters = any(s.temperature and (s.top_p < 1 or s.top_k > 0) for s in sampling)
        # A greedy row is not filtered: its log-probabilities are those at temperature 1.
        self._top_p = column([s.top_p if s.temperature else 1.0 for s in sampling], torch.float32)
        self._top_k = column([(s.top_k if s.temperature else 0) or 2**31 for s in sampling], torch.long)
        self._uniforms = torch.from_numpy(self._draws).to(self._device)

    def _choose(self) -> tuple[Tensor, Tensor]:
        """Sample one token per row, and its log-probability: [S] each."""
        place = self._steps % CHUNK
        if place == 0:
            self._draws = np.stack([generator.random(CHUNK) for generator in self._generators])
            self._uniforms = torch.from_numpy(self._draws).to(self._device)
        logits = self._logits.float() / self._temperature
        if self._filters:
            logits = filtered(logits, self._top_p, self._top_k)
        logprobs = torch.log_softmax(logits, -1)
        drawn = draw(logprobs, self._uniforms[:, place : place + 1])
        tokens = torch.where(self._greedy, logits.argmax(-1, keepdim=True), drawn)
        return tokens[:, 0], logprobs.gather(1, tokens)[:, 0]

    def _record(self, tokens: npt.NDArray[np.int64], logprobs: npt.NDArray[np.float32], version: int) -> None:
        if self._steps == self._tokens.shape[1]:
            more = ((0, 0), (0, CHUNK + self._steps))
            self._tokens, self._logprobs = np.pad(self._tokens, more), np.pad(self._logprobs, more)
        self._tokens[:, self._steps], self._logprobs[:, self._steps] = tokens, logprobs
        self._steps += 1
        if self._steps % 16 == 0:
            self._live &= [not row.ticket.dropped for row in self._rows]
        stopped = np.isin(tokens, self._ends)
        for i in np.flatnonzero(self._live & self._has_stop & ~stopped):
            stops = self._rows[i].request.sampling.stop
            stopped[i] = completes_stop(self._tokens[i, : self._steps], stops, self._tokenizer)
        for i in np.flatnonzero(self._live & (stopped | (self._steps >= self._room))):
            self._live[i] = False
            self._samples[self._rows[i]] = Sampled(
                tuple(self._tokens[i, : self._steps].tolist()),
                tuple(self._logprobs[i, : self._steps].tolist()),
                "stop" if stopped[i] else "length",
                ((version, self._steps),),
            )


def draw(logprobs: torch.Tensor, uniforms: torch.Tensor) -> torch.Tensor:
    """Sample by the inverse of the cumulative distribution, in double precision.

    From [S, V] and uniform numbers [S, 1] to tokens [S, 1]. A token of probability 0 is never drawn.
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
    return torch.cat(parts)


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
    for ids in (end, tokens):  # the end may decode differently on its own
        text = tokenizer.decode(ids.tolist(), skip_special_tokens=True)
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
    module: Any, rows: Sequence[ScoreRequest], temperature: float = 1.0
) -> list[tuple[float, ...]]:
    """Natural logarithms of the probabilities of each row's tokens, in the order of the rows.

    Rows of like length go together. Padding is on the right, so no token attends to it.
    """
    device = next(module.parameters()).device
    logprobs: list[tuple[float, ...]] = [()] * len(rows)
    for places in _batches(rows, module.config.get_text_config(decoder=True).vocab_size):
        batch = [rows[place] for place in places]
        width = max(len(row.ids) + len(row.tokens) for row in batch)
        ids = torch.zeros(len(batch), width, dtype=torch.long)
        for i, row in enumerate(batch):
            ids[i, : len(row.ids) + len(row.tokens)] = torch.tensor([*row.ids, *row.tokens])
        first = min(len(row.ids) for row in batch)  # the earliest token that is asked for
        with evaluation(module):
            output = module(input_ids=ids[:, :-1].to(device), use_cache=False, logits_to_keep=width - first)
        logits = output.logits.float()
        for i, (place, row) in enumerate(zip(places, batch, strict=True)):
            start = len(row.ids) - first
            row_logprobs = torch.log_softmax(logits[i, start : start + len(row.tokens)] / temperature, -1)
            chosen = torch.tensor(row.tokens, device=device)
            logprobs[place] = tuple(row_logprobs.gather(1, chosen[:, None])[:, 0].tolist())
    return logprobs


def _batches(rows: Sequence[ScoreRequest], vocabulary: int) -> Iterator[list[int]]:
    """Places of rows with tokens that go together, the shortest first."""
    sizes = [len(row.ids) + len(row.tokens) for row in rows]
    scored = [place for place, row in enumerate(rows) if row.tokens]
    order = sorted(scored, key=lambda place: (sizes[place], rows[place].ids, rows[place].tokens))
    batch: list[int] = []
    first = 0
    for place in order:
        row = rows[place]
        first = min(first, len(row.ids)) if batch else len(row.ids)
        width = sizes[place] - first
        if batch and (len(batch) + 1) * width * vocabulary > LOGITS:
            yield batch
            batch, first = [], len(row.ids)
        batch.append(place)
    if batch:
        yield batch


def sampling_gap(module: Any) -> float:
    """The largest difference of sampled log-probabilities from those of one pass over the texts, in nats.

    It is rounding, unless the model ignores its cache, or the mask of a padded batch.
    """
    sampling, vocabulary = Sampling(seed=0), module.config.get_text_config(decoder=True).vocab_size
    requests = [
        SampleRequest(tuple(i % vocabulary for i in range(length)), 1, sampling, room)
        for length, room in ((4, 4), (1, 8), (4, 8))
    ]
    rows = [SampleRow(Ticket(request, Future()), request, i) for i, request in enumerate(requests)]
    samples = Decoding(module, None, frozenset(), rows).run(0)
    texts = [ScoreRequest(row.request.ids, samples[row].token_ids) for row in rows]
    scores = given_logprobs(module, texts)
    gaps = [np.subtract(score, samples[row].logprobs) for row, score in zip(rows, scores, strict=True)]
    return float(np.abs(np.concatenate(gaps)).max())
