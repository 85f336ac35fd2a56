"""The warm start on `subset-sum`: right demonstrations alone, of a limited number of solved problems."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Final

from transformers import PreTrainedTokenizerFast, Qwen3ForCausalLM

from mars_env.miniature.model import ModelSize, build_model, build_tokenizer
from mars_env.miniature.protocol import END, SPECIAL
from mars_env.models.hf import HFModel
from mars_env.seeds import derive_seed
from mars_env.sync import run_sync
from mars_env.types import Sampling
from studies.common.episodes import updates, written_losses
from studies.common.ledger import Frozen
from studies.common.subset_sum import subset_sum_problems
from studies.sums import protocol

ROLES: Final = ("solver", "verifier", "corrector")
Row = tuple[str, str]
"""A demonstration: what the role reads, and what it writes."""
Rows = Mapping[str, Sequence[Row]]


def subsets_with_sum(numbers: Sequence[int], target: int) -> list[tuple[int, ...]]:
    """All right answers, those of fewer numbers first.

    Example:
        >>> subsets_with_sum([2, 5, 7, 9, 10, 12, 15], 27)[:3]
        [(12, 15), (2, 10, 15), (5, 7, 15)]
    """
    sizes = range(1, len(numbers) + 1)
    return [subset for size in sizes for subset in combinations(numbers, size) if sum(subset) == target]


class Stage(Frozen):
    """One stage: shares of Solver, Verifier and Corrector rows.

    `reports` are further problems whose reports are shown; in an `own` stage the answers that are judged and
    corrected are the model's own.
    """

    name: str
    steps: int
    learning_rate: float
    mix: tuple[float, ...]
    reports: int = 0
    own: bool = False


class WarmStart(Frozen):
    """All of the warm start; `solved` problems are all that is ever shown of right answers."""

    solved: int = 2000
    rows: int = 64
    stages: tuple[Stage, ...] = (
        Stage(name="roles", steps=2000, learning_rate=3e-3, mix=(0.3, 0.45, 0.25)),
        Stage(name="reports", steps=800, learning_rate=2e-3, mix=(0.15, 0.7, 0.15), reports=40_000),
        Stage(name="own answers", steps=600, learning_rate=1.5e-3, mix=(0.15, 0.35, 0.5), own=True),
    )
    shape: tuple[int, int, int] = (64, 192, 3)


def warm_start(seed: int, settings: WarmStart) -> tuple[Qwen3ForCausalLM, PreTrainedTokenizerFast]:
    """A new model that has seen the demonstrations, and its tokenizer."""
    model = build_model(seed, len(protocol.VOCABULARY), ModelSize(*settings.shape))
    tokenizer = build_tokenizer(protocol.VOCABULARY, SPECIAL, protocol.PATTERN)
    for stage in settings.stages:
        learn(model, tokenizer, stage, seed, settings)
    return model, tokenizer


def learn(
    model: Qwen3ForCausalLM, tokenizer: PreTrainedTokenizerFast, stage: Stage, seed: int, settings: WarmStart
) -> None:
    """One stage, with an optimiser of its own."""
    rng = random.Random(derive_seed(seed, "sums", stage.name))
    rows = demonstrations(model, tokenizer, stage, seed, settings)
    imitate(model, tokenizer, stage, rows, settings.rows, rng)


def imitate(
    model: Qwen3ForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    stage: Stage,
    rows: Rows,
    count: int,
    rng: random.Random,
) -> None:
    """Updates of a stage on so many rows each; its shares are in the order of the roles of `rows`."""
    encoded = {role: [_encoded(tokenizer, row) for row in found] for role, found in rows.items()}
    for _ in updates(model, stage.steps, stage.learning_rate):
        drawn = rng.choices(list(encoded), stage.mix, k=count)
        for role, known in encoded.items():  # a forward pass for each role: less padding
            batch = [rng.choice(known) for _ in range(drawn.count(role))]
            if batch:
                loss = written_losses(model, batch).mean() * len(batch) / count
                loss.backward()  # type: ignore[no-untyped-call]


def demonstrations(
    model: Qwen3ForCausalLM, tokenizer: PreTrainedTokenizerFast, stage: Stage, seed: int, settings: WarmStart
) -> Rows:
    """The rows of a stage, by role."""
    rng = random.Random(derive_seed(seed, "sums", stage.name, "rows"))
    rows: dict[str, list[Row]] = {role: [] for role in ROLES}
    problems = subset_sum_problems(seed=derive_seed(seed, "solved"))[: settings.solved + stage.reports]
    facts = [(p.statement, [int(n) for n in p.reference.split(", ")]) for p in problems]
    solved = facts[: settings.solved]
    rows["solver"] = [(_prompt("solver", text), protocol.stream(right)) for text, right in solved]
    if stage.own:
        half = solved[: settings.solved // 2]
        judged = zip(half, sampled(model, tokenizer, [text for text, _ in half], seed), strict=True)
        pairs = [(text, right, wrong) for (text, right), found in judged for wrong in found]
    else:
        pairs = [(text, right, protocol.stream(spoilt(text, right, rng))) for text, right in facts]
        pairs += [(text, right, protocol.stream(right)) for text, right in facts]
    for number, (text, right, answer) in enumerate(pairs):
        shown = protocol.shown(answer)
        report = protocol.honest(text, shown)
        rows["verifier"].append((_prompt("verifier", text, solution=shown), report))
        among = stage.own or number < settings.solved
        if among and not report.endswith("Correct"):
            better = nearest(text, answer, rng) if stage.own else right
            seen = {"solution": shown, "report": report}
            rows["corrector"].append((_prompt("corrector", text, **seen), protocol.stream(better)))
    return rows


def _prompt(role: str, statement: str, **seen: str) -> str:
    return protocol.prompt(role, {"problem": statement, **seen})


def sampled(
    model: Qwen3ForCausalLM, tokenizer: PreTrainedTokenizerFast, statements: Sequence[str], seed: int
) -> list[list[str]]:
    """Four of the model's own answers to each problem."""
    playing = HFModel((model, tokenizer))
    sampling = Sampling(temperature=1.0, max_tokens=protocol.ANSWER_TOKENS)

    async def play() -> list[list[str]]:
        found = await asyncio.gather(
            *(
                playing.complete(_prompt("solver", text), 4, replace(sampling, seed=derive_seed(seed, i)))
                for i, text in enumerate(statements)
            )
        )
        return [[completion.text for completion in group] for group in found]

    return run_sync(play())


