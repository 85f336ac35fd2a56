"""The miniature's experiment: train an arm, evaluate it, give the Solver alone the same tokens."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from mars_env.envs import Game, chains, self_refine, solve, solve_verify_correct, team_outcome
from mars_env.envs.marsrl import SOLVER
from mars_env.evaluation.baselines import (
    Baseline,
    majority_vote,
    refinement,
    samples_for,
    single,
    token_budget,
)
from mars_env.evaluation.trees import final_answer, first_attempts, sampled_tokens
from mars_env.grading import grader_for
from mars_env.loggers import Logger
from mars_env.miniature import CHECKPOINT, load
from mars_env.miniature.agents import LIMITS, MiniatureAgent
from mars_env.miniature.experiment import TrainedMiniature, held_out, miniature_team, training_problems
from mars_env.miniature.model import build_model
from mars_env.miniature.recipe import QUICK, RECIPE, Recipe
from mars_env.models.hf import HFModel
from mars_env.problems import ProblemSet
from mars_env.trainers.loop import train
from mars_env.trainers.recipes import RunSettings
from mars_env.trainers.team import Team
from mars_env.types import Agent, Tree
from studies.common.episodes import made_once, played_often
from studies.common.study import Run
from studies.marsrl.continuing import ContinuingSolver
from studies.marsrl.demonstrations import demonstrate
from studies.marsrl.warm_start import Stage, save
from studies.marsrl.warm_start import train as warm_start


@dataclass(frozen=True, slots=True)
class Arm:
    """One way to train, or not to train.

    `roles` are trained (None: all), `separate` ones with weights of their own; `shared_reward` replaces each
    agent's; `chains` are independent episodes in place of groups; `changes` differ from the `TrainConfig`.
    """

    name: str
    title: str
    roles: tuple[str, ...] | None
    shared_reward: bool = False
    separate: bool = False
    chains: int | None = None
    changes: Mapping[str, Any] = field(default_factory=dict)


ARMS = (
    Arm("none", "not trained", ()),
    Arm("solver", "Solver only", ("solver",)),
    Arm("verifier+corrector", "Verifier and Corrector only", ("verifier", "corrector")),
    Arm("all", "all three (MarsRL)", None),
    Arm("shared", "all three, one shared team reward", None, shared_reward=True),
    Arm("separate verifier+corrector", "as above, but each role has weights of its own",
        ("verifier", "corrector"), separate=True),
    Arm("separate all", "all three, each role with weights of its own", None, separate=True),
)  # fmt: skip
"""The ablation of MarsRL (arXiv 2511.11373), and the shared reward that the paper argues against. Two more
arms do not share weights, to show what passes between the roles through shared weights."""


async def train_arm(
    arm: Arm, seed: int, recipe: Recipe, *, start: Path = CHECKPOINT, loggers: Sequence[Logger] = ()
) -> TrainedMiniature:
    """Train a warm-started miniature."""
    shared = load(start)
    models = {role: load(start, name=role) if arm.separate else shared for role in LIMITS}
    if arm.roles == ():
        return TrainedMiniature(models, ())
    history = await train(*set_up(arm, seed, recipe, models), loggers=loggers)
    return TrainedMiniature(models, tuple(history))


def set_up(
    arm: Arm, seed: int, recipe: Recipe, models: Mapping[str, HFModel]
) -> tuple[Game, Team, ProblemSet, RunSettings]:
    """What `mars_env.trainers.train` takes to train an arm, in its order; `models` are by role."""
    config = recipe.marsrl.train.model_copy(update={"train_roles": arm.roles, **arm.changes})
    settings = recipe.marsrl.model_copy(update={"seed": seed, "train": config})
    game = Game(solve_verify_correct(**recipe.training), grader_for("math"))
    if arm.chains is not None:
        game = replace(game, grower=chains(arm.chains))
        settings = settings.model_copy(update={"rollouts": None})
    if arm.shared_reward:
        game = replace(game, team_reward=team_outcome)
    return game, miniature_team(settings, game, models, recipe), training_problems(seed), settings


def warm_started(
    run: Run, name: str, stages: Sequence[Stage], seed: int = 0, demonstrations: Any = demonstrate
) -> Path:
    """The checkpoint of a warm start, made if it is not there yet (about five minutes on one core)."""
    if run.recipe == QUICK:
        stages = [stage.model_copy(update={"steps": 1, "rows": 8}) for stage in stages]

    def make(folder: Path) -> None:
        module = build_model(seed)
        warm_start(module, stages, seed, demonstrations=demonstrations)
        save(module, folder)

    return made_once(run.cache / name, make)


def affordable(trees: Sequence[Tree]) -> int:
    """How many of the Solver's first attempts the System's tokens buy."""
    attempts = [turn for tree in trees for turn in first_attempts(tree)]
    return samples_for(token_budget(trees), sum(map(sampled_tokens, attempts)) / len(attempts))


async def equal_token_baselines(
    trained: TrainedMiniature, trees: Sequence[Tree], seed: int, recipe: Recipe = RECIPE
) -> dict[str, Baseline]:
    """What the Solver alone achieves with the System's tokens: a vote, revisions, writing on."""
    problems = held_out(seed, recipe)
    model = trained.models["solver"]
    tries = affordable(trees)
    alone = Game(solve(), grader_for("math"))
    samples = math.ceil(1.25 * tries) + 1
    votes = await played_often(alone, _solver(model, recipe), problems, samples, seed)
    refining = Game(self_refine(revisions=math.ceil(1.5 * tries)), grader_for("math"))
    refined = await played_often(refining, _solver(model, recipe), problems, 1, seed)
    on = _solver(model, recipe, limit=math.ceil(token_budget(trees)))
    writing = await played_often(alone, on, problems, 1, seed)
    return {
        "majority": majority_vote(trees, votes, final_answer),
        "refinement": refinement(trees, refined),
        "going_on": single(trees, writing, "Single agent, going on writing"),
    }


