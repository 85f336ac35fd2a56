"""The numbers of the two studies of locks, and what both do with them."""

from __future__ import annotations

from mars_env.envs import Game, GroupedSettings
from mars_env.models import HFModel
from mars_env.problems import ProblemSet
from mars_env.trainers.config import TrainConfig
from mars_env.trainers.recipes import RunSettings
from mars_env.types import Tree
from studies.common.episodes import played_often
from studies.common.ledger import Frozen
from studies.common.study import Run
from studies.rubrics.lock import SAMPLING, opener


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


def run_settings(seed: int, recipe: Recipe, denominator: str = "trainer") -> RunSettings:
    """One update a step, on all locks."""
    return RunSettings(
        seed=seed,
        steps=recipe.steps,
        problems_per_step=recipe.locks,
        rollouts=GroupedSettings(group=recipe.group, branches=1),
        sampling=SAMPLING,
        train=TrainConfig(
            learning_rate=recipe.rate,
            betas=(0.9, 0.98),
            old_logprobs=denominator,
            uniform_groups="drop",
            shared_prefixes=False,
            correct_engine=False,
        ),
    )


async def played(game: Game, model: HFModel, problems: ProblemSet, run: Run) -> list[Tree]:
    """Every lock so many times, on the plain prompt."""
    return await played_often(game, {"solver_0": opener(model)}, problems, run.recipe.samples, run.seed)
