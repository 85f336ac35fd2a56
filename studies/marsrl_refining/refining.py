"""One agent of the miniature that was taught to revise its own solution."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from mars_env.envs import Game, Solve
from mars_env.envs.solve_verify_correct import SOLVER
from mars_env.evaluation.trees import is_right, sampled_tokens
from mars_env.grading import grader_for
from mars_env.miniature import load, protocol
from mars_env.miniature.agents import MiniatureAgent
from mars_env.miniature.experiment import training_problems
from mars_env.miniature.recipe import RECIPE, Recipe
from mars_env.models.hf import HFModel
from mars_env.trainers.metrics import StepMetrics
from mars_env.trainers.recipes import RunSettings
from mars_env.trainers.team import SampledModel
from mars_env.types import Model, Observation, Tree, Turn
from studies.common.episodes import learned
from studies.marsrl.demonstrations import (
    Demonstration,
    Faults,
    Role,
    demonstrate,
    draw_chain,
    review,
    shown_solution,
    tell,
    write_solution,
)
from studies.marsrl.experiment import play_held_out, warm_started
from studies.marsrl.warm_start import STAGES, Stage

REVISIONS: Final = 4
"""In training: with the first solution five turns, as the team has (S, V, C, V, C)."""

REFINING_STAGES: Final = tuple(
    stage.model_copy(update={"mix": (stage.mix[0], 0.0, stage.mix[1] + stage.mix[2])}) for stage in STAGES
)
"""The team's stages; revisions get the shares of Verifier and Corrector."""


class RefiningSolver(MiniatureAgent):
    """A Solver that reads its own last solution, if there is one, where a Corrector reads it; no report."""

    def __init__(self, model: Model, *, policy: str = "miniature", temperature: float = 1.0) -> None:
        super().__init__("solver", model, policy=policy, temperature=temperature)

    def prompt(self, observation: Observation) -> str:
        """The prompt of a solution or a revision."""
        solution = str(observation.get("solution", ""))
        if not solution:
            return super().prompt(observation)
        return protocol.corrector_prompt(str(observation["problem"]), solution, "")


def demonstrate_refining(role: Role, rng: random.Random, faults: Faults) -> Demonstration:
    """One demonstration; a Corrector's is a revision, of a right solution, too."""
    if role != "corrector":
        return demonstrate(role, rng, faults)
    chain = draw_chain(rng)
    shown = shown_solution(chain, rng, faults)
    solution = protocol.flip("".join(shown).removesuffix(protocol.END))
    found = review(chain, solution, rng)
    lazy = rng.random() < faults.lazy
    pieces = (
        shown if lazy else write_solution(chain, rng, faults.corrector, start=found.place, value=found.value)
    )
    return Demonstration(protocol.corrector_prompt(tell(chain), solution, ""), pieces, (1.0,) * len(pieces))


def taught(cache: Path, stages: Sequence[Stage] = REFINING_STAGES) -> Path:
    """The checkpoint of the warm start."""
    return warm_started(cache, "refining", stages, demonstrations=demonstrate_refining)


def refining_settings(seed: int, recipe: Recipe = RECIPE) -> RunSettings:
    """The recipe's settings for one seed."""
    return recipe.marsrl.model_copy(update={"seed": seed})


async def train_refining(
    start: Path, seed: int, recipe: Recipe = RECIPE
) -> tuple[HFModel, tuple[StepMetrics, ...]]:
    """Train the agent, rewarded for each solution and revision, on as many samples as the team's."""
    model, settings = load(start, name="refining"), refining_settings(seed, recipe)
    game = Game(Solve(revisions=REVISIONS), grader_for("math"))

    def agent(_: str, own: SampledModel) -> RefiningSolver:
        return RefiningSolver(own, policy=own.name, temperature=recipe.temperature)

    return model, tuple(await learned(model, game, training_problems(seed), settings, agent))


class Refined(NamedTuple):
    """An agent that revises: accuracy of its first and last solution within a budget, and after each turn."""

    first: float
    last: float
    tokens: float
    turns: int
    by_turn: tuple[float, ...]


async def evaluate_refining(model: HFModel, seed: int, budget: float, recipe: Recipe = RECIPE) -> Refined:
    """Play every held-out problem once, with revisions until the mean tokens reach the budget."""
    agent = RefiningSolver(model, temperature=recipe.temperature)
    # No solution has more than SOLUTION_TOKENS, but revisions may be much shorter.
    revisions = math.ceil(4 * budget / protocol.SOLUTION_TOKENS)
    game = Game(Solve(revisions=revisions), grader_for("math"))
    return at_budget(await play_held_out(game, {SOLVER: agent}, seed, recipe), budget)


def at_budget(trees: Sequence[Tree], budget: float) -> Refined:
    """Accuracy and tokens by turn, and after the first number of turns whose mean tokens reach the budget."""
    right = np.array([[float(is_right(turn) is True) for turn in _in_order(tree)] for tree in trees])
    tokens = np.array([[float(sampled_tokens(turn)) for turn in _in_order(tree)] for tree in trees])
    by_turn, spent = right.mean(axis=0), tokens.mean(axis=0).cumsum()
    turns = int(np.searchsorted(spent, budget)) + 1
    turns = min(turns, len(by_turn))
    return Refined(
        float(by_turn[0]),
        float(by_turn[turns - 1]),
        float(spent[turns - 1]),
        turns,
        tuple(map(float, by_turn)),
    )


def _in_order(tree: Tree) -> list[Turn]:
    return sorted(tree.turns, key=lambda turn: len(turn.id))
