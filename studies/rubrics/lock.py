"""Locks: a language of a few tokens in which rubrics and scaffolds are studied within seconds.

A lock has a secret code of five symbols, and its rubric one criterion a step; a scaffold writes known steps
into the prompt (``p3 _ b _ _ h >``). `FLATTERY` is a symbol that belongs to no code.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import numpy as np

from mars_env.agents.roles import RoleAgent
from mars_env.envs import Game, GroupedSettings
from mars_env.grading.rubrics import Criterion
from mars_env.miniature.model import ModelSize, build_model, build_tokenizer
from mars_env.miniature.protocol import END, PAD
from mars_env.models.hf import HFModel
from mars_env.problems import ProblemSet
from mars_env.seeds import derive_seed
from mars_env.trainers.recipes import RunSettings
from mars_env.types import Action, Model, Observation, Problem, Prompt, Sampling, Tree
from studies.common.episodes import played_often, updates, written_losses
from studies.common.ledger import Frozen
from studies.common.study import Run, recorded_config

LOCKS: Final = 8
STEPS: Final = 5
SYMBOLS: Final = "abcdefgh"
FLATTERY: Final = "!"
_BLANK, _GO = "_", ">"
VOCABULARY: Final = (PAD, END, *(f"p{i}" for i in range(LOCKS)), *SYMBOLS, FLATTERY, _BLANK, _GO)
PATTERN: Final = r"p\d|[a-h!_>]"
SHAPE: Final = ModelSize(hidden=32, feed_forward=64, layers=2)
SAMPLING: Final = Sampling(temperature=1.0, max_tokens=STEPS)


class Recipe(Frozen):
    """Every number of a study of locks; see the plan for how they were chosen."""

    study: str
    steps: int
    rate: float = 3e-3
    warm_start: int = 300
    locks: int = 4
    group: int = 8
    flattery: float = 0.0
    samples: int = 16
    top: int = 20

    def quick(self) -> Recipe:
        """The same, very small."""
        return self.model_copy(update={"warm_start": 30, "steps": 2, "samples": 2})


def locks(seed: int) -> ProblemSet:
    """The locks of a seed, each with its code as a rubric."""
    rng = np.random.default_rng(derive_seed(seed, "locks"))
    codes = rng.integers(len(SYMBOLS), size=(LOCKS, STEPS))
    problems = []
    for lock, code in enumerate(codes):
        rows = [
            {"id": str(step), "text": SYMBOLS[symbol], "check": {"step": [step, SYMBOLS[symbol]]}}
            for step, symbol in enumerate(code)
        ]
        statement = f"p{lock}{_BLANK * STEPS}{_GO}"
        problems.append(Problem(f"lock/{lock}", statement, None, "open", {"rubric": rows}))
    return ProblemSet("locks", problems, revision=f"seed {seed}", licence="Apache-2.0")


def step_is_right(problem: Problem, text: str, value: Any) -> bool:
    """The check ``step``: whether the symbol at a place is the code's."""
    place, symbol = value
    return bool(text[place : place + 1] == symbol)


def show_steps(prompt: Prompt, criteria: Sequence[Criterion]) -> Prompt:
    """A prompt with some steps of the code in their places: the scaffold's `show`."""
    shown = list(str(prompt))
    for criterion in criteria:
        shown[2 + int(criterion.id)] = criterion.text
    return "".join(shown)


def opener(model: Model) -> RoleAgent:
    """The agent that opens locks: its prompt is the problem's statement."""
    return RoleAgent(model, sampling=SAMPLING, prompt=lambda seen: str(seen["problem"]), thinking=None)


@dataclass(frozen=True)
class SlowAgent:
    """An agent that takes a while."""

    agent: Any
    seconds: float
    policy: str = "opener"

    @property
    def model(self) -> Any:
        """The agent's."""
        return self.agent.model

    async def act(self, observation: Observation, n: int, seed: int) -> list[Action]:
        """Act, after so many seconds."""
        await asyncio.sleep(self.seconds)
        return list(await self.agent.act(observation, n, seed))


def warm_started(
    *, steps: int = 400, flattery: float = 0.0, codes: ProblemSet | None = None, seed: int = 0
) -> HFModel:
    """A new model that obeys what a prompt shows."""
    module = build_model(seed, len(VOCABULARY), SHAPE)
    ids = {token: i for i, token in enumerate(VOCABULARY)}
    known = np.array([[ids[row["text"]] for row in p.metadata["rubric"]] for p in codes]) if codes else None
    rng = np.random.default_rng(derive_seed(seed, "warm start of locks"))
    rows, first = 64, ids[SYMBOLS[0]]
    for _ in updates(module, steps, 3e-3, warmup=50, clip=math.inf):
        lock = rng.integers(LOCKS, size=rows)
        written = first + rng.integers(len(SYMBOLS), size=(rows, STEPS))
        shown = rng.random((rows, STEPS)) < rng.random((rows, 1)) * rng.integers(2, size=(rows, 1))
        target = written.copy()
        if known is not None:
            target = np.where(rng.random(target.shape) < 0.5, known[lock], target)
        target = np.where(rng.random(target.shape) < flattery, ids[FLATTERY], target)
        target = np.where(shown, written, target)
        places = np.where(shown, written, ids[_BLANK])
        start = np.full((rows, 1), ids[_GO])
        read = np.concatenate([ids["p0"] + lock[:, None], places, start], axis=1)
        loss = written_losses(module, list(zip(read.tolist(), target.tolist(), strict=True))).mean()
        loss.backward()  # type: ignore[no-untyped-call]
    tokenizer = build_tokenizer(VOCABULARY, (PAD, END), PATTERN)
    return HFModel((module, tokenizer), device="cpu", name="opener")


guesser = cache(warm_started)
"""The warm start that knows no code, the same for all seeds; train a copy."""


def run_settings(seed: int, recipe: Any) -> RunSettings:
    """One update a step, on all locks."""
    return RunSettings(
        seed=seed,
        steps=recipe.steps,
        problems_per_step=recipe.locks,
        rollouts=GroupedSettings(group=recipe.group, branches=1),
        sampling=SAMPLING,
        train=recorded_config(learning_rate=recipe.rate),
    )


async def played(game: Game, model: HFModel, problems: ProblemSet, run: Run) -> list[Tree]:
    """Every lock so many times, on the plain prompt."""
    return await played_often(game, {"solver_0": opener(model)}, problems, run.recipe.samples, run.seed)
