"""From a model and a batch to log-probabilities and entropies of the sampled tokens, in micro-batches.

One path for updates and for scoring, in two ways: rows padded side by side, or as a forest in which tokens
that rows share are computed once (`mars_env.trainers.prefixes`).
"""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.checkpoint import checkpoint
from transformers.modeling_layers import GradientCheckpointingLayer

from mars_env.models.batching import lock_of
from mars_env.models.hf_module import evaluation, validate_context
from mars_env.trainers import losses
from mars_env.trainers.batches import Batch, micro_batches
from mars_env.trainers.config import TrainConfig
from mars_env.trainers.prefixes import Forest, common, grow, reading_forests, sorted_rows

KEY_COST = 8
"""So many keys that a row reads in a forest take the memory of one of its tokens."""


def sampled_logprobs(model: Any, batch: Batch, config: TrainConfig, *, shared: bool) -> tuple[Tensor, Tensor]:
    """Log-probabilities and entropies of the sampled tokens, [S, T] on the device; 0 beyond the ends.

    The model is one of transformers, or an `Adapter`; the batch is on the CPU. If `shared`, what rows share
    is computed once, within `reading_forests`.
    """
    validate_context(model.config.get_text_config(decoder=True), batch.ids.shape[1])
    device = next(model.parameters()).device
    rows, columns = batch.mask.nonzero(as_tuple=True)
    places = batch.prompts[rows] + columns  # of the sampled tokens; the token before predicts each
    source: Forest | Tensor
    read: tuple[Tensor, ...]
    if shared:
        forest = grow(_rows(batch, 1))
        source, read = forest.to(device), (forest.places[rows, places - 1].to(device),)
    else:
        source, read = batch.ids[:, :-1].to(device), (rows.to(device), (places - 1).to(device))
    logp, entropy = logprobs_at(
        model, source, read, batch.ids[rows, places].to(device), batch.temperatures[rows].to(device), config
    )
    mask = batch.mask.to(device)
    blank = torch.zeros(mask.shape, device=device)
    return blank.masked_scatter(mask, logp), blank.masked_scatter(mask, entropy)


def logprobs_at(
    model: Any,
    source: Forest | Tensor,
    read: tuple[Tensor, ...],
    tokens: Tensor,
    temperatures: Tensor,
    config: TrainConfig,
) -> tuple[Tensor, Tensor]:
    """Log-probabilities and entropies of N tokens, after the states at `read` of a forest or rows."""
    with torch.autocast(tokens.device.type, torch.bfloat16, enabled=config.autocast):
        states = source.hidden(model) if isinstance(source, Forest) else plain_hidden(model, source)
        hidden = states[read]
    most = max(1, config.most_logits // model.get_output_embeddings().weight.shape[0])

    def scored(states: Tensor, tokens: Tensor, temperatures: Tensor) -> tuple[Tensor, Tensor]:
        return losses.logprobs_and_entropies(logits_of(model, states), tokens, temperatures)

    if len(hidden) <= most:
        return scored(hidden, tokens, temperatures)
    chunks = zip(*(torch.split(each, most) for each in (hidden, tokens, temperatures)), strict=True)
    values = [checkpoint(scored, *each, use_reentrant=False, preserve_rng_state=False) for each in chunks]
    logp, entropy = (torch.cat(each) for each in zip(*values, strict=True))
    return logp, entropy


def plain_hidden(model: Any, ids: Tensor) -> Tensor:
    """Last hidden states [S, L, D]. No mask is needed: padding is on the right, so no token attends to it."""
    return model.get_decoder()(input_ids=ids, use_cache=False).last_hidden_state


def logits_of(model: Any, hidden: Tensor) -> Tensor:
    """Logits in float32 of hidden states [N, D], also under autocast and of weights in 16 bits.

    GSPO's clip range is narrower than the rounding of logits in bfloat16.
    """
    head = model.get_output_embeddings()
    with torch.autocast(hidden.device.type, enabled=False):
        if type(head) is torch.nn.Linear:
            bias = None if head.bias is None else head.bias.float()
            return functional.linear(hidden.float(), head.weight.float(), bias)
        return head(hidden.to(head.weight.dtype)).float()


def cut(batch: Batch, token_budget: int, *, unit: int = 1, shared: bool = False) -> Iterator[Tensor]:
    """Row indices of micro-batches in a budget of tokens; `unit` neighbouring rows stay together."""
    total = (batch.prompts + batch.lengths).view(-1, unit)
    plain = micro_batches(total.amax(-1) * unit, token_budget)
    for units in _packed(batch, token_budget, unit) if shared else plain:
        yield (units.unsqueeze(-1) * unit + torch.arange(unit)).flatten()


def _packed(batch: Batch, token_budget: int, unit: int) -> Iterator[Tensor]:
    """Units of rows that begin alike, one after the other: a shared token counts once in the budget."""
    rows = _rows(batch, 0)
    units, alike = sorted_rows(rows[::unit])
    taken: list[int] = []
    spent = 0.0
    for index, shared in zip(units, alike, strict=True):
        unit_rows = rows[index * unit : (index + 1) * unit]
        reads = sum(map(len, unit_rows)) / KEY_COST
        alone = reads + len(unit_rows[0]) + sum(len(row) - common(unit_rows[0], row) for row in unit_rows[1:])
        beside = alone - shared
        if taken and spent + beside > token_budget:
            yield torch.tensor(taken)
            taken, spent, beside = [], 0.0, alone
        taken.append(index)
        spent += beside
    yield torch.tensor(taken)


def _rows(batch: Batch, left_out: int) -> list[np.ndarray[Any, Any]]:
    ids, lengths = batch.ids.numpy(), (batch.prompts + batch.lengths).tolist()
    return [row[: length - left_out] for row, length in zip(ids, lengths, strict=True)]


@contextmanager
def _exact(model: Any, *, shared: bool) -> Iterator[None]:
    with lock_of(model), evaluation(model), reading_forests(model) if shared else nullcontext():
        yield


@torch.no_grad()
def score(model: Any, batch: Batch, config: TrainConfig, *, shared: bool) -> Tensor:
    """Log-probabilities of a whole batch under a model, [S, T] on the CPU."""
    scores = torch.zeros(batch.rollout.shape)
    with _exact(model, shared=shared):
        for rows in cut(batch, config.token_budget, shared=shared):
            logp, _ = sampled_logprobs(model, batch.rows(rows), config, shared=shared)
            scores[rows, : logp.shape[1]] = logp.cpu()
    return scores


@contextmanager
def training(model: Any, *, shared: bool) -> Iterator[None]:
    """Around forward and backward passes of an update.

    Some layers are computed again in the backward pass, so an adapter stays switched on.
    """
    layers = [
        layer
        for layer in model.modules()
        if isinstance(layer, GradientCheckpointingLayer) and layer.gradient_checkpointing
    ]
    switched = model.switched_on() if hasattr(model, "switched_on") else nullcontext()
    with _exact(model, shared=shared), switched:
        for layer in layers:
            layer.forward = partial(checkpoint, layer.forward, use_reentrant=False)
        try:
            yield
        finally:
            for layer in layers:
                del layer.forward
