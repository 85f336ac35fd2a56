"""The study on `subset-sum`: train an arm from a warm start of right demonstrations, beside its baselines."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

from pydantic import PositiveInt

from mars_env import load_problems
from mars_env.envs import Game, GroupedSettings, SolveVerifyCorrect
from mars_env.envs.solve_verify_correct import TRAINING, Schedule
from mars_env.envs.verdicts import read_judgement
from mars_env.grading import grader_for
from mars_env.miniature.experiment import metrics_of
from mars_env.models.hf import HFModel
from mars_env.problems import ProblemSet
from mars_env.seeds import derive_seed
from mars_env.trainers.recipes import RunSettings
from mars_env.trainers.team import SampledModel
from mars_env.types import Agent, Problem, Verdict, role_of
from studies.common.episodes import learned, played_often, warm_started
from studies.common.ledger import Frozen
from studies.common.study import recorded_config
from studies.sums import protocol
from studies.sums.agents import SumsAgent, honest_report
from studies.sums.warm_start import Stage, WarmStart, learn, warm_start


@dataclass(frozen=True, slots=True)
class Arm:
    """One way to continue after the warm start: roles trained with rewards (None: all), or more supervision.

    `report`: whether the Verifier is paid for what its report states, not for its verdict alone.
    """

    name: str
    title: str
    roles: tuple[str, ...] | None
    report: bool = True
    supervised: bool = False


ARMS: Final = (
    Arm("none", "the warm start", ()),
    Arm("solver", "Solver only", ("solver",)),
    Arm("verifier+corrector", "Verifier and Corrector only", ("verifier", "corrector")),
    Arm("all", "all three", None),
    Arm(
        "all, verdict only",
        "all three, the Verifier paid for its verdict alone, as in the paper",
        None,
        report=False,
    ),
    Arm("supervised", "the last supervised stage continued instead of rewards", (), supervised=True),
)


class SumsRecipe(Frozen):
    """Every number of the study."""

    warm_start: WarmStart = WarmStart()
    inference: Schedule = Schedule(rounds=2, accept_after=1)
    """S, V, C, V, C, V at most; one pass accepts."""
    marsrl: RunSettings = RunSettings(
        steps=200,
        problems_per_step=10,
        rollouts=GroupedSettings(group=8, branches=2, sampling="balanced"),
        train=recorded_config(
            learning_rate=3e-4,
            warmup_updates=5,
            old_logprobs="trainer",
        ),
    )
    more: Stage = Stage(name="more", steps=2000, learning_rate=1.5e-3, mix=(0.15, 0.35, 0.5), own=True)
    """The control: the last stage again, on the same solved problems."""
    evaluation_problems: PositiveInt = 1000
    attempts: PositiveInt = 16
    """Fresh attempts per held-out problem; votes and retries take what the System's tokens buy."""


RECIPE: Final = SumsRecipe()
QUICK: Final = SumsRecipe(
    warm_start=WarmStart(
        solved=64,
        stages=tuple(
            stage.model_copy(update={"steps": 3, "reports": min(stage.reports, 64)})
            for stage in WarmStart().stages
        ),
    ),
    marsrl=RECIPE.marsrl.model_copy(update={"steps": 2, "problems_per_step": 2}),
    more=RECIPE.more.model_copy(update={"steps": 3}),
    evaluation_problems=20,
    attempts=4,
)
"""A few steps and problems: everything runs. Its figures mean nothing."""


async def train_arm(
    arm: Arm, seed: int, recipe: SumsRecipe, cache: Path
) -> tuple[HFModel, list[Mapping[str, float | None]]]:
    """The model after an arm's training, and the mean reward by role of each step."""
    model = warm_started(cache / f"sums-{seed}", "sums", partial(warm_start, seed, recipe.warm_start))
    if arm.supervised:
        learn(model.module, model.tokenizer, recipe.more, seed, recipe.warm_start)
        model.refresh()
    if arm.roles == ():
        return model, []
    game = Game(SolveVerifyCorrect(TRAINING), grader_for("math"))
    if arm.report:
        game = replace(game, rewards={**game.rewards, "verifier": honest_report})
    config = recipe.marsrl.train.model_copy(update={"train_roles": arm.roles})
    settings = recipe.marsrl.model_copy(update={"seed": seed, "train": config})

    def agent(name: str, own: SampledModel) -> SumsAgent:
        return SumsAgent(role_of(name), own, policy=own.name)

    history = await learned(
        model, game, load_problems("subset-sum", seed=seed, split="train"), settings, agent
    )
    return model, [{role: row.get("reward") for role, row in step.roles.items()} for step in history]


