"""The three games of the comparison: what is played in training, by whom, and how a team is evaluated."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from mars_env import load_problems
from mars_env.envs import Game, solve_verify_correct
from mars_env.grading import grader_for
from mars_env.miniature import load
from mars_env.miniature.agents import MiniatureAgent
from mars_env.miniature.recipe import RECIPE as MINIATURE
from mars_env.models.hf import HFModel
from mars_env.problems import ProblemSet
from mars_env.trainers.recipes import RunSettings
from mars_env.trainers.team import SampledModel, Team, make_team
from mars_env.types import Agent, Grader, role_of
from studies.common.episodes import metrics_of, played_often, warm_started
from studies.common.nibbles import nibbles_problems
from studies.common.pages import REPAIRS, SOLVER, SYSTEM
from studies.common.subset_sum import GRADER, subset_sum_problems
from studies.credit.recipe import CreditRecipe
from studies.mars2.agents import MiniatureCoder
from studies.mars2.experiment import (
    ARMS,
    TrainedTeam,
    diversity,
    search,
    search_figures,
    training_game,
    warm_model,
)
from studies.mars2.recipe import RECIPE as MARS2
from studies.sums.protocol import SumsAgent
from studies.sums.study import RECIPE as SUMS
from studies.sums.warm_start import warm_start

CHAIN_FIGURES: Final = (SOLVER, SYSTEM, *REPAIRS, "acceptance_recall", "tokens")
TRAINING: Final = {"rounds": 2, "accept_after": 1, "give_up_after": 10, "ends_with": "corrector"}
"""S, V, C, V, C in training, as in the paper, on both chain games."""


@dataclass(frozen=True, slots=True)
class CreditGame:
    """A game of the comparison.

    Attributes:
        settings: Training as in the game's own study; seed, credit and number of updates come from the row.
        start: The warm-started model of a seed, from a cache or made.
        agent: An agent of a name on a model.
        play: What is trained on.
        problems: The problems of a seed and of a split, ``"train"`` or ``"test"``.
        evaluate: The figures of a team on so many held-out problems of a seed.
    """

    settings: RunSettings
    start: Callable[[int, CreditRecipe, Path], HFModel]
    agent: Callable[[str, SampledModel], Agent]
    play: Callable[[], Game]
    problems: Callable[..., ProblemSet]
    evaluate: Callable[[Mapping[str, Agent], int, int], Awaitable[dict[str, float]]]

    def team(self, settings: RunSettings, model: HFModel) -> Team:
        """All agents on one model."""
        return make_team(settings, self.play().rules.possible_agents, [model], agent=self.agent)


def chain_game(grader: Grader) -> Game:
    """Solver, Verifier and Corrector with the paper's rewards."""
    return Game(solve_verify_correct(**TRAINING), grader)


async def chain_figures(
    problems: Callable[..., ProblemSet],
    game: Game,
    agents: Mapping[str, Agent],
    seed: int,
    number: int,
) -> dict[str, float]:
    """One episode of the team on each held-out problem."""
    held_out = problems(seed=seed, split="test")[:number]
    found = metrics_of(await played_often(game, agents, held_out, 1, seed))
    figures = {name: found[name].value for name in CHAIN_FIGURES if name in found}
    return {name: value for name, value in figures.items() if value is not None}


async def search_game_figures(agents: Mapping[str, Agent], seed: int, number: int) -> dict[str, float]:
    """AB-MCTS on public tests, and fresh programs, on each held-out problem.

    "System" is Pass@1 of the search, "Solver" the share of right programs among the first fresh ones.
    """
    recipe, team = MARS2.model_copy(update={"problems": number}), TrainedTeam(agents)
    found = search_figures(await search(team, recipe.searched(), seed, recipe))
    fresh = diversity(await search(team, recipe.searched("best-of-n"), seed, recipe), recipe.diversity_nodes)
    return {
        SYSTEM: found["pass@1"],
        SOLVER: fresh["pass@1"],
        "distinct": fresh["distinct"],
        "depth": found["depth"],
        "tokens": found["tokens"],
    }


def _shipped(seed: int, recipe: CreditRecipe, cache: Path) -> HFModel:
    return load()


def _sums_model(seed: int, recipe: CreditRecipe, cache: Path) -> HFModel:
    return warm_started(cache / f"sums-{seed}", "sums", partial(warm_start, seed, recipe.sums))


def _search_model(seed: int, recipe: CreditRecipe, cache: Path) -> HFModel:
    return warm_model("g0", seed, MARS2.model_copy(update={"warm_start": recipe.search}), cache)


def _miniature_agent(name: str, model: SampledModel) -> Agent:
    return MiniatureAgent(role_of(name), model, policy=model.name, temperature=MINIATURE.temperature)


def _sums_agent(name: str, model: SampledModel) -> Agent:
    return SumsAgent(role_of(name), model, policy=model.name)


def _coder(name: str, model: SampledModel) -> Agent:
    return MiniatureCoder(int(name.rpartition("_")[2]), model)


def _nibbles(seed: int, split: str) -> ProblemSet:
    shown = MARS2.warm_start.shown
    return nibbles_problems(level=MARS2.level, shown=shown, seed=seed, split=split)


def _search_game() -> Game:
    return training_game(next(arm for arm in ARMS if arm.name == "homogeneous"), MARS2)


ARITHMETIC: Final = partial(load_problems, "arithmetic")
GAMES: Final[Mapping[str, CreditGame]] = {
    "arithmetic": CreditGame(
        settings=MINIATURE.marsrl,
        start=_shipped,
        agent=_miniature_agent,
        play=partial(chain_game, grader_for("math")),
        problems=ARITHMETIC,
        evaluate=partial(
            chain_figures, ARITHMETIC, Game(solve_verify_correct(**MINIATURE.inference), grader_for("math"))
        ),
    ),
    "sums": CreditGame(
        settings=SUMS.marsrl,
        start=_sums_model,
        agent=_sums_agent,
        play=partial(chain_game, GRADER),
        problems=subset_sum_problems,
        evaluate=partial(
            chain_figures, subset_sum_problems, Game(solve_verify_correct(**SUMS.inference), GRADER)
        ),
    ),
    "search": CreditGame(
        settings=RunSettings(
            problems_per_step=MARS2.problems_per_step,
            rollouts=None,
            train=MARS2.train.model_copy(update={"tree_credit": None}),
        ),
        start=_search_model,
        agent=_coder,
        play=_search_game,
        problems=_nibbles,
        evaluate=search_game_figures,
    ),
}
