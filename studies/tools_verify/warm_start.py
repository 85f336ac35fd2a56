"""The warm start: right demonstrations of all roles, then the same on the model's own wrong answers."""

from __future__ import annotations

import random
from functools import partial
from typing import Final

from mars_env.agents.tool_turn import NO_CALLS_LEFT
from mars_env.miniature.model import build_model, build_tokenizer
from mars_env.miniature.protocol import END, SPECIAL
from mars_env.models import HFModel
from mars_env.seeds import derive_seed
from studies.common.ledger import Frozen
from studies.common.subset_sum import subset_sum_problems
from studies.sums import protocol
from studies.sums.warm_start import Row, Stage, imitate, nearest, sampled, spoilt
from studies.tools_verify import agents

NAME: Final = "sums"
SET: Final = partial(subset_sum_problems, count=6, max_parts=3)
"""The problems: six numbers, of which two or three make the target."""


class WarmStart(Frozen):
    """All of the warm start; the shares are those of Solver, call, report, Corrector and the agent alone."""

    solved: int = 2000
    rows: int = 32
    stages: tuple[Stage, ...] = (
        Stage(name="roles", steps=700, learning_rate=3e-3, mix=(0.25, 0.1, 0.1, 0.3, 0.25)),
        Stage(name="own", steps=200, learning_rate=1.5e-3, mix=(0.15, 0.1, 0.1, 0.35, 0.3), own=True),
    )


def warm_start(seed: int, settings: WarmStart) -> HFModel:
    """A new model that knows all roles."""
    module = build_model(seed, len(agents.VOCABULARY))
    tokenizer = build_tokenizer(agents.VOCABULARY, SPECIAL, agents.PATTERN)
    problems = SET(seed=derive_seed(seed, "solved"))[: settings.solved]
    facts = [(p.statement, [int(n) for n in p.reference.split(", ")]) for p in problems]
    for stage in settings.stages:
        rng = random.Random(derive_seed(seed, "tools_verify", stage.name))
        if stage.own:
            facts = facts[: len(facts) // 4]
            tried = sampled(module, tokenizer, [text for text, _ in facts], seed)
        else:
            tried = [[protocol.stream(spoilt(*fact, rng)) for _ in range(2)] for fact in facts]
        rows: dict[str, list[Row]] = {name: [] for name in ("solver", "call", "report", "corrector", "alone")}
        for (text, right), wrong in zip(facts, tried, strict=True):
            demonstrate(rows, text, right, wrong, rng)
        imitate(module, tokenizer, stage, rows, settings.rows, rng)
    model = HFModel((module, tokenizer), device="cpu", name=NAME)
    model.refresh(version=0)
    return model


def demonstrate(
    rows: dict[str, list[Row]], text: str, right: list[int], tried: list[str], rng: random.Random
) -> None:
    """Add the demonstrations of a problem, given a right answer and tries, which may be right."""
    rows["solver"].append((protocol.prompt("solver", {"problem": text}), protocol.stream(right)))
    history, last = agents.alone_prompt({"problem": text}), right
    for answer in [*tried, protocol.stream(right)]:
        seen = {"problem": text, "solution": protocol.shown(answer)}
        judged = protocol.prompt("verifier", seen)
        numbers = protocol.numbers_in(answer)
        if not numbers:
            rows["report"].append((judged, protocol.MISSING + agents.WRONG))
            continue
        asked, said = agents.call(text, numbers), agents.report(text, numbers)
        rows["call"].append((judged, asked))
        rows["report"].append((judged + agents.result(asked), said))
        if said.endswith(agents.RIGHT):
            last = numbers
            continue
        better = nearest(text, answer, rng)
        corrected = protocol.prompt("corrector", {**seen, "report": said})
        rows["corrector"].append((corrected, protocol.stream(better)))
        history += agents.result(asked)  # tries that were wrong, one after the other
        rows["alone"].append((history, agents.call(text, better)))
        last = list(better)
    asked = agents.call(text, last)
    rows["alone"].append((history + agents.result(asked), protocol.stream(last)))
    refused = f"{asked}{END}{agents.RESULT}{NO_CALLS_LEFT}{agents.GO_ON}"
    rows["alone"].append((history + refused, protocol.stream(last)))
    rows["alone"].append((agents.alone_prompt({"problem": text}), agents.call(text, right)))
