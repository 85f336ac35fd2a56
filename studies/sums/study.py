"""A natural task: subset sums, with fresh retries at equal tokens as the bar."""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from pydantic import PositiveInt

from mars_env.envs import Game, GroupedSettings, solve_verify_correct
from mars_env.envs.verdicts import read_judgement
from mars_env.models.hf import HFModel
from mars_env.problems import ProblemSet
from mars_env.seeds import derive_seed
from mars_env.trainers.recipes import RunSettings
from mars_env.types import Action, Agent, Problem, Verdict, role_of
from studies.common.claims import Claim
from studies.common.episodes import learned, metrics_of, played_often, warm_started
from studies.common.ledger import Frozen, LedgerRow
from studies.common.pages import ANSWERS, REPAIRS, SOLVER, SYSTEM
from studies.common.study import Result, Run, Study, arm_by_arm, recorded_config
from studies.common.subset_sum import GRADER, subset_sum_problems
from studies.sums import protocol
from studies.sums.protocol import SumsAgent, honest_report, team
from studies.sums.warm_start import Stage, WarmStart, learn, warm_start


@dataclass(frozen=True, slots=True)
class Arm:
    """One way to continue after the warm start: roles trained with rewards (None: all), or more supervision.

    `report`: whether the Verifier is paid for what its report states, not for its verdict alone.
    """

    roles: tuple[str, ...] | None
    report: bool = True
    supervised: bool = False


ARMS: Final[Mapping[str, Arm]] = {
    "none": Arm(()),
    "solver": Arm(("solver",)),
    "verifier+corrector": Arm(("verifier", "corrector")),
    "all": Arm(None),
    "all, verdict only": Arm(None, report=False),  # as in the paper
    "supervised": Arm((), supervised=True),  # the last stage of the warm start, continued
}
FRESH: Final = "baseline_fresh"
COLUMNS: Final = {
    **ANSWERS,
    FRESH: "fresh retries",
    "baseline_majority": "majority vote",
    "baseline_weighted": "weighted vote",
    **REPAIRS,
}
CLAIMS = (
    Claim("the bar: after joint training, System above fresh retries", "all", SYSTEM, "all", FRESH),
    Claim("before training, System above Solver", "none", SYSTEM, "none", SOLVER),
    Claim("joint training improves the System", "all", SYSTEM, "none"),
    Claim("joint training improves the Solver", "all", SOLVER, "none"),
    Claim("joint training improves the Verifier: wrong answers told (added later)",
        "all", "verifier_recall", "none"),
    Claim("joint training improves the Verifier: its objections right (added later)",
        "all", "verifier_precision", "none"),
    Claim("joint training improves the Corrector: fixes (added later)", "all", "fix_rate", "none"),
    Claim("System: joint above more supervised learning", "all", SYSTEM, "supervised"),
    Claim("System: joint above majority vote", "all", SYSTEM, "all", "baseline_majority"),
    Claim("System: joint above weighted vote", "all", SYSTEM, "all", "baseline_weighted"),
    Claim("System: a reward for the report above one for the verdict", "all", SYSTEM, "all, verdict only"),
)  # fmt: skip


class SumsRecipe(Frozen):
    """Every number of the study."""

    warm_start: WarmStart = WarmStart()
    inference: Mapping[str, Any] = {
        "rounds": 2, "accept_after": 1, "give_up_after": 10, "ends_with": "verifier"
    }  # fmt: skip
    """S, V, C, V, C, V at most; one pass accepts."""
    marsrl: RunSettings = RunSettings(
        steps=200,
        problems_per_step=10,
        rollouts=GroupedSettings(group=8, branches=2, sampling="balanced"),
        train=recorded_config(learning_rate=3e-4, warmup_updates=5),
    )
    more: Stage = Stage(name="more", steps=2000, learning_rate=1.5e-3, mix=(0.15, 0.35, 0.5), own=True)
    """The control: the last stage again, on the same solved problems."""
    evaluation_problems: PositiveInt = 1000
    attempts: PositiveInt = 16
    """Fresh attempts per held-out problem; votes and retries take what the System's tokens buy."""


RECIPE: Final = SumsRecipe()
QUICK: Final = SumsRecipe(
    warm_start=WarmStart(
        solved=16,
        rows=8,
        stages=tuple(
            stage.model_copy(update={"steps": 1, "reports": min(stage.reports, 16)})
            for stage in WarmStart().stages
        ),
    ),
    inference={**RECIPE.inference, "rounds": 1},
    marsrl=RECIPE.marsrl.with_(steps=1, problems_per_step=2, rollouts={"group": 4}),
    more=RECIPE.more.model_copy(update={"steps": 1}),
    evaluation_problems=6,
    attempts=2,
)
"""One step and few problems: everything runs. Its figures mean nothing."""


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
    game = Game(solve_verify_correct(schedule="training"), GRADER)
    if arm.report:
        game = replace(game, rewards={**game.rewards, "verifier": honest_report})
    config = recipe.marsrl.train.model_copy(update={"train_roles": arm.roles})
    settings = recipe.marsrl.model_copy(update={"seed": seed, "train": config})
    problems = subset_sum_problems(seed=seed, split="train")
    history = await learned(
        model, game, problems, settings, lambda name, own: SumsAgent(role_of(name), own, policy=own.name)
    )
    return model, [{role: row.get("reward") for role, row in step.roles.items()} for step in history]


