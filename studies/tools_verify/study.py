"""Subset sums with a calculator: a team whose Verifier computes, fresh retries, and one agent alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pydantic import PositiveInt

from mars_env.envs import Game, GroupedSettings, solve, solve_verify_correct
from mars_env.evaluation.trees import is_right, sampled_tokens
from mars_env.models import HFModel
from mars_env.problems import ProblemSet
from mars_env.trainers.config import TrainConfig
from mars_env.trainers.recipes import RunSettings
from mars_env.types import Agent
from studies.common.claims import Claim
from studies.common.episodes import copied, learned, mean, played_often
from studies.common.ledger import Frozen, LedgerRow
from studies.common.pages import ANSWERS, SYSTEM
from studies.common.study import Result, Run, Study
from studies.common.subset_sum import GRADER
from studies.sums.study import figures_of
from studies.tools_verify.agents import Reviser, agent
from studies.tools_verify.warm_start import SET, WarmStart, warm_start


class Recipe(Frozen):
    """Every number of the study."""

    warm_start: WarmStart = WarmStart()
    inference: Mapping[str, Any] = {
        "rounds": 3, "accept_after": 1, "give_up_after": 10, "ends_with": "verifier"
    }  # fmt: skip
    """S, V, C, V, C, V, C, V at most; one pass accepts."""
    marsrl: RunSettings = RunSettings(
        steps=120,
        problems_per_step=6,
        rollouts=GroupedSettings(group=8, branches=2, sampling="balanced"),
        train=TrainConfig(learning_rate=5e-4, warmup_updates=5, betas=(0.9, 0.98)),
    )
    calls: PositiveInt = 4
    """Of a turn of the agent that revises, in training; in the test as many as the System's tokens buy."""
    most_calls: PositiveInt = 8
    tested: PositiveInt = 200
    attempts: PositiveInt = 8
    """Fresh attempts per held-out problem; retries and votes take what the System's tokens buy."""


WARM, TRAINED = "warm start", "trained"
FRESH, REVISED = "baseline_fresh", "alone"
COLUMNS: Final = {
    **ANSWERS,
    FRESH: "fresh retries",
    REVISED: "one agent that revises",
    "baseline_majority": "majority vote",
    "verifier_precision": "Verifier precision",
    "verifier_recall": "Verifier recall",
    "fix_rate": "fixes",
}
TOKENS: Final = {
    "tokens": "System",
    "baseline_fresh_tokens": "fresh retries",
    "alone_tokens": "one agent that revises",
}
CLAIMS: Final = (
    Claim("the bar: after training, System above fresh retries with its own Verifier",
        TRAINED, SYSTEM, TRAINED, FRESH),
    Claim("after training, System above one agent that revises with the calculator",
        TRAINED, SYSTEM, TRAINED, REVISED),
    Claim("before training, System above fresh retries", WARM, SYSTEM, WARM, FRESH),
    Claim("before training, System above one agent that revises", WARM, SYSTEM, WARM, REVISED),
    Claim("training improves the System", TRAINED, SYSTEM, WARM),
    Claim("training improves the agent that revises", TRAINED, REVISED, WARM),
)  # fmt: skip


async def trained(model: HFModel, seed: int, recipe: Recipe, alone: bool) -> tuple[HFModel, list[float]]:
    """A copy of the model after training as a team or alone, and the rewards of its first answers."""
    model = copied(model)
    rules = solve() if alone else solve_verify_correct(schedule="training")
    game, settings = Game(rules, GRADER), recipe.marsrl.model_copy(update={"seed": seed})

    def seat(name: str, own: Any) -> Agent:
        return Reviser(own, recipe.calls) if alone else agent(name, own)

    history = await learned(model, game, SET(seed=seed, split="train"), settings, seat)
    return model, [round(step.roles["solver"]["reward"] or 0.0, 3) for step in history]


async def revised(
    model: HFModel, problems: ProblemSet, budget: float, recipe: Recipe, seed: int
) -> dict[str, float]:
    """One agent with as few calls as reach the budget of tokens, or with the most."""
    game = Game(solve(), GRADER)
    for calls in range(1, recipe.most_calls + 1):
        trees = await played_often(game, {"solver_0": Reviser(model, calls)}, problems, 1, seed)
        tokens = mean([float(sampled_tokens(tree.turns[0])) for tree in trees])
        if tokens >= budget:
            break
    right = mean([float(is_right(tree.turns[0]) or 0) for tree in trees])
    return {REVISED: right, "alone_tokens": tokens, "alone_calls": float(calls)}


async def play(arms: Sequence[str], run: Run) -> Mapping[str, Result]:
    """Both arms of a seed: the warm start, and team and single agent that were trained from it."""
    recipe, seed, found = run.recipe, run.seed, dict[str, Result]()
    start = warm_start(seed, recipe.warm_start)
    problems = SET(seed=seed, split="test")[: recipe.tested]
    for arm in arms:
        team, alone, rewards = start, start, dict[str, list[float]]()
        if arm == TRAINED:
            team, rewards["team"] = await trained(start, seed, recipe, alone=False)
            alone, rewards["alone"] = await trained(start, seed, recipe, alone=True)
        seats = {
            name: agent(name, team) for name in solve_verify_correct(schedule="training").possible_agents
        }
        figures = await figures_of(seats, problems, recipe.inference, recipe.attempts, seed)
        figures |= await revised(alone, problems, figures["tokens"], recipe, seed)
        found[arm] = Result(figures, {"rewards": rewards})
    return found


def shown(rows: Sequence[LedgerRow]) -> dict[str, str]:
    """The tokens that a problem took."""
    means = "; ".join(
        f"{arm}: "
        + ", ".join(
            f"{title} {mean([row.figures[name] for row in rows if row.arm == arm]):.1f}"
            for name, title in TOKENS.items()
        )
        for arm in (WARM, TRAINED)
    )
    return {"more": f"Sampled tokens a problem. {means}."}


STUDY = Study(
    name="tools_verify",
    version="94fa9f903239",
    task="a Verifier that computes",
    starts="1 for each seed",
    arms=(WARM, TRAINED),
    recipe=Recipe(),
    quick=Recipe(
        warm_start=WarmStart(
            solved=16,
            rows=8,
            stages=tuple(stage.model_copy(update={"steps": 1}) for stage in WarmStart().stages),
        ),
        marsrl=Recipe().marsrl.with_(steps=1, problems_per_step=2, rollouts={"group": 4}),
        tested=6,
        attempts=2,
    ),
    play=play,
    shown=shown,
    claims=CLAIMS,
    columns=COLUMNS,
    together=True,
)