async def continuing_baselines(
    trained: TrainedMiniature, trees: Sequence[Tree], seed: int, recipe: Recipe = RECIPE
) -> dict[str, Baseline]:
    """What the Solver alone achieves with the System's tokens when it is continued after each cut.

    ``continuing`` reads its own text, ``afresh`` the rest of the problem (see `ContinuingSolver`). An attempt
    ends by itself before the System's tokens are spent, so further attempts are made until they are spent,
    and the attempts vote. The names with ``_once`` are single attempts. There is no Verifier.
    """
    problems = held_out(seed, recipe)
    budget = token_budget(trees)
    alone = Game(solve(), grader_for("math"))
    found = {}
    for name, afresh in (("continuing", False), ("afresh", True)):
        solver = ContinuingSolver(
            trained.models["solver"], tokens=math.ceil(budget), temperature=recipe.temperature, afresh=afresh
        )
        attempts = await played_often(alone, {SOLVER: solver}, problems, 1, seed)
        found[f"{name}_once"] = single(trees, attempts, f"Single agent, {name}")
        votes = samples_for(budget, found[f"{name}_once"].tokens)
        samples = math.ceil(1.25 * votes)
        attempts += await played_often(alone, {SOLVER: solver}, problems, samples, seed, first=1)
        found[name] = majority_vote(
            trees, attempts, final_answer, name=f"Single agent, {name}, majority vote"
        )
    return found


async def play_held_out(
    game: Game, agents: Mapping[str, Agent], seed: int, recipe: Recipe = RECIPE, samples: int = 1
) -> list[Tree]:
    """Play every held-out problem so many times with these agents."""
    return await played_often(game, agents, held_out(seed, recipe), samples, seed)


def _solver(model: HFModel, recipe: Recipe, limit: int | None = None) -> dict[str, Agent]:
    return {SOLVER: MiniatureAgent("solver", model, temperature=recipe.temperature, max_tokens=limit)}
