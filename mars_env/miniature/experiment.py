"""Train the miniature team with MarsRL, and evaluate it on held-out problems. One seed fixes everything."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mars_env.api import load_problems
from mars_env.envs import Game, solve_verify_correct
from mars_env.grading import grader_for
from mars_env.loggers import Logger
from mars_env.miniature import load
from mars_env.miniature.agents import LIMITS, MiniatureAgent
from mars_env.miniature.recipe import RECIPE, Recipe
from mars_env.models.hf import HFModel
from mars_env.problems import ProblemSet
from mars_env.rollout import Job, collect
from mars_env.trainers.loop import train
from mars_env.trainers.metrics import StepMetrics
from mars_env.trainers.recipes import RunSettings
from mars_env.trainers.team import SampledModel, Team, make_team
from mars_env.types import Agent, Tree, role_of


@dataclass(frozen=True, slots=True)
class TrainedMiniature:
    """A team after training: a model by role, the same one if weights are shared; and each step's metrics."""

    models: Mapping[str, HFModel]
    history: tuple[StepMetrics, ...]

    def agents(self, recipe: Recipe, forced: Mapping[str, str] | None = None) -> dict[str, Agent]:
        """The team; `forced` gives, by role, a first piece for everything that the role writes."""
        first = forced or {}
        return {f"{role}_0": _agent(role, m, recipe, first.get(role, "")) for role, m in self.models.items()}


async def train_team(
    seed: int, recipe: Recipe = RECIPE, *, loggers: Sequence[Logger] = (), directory: Path | None = None
) -> TrainedMiniature:
    """Train the shipped miniature, one model for all roles; from the directory's newest checkpoint on."""
    models = dict.fromkeys(LIMITS, load())
    game = Game(solve_verify_correct(**recipe.training), grader_for("math"))
    settings = recipe.marsrl.with_(seed=seed, out=None if directory is None else str(directory))
    team = miniature_team(settings, game, models, recipe)
    history = await train(game, team, training_problems(seed), settings, loggers=loggers)
    return TrainedMiniature(models, tuple(history))


def miniature_team(settings: RunSettings, game: Game, models: Mapping[str, HFModel], recipe: Recipe) -> Team:
    """The miniature's agents on these models (by role), for `mars_env.trainers.train`."""
    team = make_team(
        settings,
        game.rules.possible_agents,
        models,
        agent=lambda name, model: _agent(role_of(name), model, recipe),
    )
    return replace(team, made_by="mars_env.miniature.agents:team")


def _agent(role: str, model: SampledModel, recipe: Recipe, forced: str = "") -> Agent:
    return MiniatureAgent(role, model, policy=model.name, temperature=recipe.temperature, forced=forced)


def training_problems(seed: int) -> ProblemSet:
    """The training problems of a seed, without an end."""
    return load_problems("arithmetic", seed=seed, split="train")


def held_out(seed: int, recipe: Recipe = RECIPE) -> ProblemSet:
    """The evaluation problems of a seed; none of them is in a training set."""
    return load_problems("arithmetic", n=recipe.evaluation_problems, seed=seed, split="test")


async def evaluate_team(
    team: TrainedMiniature, seed: int, recipe: Recipe = RECIPE, *, forced: Mapping[str, str] | None = None
) -> list[Tree]:
    """One episode of the whole team on every held-out problem; `forced` as in `TrainedMiniature.agents`."""
    game = Game(solve_verify_correct(**recipe.inference), grader_for("math"))
    jobs = [Job(problem, 0) for problem in held_out(seed, recipe)]
    return await collect(game, team.agents(recipe, forced), jobs, seed=seed, concurrency=len(jobs))
