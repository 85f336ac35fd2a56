"""Rows that begin alike, read once: samples of a group share a prompt, calls of a tool continue each other.

`grow` turns rows of token ids into a forest: segments of tokens, each after the segment that it continues. A
model computes every token of the forest once; in its attention each segment reads the keys and values of the
segments before it and its own, so gradients flow into what rows share.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils._pytree import tree_map_only
from transformers.cache_utils import DynamicCache, DynamicLayer
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

LEAST: Final = 16
"""A shared part is its own segment if this many tokens are saved: each segment costs an attention call or a
place in one."""

_NAME: Final = "mars_env_forest"
_WASTE: Final = 1.25
_SMALL: Final = 1 << 14
"""Products of queries and keys that cost about as much as another call of attention."""

Ints = NDArray[np.int64]


class Block(NamedTuple):
    """Segments that are attended to together: n (`size`) of them, T tokens and K keys at most.

    Attributes:
        queries: [n T] places of the tokens, 0 beyond a segment's end.
        keys: [n K] places of the tokens that they may see: their path's from the root, and their own.
        visible: [n, 1, T, K] whether a query sees a key; None: the usual triangle.
    """

    queries: Tensor
    keys: Tensor
    visible: Tensor | None
    size: int


class Forest(NamedTuple):
    """N distinct tokens (`ids`) of S rows of at most L tokens.

    Attributes:
        positions: [N] place of each token in its rows.
        places: [S, L] where each row's tokens are in the forest; 0 beyond a row's end.
        blocks: How their attention is computed.
        order: [N] where each token is in the blocks' queries, one after the other.
    """

    ids: Tensor
    positions: Tensor
    places: Tensor
    blocks: tuple[Block, ...]
    order: Tensor

    def to(self, device: torch.device) -> "Forest":
        """The same forest on a device."""
        return tree_map_only(Tensor, lambda each: each.to(device), self)

    def hidden(self, model: Any) -> Tensor:
        """The last hidden states of all tokens, [N, D], by a model within `reading_forests`."""
        states: Tensor = model.get_decoder()(
            input_ids=self.ids[None],
            position_ids=self.positions[None],
            attention_mask=self.ids.new_zeros(1, 1, 1, 1),  # four dimensions: transformers makes no mask
            use_cache=False,
            forest=self,
        ).last_hidden_state
        return states[0]


def sorted_rows(rows: Sequence[Ints]) -> tuple[list[int], list[int]]:
    """Rows in the order of their tokens, and with how many tokens each begins like the one before it.

    Example:
        >>> sorted_rows([np.array([2, 3, 4]), np.array([1]), np.array([2, 3, 1, 1])])
        ([1, 2, 0], [0, 0, 2])
    """
    order = sorted(range(len(rows)), key=lambda i: rows[i].astype(">u4").tobytes())
    return order, [0, *(common(rows[i], rows[j]) for i, j in pairwise(order))]


def common(one: Ints, other: Ints) -> int:
    """With how many equal tokens two rows begin."""
    length = min(len(one), len(other))
    differing = np.flatnonzero(one[:length] != other[:length])
    return int(differing[0]) if len(differing) else length


def grow(rows: Sequence[Ints], least: int = LEAST) -> Forest:
    """The forest of some rows of token ids, each of at least one token, on the CPU.

    A part that rows share is computed once if that saves at least `least` tokens.

    Example:
        >>> forest = grow([np.array([5, 6, 7]), np.array([5, 6, 8, 9])], least=1)
        >>> forest.ids.tolist(), forest.positions.tolist(), forest.places.tolist()
        ([5, 6, 7, 8, 9], [0, 1, 2, 2, 3], [[0, 1, 2, 0], [0, 1, 3, 4]])
    """
    places = np.zeros((len(rows), max(map(len, rows))), np.int64)
    segments: list[tuple[int, int, int]] = []
    ids: list[Ints] = []
    count = 0
    for members, start, end in _segments(rows, least):
        segments.append((members[0], start, end))
        ids.append(rows[members[0]][start:end])
        places[members, start:end] = np.arange(count, count + end - start)
        count += end - start
    blocks, order = _blocks(segments, places, count)
    positions = np.concatenate([np.arange(start, end) for _, start, end in segments])
    arrays = (np.concatenate(ids), positions, places, order)
    tokens, where, row_places, ordered = map(torch.from_numpy, arrays)
    return Forest(tokens, where, row_places, tuple(blocks), ordered)


def _segments(rows: Sequence[Ints], least: int) -> Iterator[tuple[list[int], int, int]]:
    """Segments, those that others continue first: the rows that share one, its start and end in them."""
    order, shared = sorted_rows(rows)
    pending = [(0, len(order), 0)]  # rows of the sorted order, and where their part that is left begins
    while pending:
        low, high, start = pending.pop()
        members = order[low:high]
        end = min(shared[low + 1 : high], default=len(rows[members[0]]))
        if high - low == 1 or (end - start) * (len(members) - 1) >= least:
            if end > start:
                yield members, start, end
            start = end
        if high - low > 1:
            cuts = [low, *(i for i in range(low + 1, high) if shared[i] <= end), high]
            pending += [(a, b, start) for a, b in pairwise(cuts)][::-1]


def _blocks(segments: Sequence[tuple[int, int, int]], places: Ints, count: int) -> tuple[list[Block], Ints]:
    """Segments of like size together, as long as padding is a small part of the work."""
    groups: list[list[tuple[int, int, int]]] = []
    work = 0
    for segment in sorted(segments, key=lambda s: (s[1] > 0, s[2], s[1])):
        _, start, end = segment
        own = (end - start) * end
        tokens = max((e - s for _, s, e in groups[-1]), default=0) if groups else 0
        padded = (len(groups[-1]) + 1) * max(tokens, end - start) * end if groups else 0
        if groups and (start > 0) == (groups[-1][0][1] > 0) and padded <= _WASTE * (work + own) + _SMALL:
            groups[-1].append(segment)
            work += own
        else:
            groups.append([segment])
            work = own
    order, begun = np.zeros(count, np.int64), 0
    blocks = []
    for group in groups:
        starts, ends = (np.array([segment[i] for segment in group]) for i in (1, 2))
        tokens, keys = int((ends - starts).max()), int(ends.max())
        reads = np.zeros((len(group), keys), np.int64)
        asks = np.zeros((len(group), tokens), np.int64)
        for i, (row, start, end) in enumerate(group):
            reads[i, :end] = places[row, :end]
            asks[i, : end - start] = places[row, start:end]
            order[asks[i, : end - start]] = begun + i * tokens + np.arange(end - start)
        begun += asks.size
        visible = None
        if starts.any():
            reach = torch.from_numpy(starts)[:, None] + torch.arange(tokens)
            visible = (torch.arange(keys) <= reach[..., None])[:, None]
        queries, read = torch.from_numpy(asks.ravel()), torch.from_numpy(reads.ravel())
        blocks.append(Block(queries, read, visible, len(group)))
    return blocks, order


def _attend(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Any,
    *,
    forest: Forest | None = None,
    **options: Any,
) -> tuple[Tensor, None]:
    attend = ALL_ATTENTION_FUNCTIONS["sdpa"]
    if forest is None:
        return attend(module, query, key, value, mask, **options)
    tokens = [each[0].transpose(0, 1).flatten(1) for each in (query, key, value)]  # [N, heads x width] each
    heads = [each.shape[1] for each in (query, key, value)]
    heard = []
    for block in forest.blocks:
        parts = [
            flat.index_select(0, index).view(block.size, -1, count, flat.shape[1] // count).transpose(1, 2)
            for flat, count, index in zip(tokens, heads, (block.queries, block.keys, block.keys), strict=True)
        ]
        heard.append(attend(module, *parts, block.visible, **options)[0].flatten(2).flatten(0, 1))
    return torch.cat(heard).index_select(0, forest.order).view(1, query.shape[2], heads[0], -1), None


ALL_ATTENTION_FUNCTIONS.register(_NAME, _attend)
ALL_MASK_ATTENTION_FUNCTIONS.register(_NAME, ALL_MASK_ATTENTION_FUNCTIONS["sdpa"])


@contextmanager
def reading_forests(model: Any) -> Iterator[None]:
    """A model of transformers computes forests in here; all else it computes as before."""
    config = model.config
    before = config._attn_implementation
    config._attn_implementation = _NAME
    try:
        yield
    finally:
        config._attn_implementation = before


@torch.no_grad()
def can_share(model: Any) -> bool:
    """Whether a model computes a forest as it does single rows.

    Not if its layers do not attend to all tokens (sliding windows, linear attention), and not if its
    attention is its own (soft-capped, learned biases of distance).
    """
    layers = DynamicCache(config=model.config).layers
    if not layers or any(type(layer) is not DynamicLayer for layer in layers):
        return False
    vocabulary, device = model.get_input_embeddings().num_embeddings, next(model.parameters()).device
    table = torch.arange(3 * 12, device=device).view(3, 12).remainder(max(1, vocabulary - 1))
    table[1, :6], table[2, :9] = table[0, :6], table[1, :9]
    plain = model.get_decoder()(input_ids=table, use_cache=False).last_hidden_state
    try:
        with reading_forests(model):
            forest = grow(list(table.cpu().numpy()), least=1).to(device)
            shared = forest.hidden(model)[forest.places]
    except (TypeError, ValueError, RuntimeError):
        return False
    scale = float(plain.float().abs().max())
    return bool((plain - shared).float().abs().max() <= 32 * torch.finfo(plain.dtype).eps * scale)