def held_out(seed: int, recipe: SumsRecipe = RECIPE) -> ProblemSet:
    """The evaluation problems of a seed; none of them is in a training set."""
    return subset_sum_problems(seed=seed, split="test")[: recipe.evaluation_problems]


async def figures_of(
    agents: Mapping[str, Agent], problems: ProblemSet, inference: Mapping[str, Any], attempts: int, seed: int
) -> dict[str, float]:
    """The team's figures, and what the same tokens buy otherwise: votes, and fresh retries."""
    game = Game(solve_verify_correct(**inference), GRADER)
    trees = await played_often(game, agents, problems, 1, seed)
    figures = {name: e.value for name, e in metrics_of(trees).items() if e.value is not None}
    asked = (
        _attempts(agents, problem, attempts, derive_seed(seed, "attempts", i))
        for i, problem in enumerate(problems)
    )
    tried = await asyncio.gather(*asked)
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
    seen = {"problem": problem.statement}

    async def judged(place: int, solution: Action) -> Attempt:
        read, own = {**seen, "solution": solution.text}, derive_seed(seed, "report", place)
        [report] = await agents["verifier_0"].act(read, n=1, seed=own)
        answer = protocol.numbers_in(protocol.read(solution.text, protocol.ANSWER_TOKENS))
        return Attempt(
            tuple(sorted(answer)) if answer else None,
            (await GRADER.grade(problem, solution.text)).verdict is Verdict.CORRECT,
            read_judgement(report.text).passed,
            sum(each.sampled_tokens for each in solution.completions),
            sum(each.sampled_tokens for each in report.completions),
        )

    solutions = await agents["solver_0"].act(seen, n=n, seed=seed)
    return list(await asyncio.gather(*(judged(i, solution) for i, solution in enumerate(solutions))))


def baselines(attempts: Sequence[Sequence[Attempt]], budget: float) -> dict[str, float]:
    """Accuracy and tokens of a vote, a weighted vote and fresh retries at a budget of tokens a problem."""
    figures: dict[str, float] = {}
    ways: dict[str, Callable[[Sequence[Attempt]], tuple[bool, int]]] = {
        "majority": partial(_voted, checked=False),
        "weighted": partial(_voted, checked=True),
        "fresh": _fresh,
    }
    most = min(map(len, attempts))
    for name, way in ways.items():
        for n in range(1, most + 1):
            played = [way(found[:n]) for found in attempts]
            tokens = math.fsum(spent for _, spent in played) / len(played)
            if tokens >= budget:
                break
        figures[f"baseline_{name}"] = sum(right for right, _ in played) / len(played)
        figures[f"baseline_{name}_tokens"] = tokens
        figures[f"baseline_{name}_attempts"] = float(n)
    return figures


def _voted(attempts: Sequence[Attempt], checked: bool) -> tuple[bool, int]:
    """The commonest answer, in a tie the earliest; of `checked` ones the accepted count first, then all."""
    votes = Counter[tuple[int, ...]]()
    for a in attempts:
        if a.answer is not None:
            votes[a.answer] += 1 + (len(attempts) + 1) * (checked and a.accepted)
    chosen = max(votes, key=lambda answer: votes[answer], default=None)
    right = chosen is not None and any(a.right for a in attempts if a.answer == chosen)
    return right, sum(a.tokens + checked * a.report_tokens for a in attempts)


def _fresh(attempts: Sequence[Attempt]) -> tuple[bool, int]:
    """The first accepted attempt; if there is none, the first attempt, as in the System."""
    last = next((i for i, a in enumerate(attempts) if a.accepted), len(attempts) - 1)
    tokens = sum(a.tokens + a.report_tokens for a in attempts[: last + 1])
    return attempts[last if attempts[last].accepted else 0].right, tokens


@arm_by_arm
async def play(name: str, run: Run) -> Result:
    """Train one arm of a seed and evaluate it."""
    began = time.process_time()
    model, rewards = await train_arm(ARMS[name], run.seed, run.recipe, run.cache)
    trained = time.process_time()
    problems = held_out(run.seed, run.recipe)
    figures = await figures_of(team(model), problems, run.recipe.inference, run.recipe.attempts, run.seed)
    return Result(figures, {"rewards": rewards, "training_cpu_seconds": round(trained - began, 1)})


def shown(rows: Sequence[LedgerRow]) -> dict[str, str]:
    """The smallest and the largest processor time of each arm's training, without the warm start's."""
    by_arm = {
        name: [row.detail["training_cpu_seconds"] for row in rows if row.arm == name]
        for name in ARMS
        if name != "none"
    }
    ranges = "; ".join(f"{name} {min(found):.0f} to {max(found):.0f}" for name, found in by_arm.items())
    return {"more": f"Processor seconds of the training, one thread: {ranges}."}


STUDY = Study(
    name="sums",
    version="bd244336a048",
    task="subset sums",
    starts="1 for each seed",
    arms=tuple(ARMS),
    recipe=RECIPE,
    quick=QUICK,
    updates="marsrl.steps",
    play=play,
    shown=shown,
    claims=CLAIMS,
    columns=COLUMNS,
)