def spoilt(statement: str, right: Sequence[int], rng: random.Random) -> tuple[int, ...]:
    """A wrong answer: one to three numbers of a right one exchanged, dropped or added."""
    numbers, target = protocol.read_statement(statement)
    while True:
        wrong = list(right)
        for _ in range(rng.choice((1, 1, 2, 3))):
            others = [number for number in numbers if number not in wrong]
            edit = rng.choice("eeeda")
            if edit == "e" and wrong:
                stray = rng.random() > 0.97
                wrong[rng.randrange(len(wrong))] = (
                    rng.randint(1, max(numbers)) if stray else rng.choice(others)
                )
            elif edit == "d" and len(wrong) > 1:
                wrong.pop(rng.randrange(len(wrong)))
            elif edit == "a" and len(wrong) < protocol.ANSWER_TOKENS - 1:
                wrong.append(rng.choice(others))
        if sum(wrong) != target or len(set(wrong)) < len(wrong) or not set(wrong) <= set(numbers):
            return tuple(sorted(wrong))


def nearest(statement: str, answer: str, rng: random.Random) -> tuple[int, ...]:
    """The right answer that shares most numbers with a wrong one."""
    numbers, target = protocol.read_statement(statement)
    given = {int(piece) for piece in answer.split() if piece.isdecimal()}
    short = [right for right in subsets_with_sum(numbers, target) if len(right) < protocol.ANSWER_TOKENS]
    return max(short, key=lambda right: len({*right} & given) - 0.5 * len(right) + 0.1 * rng.random())


def _encoded(tokenizer: PreTrainedTokenizerFast, row: Row) -> tuple[list[int], list[int]]:
    read, written = row
    return list(tokenizer(read)["input_ids"]), list(tokenizer(written + END)["input_ids"])
