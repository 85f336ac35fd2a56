"""The warm start of the miniature of MARS2: a new model learns to write and to edit programs.

A model's *lean* is how often the first register (arithmetic), not the second (bits), has the program.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import torch
import torch.nn.functional as F
from transformers import PreTrainedTokenizerFast, Qwen3ForCausalLM

from mars_env.miniature.model import ModelSize, build_model, build_tokenizer
from mars_env.problems.generated import split_of
from mars_env.seeds import derive_seed
from studies.common.episodes import updates
from studies.common.ledger import Frozen
from studies.common.nibbles import (
    PUBLIC,
    Nibbles,
    is_varied,
    nibble_examples,
    nibble_table,
    shown_inputs,
)
from studies.mars2 import protocol as p

TOKEN_IDS: Final = {token: i for i, token in enumerate(p.VOCABULARY)}


class WarmStart(Frozen):
    """How a model is warm-started.

    The learning rate is the peak, reached after an eighth of the updates; a register's program has `least` to
    `most` operations, a share `mix` of them from its own family; `shown` outputs of it are shown.
    """

    shape: tuple[int, int, int] = (96, 256, 2)
    updates: int = 180
    rows: int = 192
    learning_rate: float = 3e-3
    least: int = 1
    most: int = 3
    mix: float = 0.85
    shown: int = len(PUBLIC)


@dataclass(frozen=True, slots=True)
class Demonstration:
    """A prompt and what to write after it, in tokens."""

    prompt: tuple[str, ...]
    completion: tuple[str, ...]


def coder_tokenizer() -> PreTrainedTokenizerFast:
    """The tokenizer of the language."""
    return build_tokenizer(p.VOCABULARY, p.SPECIAL, p.PATTERN)


def draw(rng: random.Random, lean: float, settings: WarmStart) -> p.Pair:
    """Draw a program of the split ``"train"``: the first register has a chain with probability `lean`."""
    source = Nibbles(settings.least, settings.most, settings.mix, settings.shown)
    public = shown_inputs(settings.shown)
    while True:
        u = source.chain(rng, arithmetic=True) if rng.random() < lean else []
        v = source.chain(rng, arithmetic=False) if rng.random() < 1 - lean else []
        tables = [nibble_table(names) for names in (u, v)]
        fit = all(not names or is_varied(table) for names, table in zip((u, v), tables, strict=True))
        if (u or v) and fit and split_of(nibble_examples(tables, public)) == "train":
            return p.Pair(tuple(u), tuple(v))


def demonstrate(rng: random.Random, lean: float, settings: WarmStart, refine: bool) -> Demonstration:
    """One demonstration: a fresh program, or an edit of a program that is wrong in one register or both.

    One in eight edits is shown without feedback and rewrites everything; one in sixteen programs is right.
    """
    target = draw(rng, lean, settings)
    role = rng.randrange(p.ROLES)
    public = shown_inputs(settings.shown)
    examples = _examples(target, public)
    if not refine:
        return Demonstration((*examples, p.GENERATE[role]), (*target.lines, p.END))
    if rng.random() < 1 / 16:
        return Demonstration((*examples, p.OLD, *target.lines, p.PASSED, p.REFINE[role]), (p.END,))
    old = _spoilt(rng, target, draw(rng, lean, settings))
    failed = _first_failure(old, target, public)
    if failed is None or rng.random() < 1 / 8:
        edit, seen = target.lines, p.NOTHING
    else:
        register = p.FAILS.index(failed) // len(PUBLIC)
        edit, seen = p.Pair(target.u if register == 0 else (), target.v if register else ()).lines, failed
    return Demonstration((*examples, p.OLD, *old.lines, seen, p.REFINE[role]), (*edit, p.END))


def _examples(pair: p.Pair, public: Sequence[int] = PUBLIC) -> list[str]:
    tables = nibble_table(pair.u), nibble_table(pair.v)
    return [f"f({x}, {r}) = {tables[r][x]}\n" for r in (0, 1) for x in public]


def _first_failure(old: p.Pair, target: p.Pair, public: Sequence[int]) -> str | None:
    fails = [f"f({x}, {r}) fails\n" for r in (0, 1) for x in public]
    pairs = zip(_examples(old, public), _examples(target, public), fails, strict=True)
    return next((failed for was, wanted, failed in pairs if was != wanted), None)


def _spoilt(rng: random.Random, target: p.Pair, other: p.Pair) -> p.Pair:
    """The target with one of its chains wrong, or both."""
    which = [bool(target.u), bool(target.v)]
    if all(which) and (kept := rng.randrange(3)) < 2:
        which[kept] = False
    chains = [_wrong(rng, chain, new) for chain, new in ((target.u, other.u), (target.v, other.v))]
    return p.Pair(chains[0] if which[0] else target.u, chains[1] if which[1] else target.v)


def _wrong(rng: random.Random, chain: tuple[str, ...], other: tuple[str, ...]) -> tuple[str, ...]:
    if not chain or (other and rng.random() < 2 / 3):
        return other
    names = list(chain)
    names[rng.randrange(len(names))] = rng.choice(p.OPERATIONS)
    return tuple(names)


def loss_sum(model: Qwen3ForCausalLM, rows: Sequence[Demonstration]) -> tuple[torch.Tensor, int]:
    """The cross-entropy of some demonstrations, summed over tokens, and their number."""
    ids = [torch.tensor([TOKEN_IDS[t] for t in (*row.prompt, *row.completion)]) for row in rows]
    tokens = torch.nn.utils.rnn.pad_sequence(ids, batch_first=True, padding_value=TOKEN_IDS[p.PAD])
    written = torch.zeros(tokens.shape, dtype=torch.bool)
    for i, row in enumerate(rows):
        written[i, len(row.prompt) : len(row.prompt) + len(row.completion)] = True
    # Rows are padded on the right and attention is causal: no mask is needed.
    hidden = model.model(input_ids=tokens[:, :-1], use_cache=False).last_hidden_state[written[:, 1:]]
    losses = F.cross_entropy(model.lm_head(hidden), tokens[:, 1:][written[:, 1:]], reduction="sum")
    return losses, int(written.sum())


def warm_start(
    seed: int, lean: float, settings: WarmStart
) -> tuple[Qwen3ForCausalLM, PreTrainedTokenizerFast]:
    """A new model after its warm start."""
    model = build_model(derive_seed(seed, "weights") % 2**31, len(p.VOCABULARY), ModelSize(*settings.shape))
    rng = random.Random(derive_seed(seed, "demonstrations"))
    half = settings.rows // 2
    steps = settings.updates
    for _ in updates(model, steps, settings.learning_rate, warmup=steps / 8, fused=True):
        for refine in (False, True):  # a forward pass for each: less padding
            rows = [demonstrate(rng, lean, settings, refine) for _ in range(half)]
            loss, count = loss_sum(model, rows)
            (loss / (2 * count)).backward()  # type: ignore[no-untyped-call]
    return model.eval(), coder_tokenizer()