def held_out(seed: int, recipe: SumsRecipe = RECIPE) -> ProblemSet:
    """The evaluation problems of a seed; none of them is in a training set."""
    return load_problems("subset-sum", n=recipe.evaluation_problems, seed=seed, split="test")


async def figures_of(
    agents: Mapping[str, Agent], problems: ProblemSet, inference: Schedule, attempts: int, seed: int
) -> dict[str, float]:
    """The team's figures, and what the same tokens buy otherwise: votes, and fresh retries."""
    game = Game(SolveVerifyCorrect(inference), grader_for("math"))
    trees = await played_often(game, agents, problems, 1, seed)
    figures = {name: e.value for name, e in metrics_of(trees).items() if e.value is not None}
    tried = await asyncio.gather(
        *(
            _attempts(agents, problem, attempts, derive_seed(seed, "attempts", i))
            for i, problem in enumerate(problems)
        )
    )
    return figures | baselines(tried, figures["tokens"])


@dataclass(frozen=True, slots=True)
class Attempt:
    """A fresh attempt (None: no list of numbers), the Verifier's judgement, and the tokens of both."""

    answer: tuple[int, ...] | None
    right: bool
    accepted: bool
    tokens: int
    report_tokens: int


async def _attempts(agents: Mapping[str, Agent], problem: Problem, n: int, seed: int) -> list[Attempt]:
    grader = grader_for("math")
    seen = {"problem": problem.statement}
    solutions = await agents["solver_0"].act(seen, n=n, seed=seed)
    reports = await asyncio.gather(
        *(
            agents["verifier_0"].act({**seen, "solution": s.text}, n=1, seed=derive_seed(seed, "report", i))
            for i, s in enumerate(solutions)
        )
    )
    found = []
    for solution, [report] in zip(solutions, reports, strict=True):
        pieces = protocol.read(solution.text, protocol.ANSWER_TOKENS).split()
        readable = bool(pieces) and all(piece.isdecimal() for piece in pieces)
        grade = await grader.grade(problem, solution.text)
        found.append(
            Attempt(
                tuple(sorted(map(int, pieces))) if readable else None,
                grade.verdict is Verdict.CORRECT,
                read_judgement(report.text).passed,
                sum(each.sampled_tokens for each in solution.completions),
                sum(each.sampled_tokens for each in report.completions),
            )
        )
    return found


def baselines(attempts: Sequence[Sequence[Attempt]], budget: float) -> dict[str, float]:
    """Accuracy and tokens of a vote, a weighted vote and fresh retries at a budget of tokens a problem."""
    figures: dict[str, float] = {}
    ways = {"majority": _majority, "weighted": _weighted, "fresh": _fresh}
    most = min(map(len, attempts))
    for name, way in ways.items():
        for n in range(1, most + 1):
            played = [way(found[:n]) for found in attempts]
            tokens = math.fsum(spent for _, spent in played) / len(played)
            if tokens >= budget or n == most:
                figures[f"baseline_{name}"] = sum(right for right, _ in played) / len(played)
                figures[f"baseline_{name}_tokens"] = tokens
                figures[f"baseline_{name}_attempts"] = float(n)
                break
    return figures


def _majority(attempts: Sequence[Attempt]) -> tuple[bool, int]:
    votes = Counter(a.answer for a in attempts if a.answer is not None)
    return _voted(attempts, votes), sum(a.tokens for a in attempts)


def _weighted(attempts: Sequence[Attempt]) -> tuple[bool, int]:
    """Accepted answers count first, then all."""
    votes = Counter(a.answer for a in attempts if a.answer is not None)
    accepted = Counter(a.answer for a in attempts if a.answer is not None and a.accepted)
    for answer in votes:
        votes[answer] += accepted[answer] * (len(attempts) + 1)
    return _voted(attempts, votes), sum(a.tokens + a.report_tokens for a in attempts)


def _voted(attempts: Sequence[Attempt], votes: Counter[tuple[int, ...]]) -> bool:
    if not votes:
        return False
    chosen = max(votes, key=lambda answer: votes[answer])  # the earliest in a tie
    return any(a.right for a in attempts if a.answer == chosen)


def _fresh(attempts: Sequence[Attempt]) -> tuple[bool, int]:
    """The first accepted attempt; if there is none, the first attempt, as in the System."""
    last = next((i for i, a in enumerate(attempts) if a.accepted), len(attempts) - 1)
    tokens = sum(a.tokens + a.report_tokens for a in attempts[: last + 1])
    return attempts[last if attempts[last].accepted else 0].right, tokens
