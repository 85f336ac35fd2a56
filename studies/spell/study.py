"""SPELL in miniature: one policy asks, answers and compares questions about tables."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import cache
from typing import Final

from mars_env.methods.spell.rewards import outcomes
from mars_env.methods.spell.rules import QUESTIONER, RESPONDER
from mars_env.methods.spell.training import SpellRun, SpellSettings, train_spell
from mars_env.models import HFModel
from mars_env.seeds import derive_seed
from mars_env.trainers.team import Team, make_team
from mars_env.types import Action, Observation, Problem, Tree
from studies.common.claims import Claim
from studies.common.episodes import copied, mean
from studies.common.ledger import Frozen
from studies.common.study import Result, Run, Study, arm_by_arm
from studies.spell.lookups import (
    KEYS,
    LEVELS,
    NAMES,
    clusters,
    easy_question,
    is_right,
    level,
    player,
    run_settings,
    truth,
    warm_started,
)

ARMS: Final = ("warm start", "full", "questioner frozen", "no memory", "static set")
FIGURES: Final = {
    "accuracy": "held-out questions right",
    "first": "difficulty, first fifth",
    "last": "difficulty, last fifth",
    "wrong": "wrong references, last fifth",
    "readable": "readable questions, last fifth",
}
CLAIMS: Final = (
    Claim("the questions get harder over the run", "full", "last", "full", "first"),
    Claim("... end harder than those of a frozen Questioner", "full", "last", "questioner frozen"),
    Claim("... than those without memory", "full", "last", "no memory"),
    Claim("held-out answers: above a static set of the same size", "full", "accuracy", "static set"),
    Claim("... above those with a frozen Questioner", "full", "accuracy", "questioner frozen"),
    Claim("... above the warm start", "full", "accuracy", "warm start"),
)


class Recipe(Frozen):
    """Every number of the study; see the plan for how they were chosen."""

    warm_start: int = 600
    steps: int = 40
    rate: float = 3e-4
    tables: int = 64
    clusters: int = 16
    group: int = 8
    verifiers: int = 4
    fresh: int = 2
    last: int = 3
    verifier_turns: float = 4.0
    held_out: int = 16
    outside: int = 4


RECIPE: Final = Recipe()
QUICK: Final = Recipe(warm_start=5, steps=1, clusters=2, held_out=1)


class EasyQuestioner:
    """A program that asks as easy questions as the warm start, and knows the answers."""

    policy = "program"

    async def act(self, observation: Observation, n: int, seed: int) -> list[Action]:
        """The questions of the static set: they depend on the seed alone, and on no weights."""
        return [Action(easy_question(observation, derive_seed(seed, sample))) for sample in range(n)]


starting = cache(warm_started)
"""The warm start, the same for all seeds."""


async def share_right(
    model: HFModel, asked: Sequence[tuple[Problem, str]], seed: int, samples: int
) -> list[float]:
    """How often a model answers each question rightly, in whatever form; all documents are shown."""
    responder = player(RESPONDER, model)

    async def share(problem: Problem, question: str) -> float:
        seen = {"documents": " ".join(problem.metadata["documents"]), "question": question}
        actions = await responder.act(seen, samples, derive_seed(seed, problem.id, question))
        return mean([is_right(action.text, truth(problem, question)) for action in actions])

    return list(await asyncio.gather(*(share(*each) for each in asked)))


async def accuracy(model: HFModel, seed: int, recipe: Recipe) -> float:
    """On all questions about tables that are not trained on."""
    held_out = clusters(derive_seed(seed, "held out"), recipe.held_out)
    asked = [(p, f"{n}*{key}") for p in held_out for n in range(1, LEVELS + 1) for key in range(KEYS)]
    return mean(await share_right(model, asked, seed, 1))


async def train_arm(arm: str, seed: int, recipe: Recipe) -> tuple[HFModel, list[list[Tree]]]:
    """The trained model, and the trees of every step."""
    model, steps = copied(starting(steps=recipe.warm_start), "speller"), []
    if arm == "warm start":
        return model, []
    settings = run_settings(seed, recipe.steps, recipe.clusters, recipe.rate)
    asks = {
        "questioner frozen": player(QUESTIONER, copied(model, "frozen")),
        "static set": EasyQuestioner(),
    }.get(arm)
    team = make_team(settings, NAMES, [model], agent=player)
    if asks is not None:
        team = Team({**team.agents, QUESTIONER: asks}, team.policies, team.refresh)
        roles = settings.train.model_copy(update={"train_roles": ("responder", "verifier")})
        settings = settings.model_copy(update={"train": roles})
    spell = SpellSettings(
        group=recipe.group,
        verifiers=recipe.verifiers,
        fresh=recipe.fresh,
        last=0 if arm in ("no memory", "static set") else recipe.last,
        questions=recipe.clusters,
        tries=1,
        verifier_turns=recipe.verifier_turns,
    )
    planned = SpellRun(team, clusters(seed, recipe.tables), settings, spell)
    await train_spell(planned, on_trees=lambda _, trees: steps.append(list(trees)))
    return model, steps


def questions(trees: Sequence[Tree]) -> list[tuple[Problem, str, str]]:
    """Cluster, question and reference of all questions that could be read and are about look-ups."""
    asked = [(tree.problem, found.turn.info) for tree in trees for found in outcomes(tree)]
    return [(p, info["question"], info["answer"]) for p, info in asked if level(info["question"])]


@arm_by_arm
async def play(arm: str, run: Run) -> Result:
    """Train one arm and measure it."""
    seed, recipe = run.seed, run.recipe
    outside = starting(steps=recipe.warm_start)
    model, steps = await train_arm(arm, seed, recipe)
    figures = {"accuracy": await accuracy(model, seed, recipe)}
    curves: dict[str, list[list[float]]] = {"difficulty": [], "level": [], "wrong": []}
    for trees in steps:
        asked = questions(trees)
        right = await share_right(outside, [(p, question) for p, question, _ in asked], seed, recipe.outside)
        curves["difficulty"].append([1 - share for share in right])
        curves["level"].append([float(level(question)) for _, question, _ in asked])
        curves["wrong"].append([float(not is_right(answer, truth(p, q))) for p, q, answer in asked])
    if steps:
        fifth = max(1, len(steps) // 5)
        figures["readable"] = mean([len(each) / recipe.clusters for each in curves["level"][-fifth:]])
        for name, curve, part in (
            ("first", "difficulty", slice(None, fifth)),
            ("last", "difficulty", slice(-fifth, None)),
            ("wrong", "wrong", slice(-fifth, None)),
        ):
            if values := [value for each in curves[curve][part] for value in each]:
                figures[name] = mean(values)
    return Result(figures, {name: [round(mean(each), 3) for each in curve] for name, curve in curves.items()})


STUDY = Study(
    name="spell",
    version="23941bb4a2d6",
    task="SPELL's look-ups",
    starts="1",
    arms=ARMS,
    recipe=RECIPE,
    quick=QUICK,
    play=play,
    columns=FIGURES,
    claims=CLAIMS,
)
