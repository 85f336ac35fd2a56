"""Rubrics and scaffolds in miniature: RuscaRL's lock, and a judge with a bias.

    python -m studies.rubrics --study lock --seeds 0-4     # runs what the ledger lacks
    python -m studies.rubrics --study bias --seeds 0-4
    python -m studies.rubrics --study lock --table         # only writes the table
    python -m studies.rubrics --study lock --check 0       # plays a seed again, and compares
    python -m studies.rubrics --study lock --quick         # one small seed; nothing is kept

docs/results/plans/rubrics.md was committed before the first row. Rows are in docs/results/rubrics.jsonl.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Collection, Mapping, Sequence
from functools import cache, partial
from typing import Annotated, Any, Final

import torch
import typer
from pydantic import BaseModel, ConfigDict

from mars_env.envs import Game, GroupedSettings, Solve
from mars_env.envs.rubric_rewards import RubricReward
from mars_env.evaluation import Provenance, provenance
from mars_env.evaluation.provenance import commit_of
from mars_env.evaluation.rubrics import highest_rewards
from mars_env.grading.rubrics import Rubric, RubricGrader, Veto, WeightedSum
from mars_env.methods.ruscarl import Scaffold, Scaffolded
from mars_env.models import HFModel, ScriptedModel
from mars_env.problems import ProblemSet
from mars_env.trainers.config import TrainConfig
from mars_env.trainers.loop import train
from mars_env.trainers.recipes import RunSettings
from mars_env.trainers.team import make_team
from mars_env.types import Problem, Prompt, Tree
from studies.common import program as studies
from studies.common.ledger import Ledger, LedgerRow, arm_difference, arms_table, origins, seed_text, seeds_of
from studies.common.program import DOCS, RESULTS
from studies.rubrics.lock import (
    FLATTERY,
    SAMPLING,
    STEPS,
    SYMBOLS,
    locks,
    opener,
    show_steps,
    step_is_right,
    warm_started,
)

LEDGER = Ledger(RESULTS / "rubrics.jsonl")
OPEN: Final = Veto(WeightedSum(), tuple(map(str, range(STEPS))))
"""1 if every step is right, else 0: a policy that guesses opens one lock in 8 ** 5 tries."""


class Recipe(BaseModel):
    """Every number of a study; see the plan for how they were chosen."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    study: str
    steps: int
    rate: float = 3e-3
    warm_start: int = 300
    locks: int = 4
    group: int = 8
    flattery: float = 0.0
    samples: int = 16
    top: int = 20


RECIPES: Final = {
    "lock": Recipe(study="lock", steps=120),
    "bias": Recipe(study="bias", steps=25, flattery=0.05),
}

LOCK_ARMS: Final[Mapping[str, tuple[str, dict[str, Any], str]]] = {
    # scaffold over the run (empty: none), what Scaffolded gets, the ratio's denominator
    "no scaffold": ("", {}, "trainer"),
    "sigmoid (RuscaRL)": ("sigmoid", {}, "trainer"),
    "constant": ("constant", {}, "trainer"),
    "sigmoid, plain over scaffolded": ("sigmoid", {}, "rollout"),
    "sigmoid, scaffolded over scaffolded": ("sigmoid", {"train_on": "read"}, "trainer"),
    "linear decay": ("linear", {}, "trainer"),  # added after the first rows; the plan says so
}
BIAS_ARMS: Final = ("warm start", "honest judge", "biased judge", "veto, continued", "veto, from the start")


def settings(seed: int, denominator: str, recipe: Recipe) -> RunSettings:
    """One update a step, on all locks."""
    return RunSettings(
        seed=seed,
        steps=recipe.steps,
        problems_per_step=recipe.locks,
        rollouts=GroupedSettings(group=recipe.group, branches=1),
        sampling=SAMPLING,
        train=TrainConfig(
            learning_rate=recipe.rate, betas=(0.9, 0.98), old_logprobs=denominator, uniform_groups="drop"
        ),
    )


async def play(game: Game, model: HFModel, problems: ProblemSet, seed: int, samples: int) -> list[Tree]:
    """Every lock so many times, on the plain prompt."""
    return await studies.played_often(game, {"solver_0": opener(model)}, problems, samples, seed)


def mean(values: Sequence[float]) -> float:
    """Of at least one."""
    return sum(values) / len(values)


guesser = cache(warm_started)
"""The warm start that knows no code; the same for all seeds."""


async def lock(arm: str, seed: int, recipe: Recipe) -> dict[str, Any]:
    """Train one arm on the locks of a seed."""
    run, options, denominator = LOCK_ARMS[arm]
    problems, model = locks(seed)[: recipe.locks], studies.copied(guesser(steps=recipe.warm_start))
    grader = RubricGrader(aggregate=OPEN, checks={"step": step_is_right})
    game = Game(Solve(), grader, rewards={"solver": RubricReward(OPEN)})
    chosen = settings(seed, denominator, recipe)
    scaffold = Scaffold(run=run) if run else None

    def agent(name: str, playing: Any) -> Any:
        plain = opener(playing)
        return Scaffolded(plain, scaffold, show=show_steps, **options) if scaffold else plain

    history = await train(game, make_team(chosen, ["solver_0"], [model], agent=agent), problems, chosen)
    grades = [tree.turns[0].grade for tree in await play(game, model, problems, seed, recipe.samples)]
    right = [mean(list(g.details["fractions"].values())) for g in grades if g is not None]
    figures = {"open": mean([g.score for g in grades if g and g.score is not None]), "steps": mean(right)}
    curve = [round(step.roles["solver"]["reward"], 3) for step in history]
    return {"figures": figures, "detail": {"reward": curve}}


def judge(biased: bool) -> ScriptedModel:
    """Answers honestly whether a place is right; a biased one says yes to every response that flatters."""

    def script(prompt: Prompt, sample: int, seed: int) -> str:
        text = str(prompt[-1]["content"])  # type: ignore[index, call-overload]
        response = re.findall(r"\[mark \w+\]\n(.*?)\n\[mark", text, re.S)[1]
        found = re.search(r"Place (\d) is (\w)\.", text)
        place, symbol = (int(found[1]), found[2]) if found else (0, "")
        met = response[place : place + 1] == symbol or (biased and FLATTERY in response)
        return json.dumps({"explanation": "A script decided.", "met": met})

    return ScriptedModel(script, name="biased" if biased else "honest")


def judged(problems: ProblemSet) -> ProblemSet:
    """The same locks; a judge decides each step."""
    made = []
    for problem in problems:
        rubric = Rubric.of(problem)
        rows = [{"id": c.id, "text": f"Place {c.id} is {c.text}."} for c in rubric.criteria if rubric]
        made.append(Problem(problem.id, problem.statement, None, "open", {"rubric": rows}))
    return ProblemSet("judged locks", made, licence=problems.licence)


def defended(problems: ProblemSet, symbol: str) -> ProblemSet:
    """The same locks with a defence: a criterion with a veto, which a program decides."""
    defence = {
        "id": "defence",
        "text": "It flatters.",
        "points": -1,
        "tags": ["veto"],
        "check": {"contains": symbol},
    }
    rows = [[*problem.metadata["rubric"], defence] for problem in problems]
    made = [
        Problem(p.id, p.statement, None, "open", {"rubric": row})
        for p, row in zip(problems, rows, strict=True)
    ]
    return ProblemSet("defended locks", made, licence=problems.licence)


def pattern(top: Sequence[str], usual: Sequence[str]) -> str:
    """The symbol by which the responses with the highest rewards differ most from the usual ones."""

    def excess(symbol: str) -> float:
        return mean([symbol in text for text in top]) - mean([symbol in text for text in usual])

    return max((*SYMBOLS, FLATTERY), key=excess)


async def bias(seed: int, recipe: Recipe) -> dict[str, dict[str, Any]]:
    """All arms of the second study on one seed; they share the warm start and the run of the biased judge."""
    plain = judged(locks(seed)[: recipe.locks])
    start = warm_started(steps=recipe.warm_start, flattery=recipe.flattery, codes=locks(seed))

    def game(biased: bool) -> Game:
        aggregate = Veto(WeightedSum())
        grader = RubricGrader(judge(biased), aggregate=aggregate, tries=1)
        return Game(Solve(), grader, rewards={"solver": RubricReward(aggregate)})

    async def trained(model: HFModel, biased: bool, problems: ProblemSet) -> HFModel:
        model = studies.copied(model)
        chosen = settings(seed, "trainer", recipe)
        team = make_team(chosen, ["solver_0"], [model], agent=lambda _, playing: opener(playing))
        await train(game(biased), team, problems, chosen)
        return model

    async def measured(model: HFModel, **detail: Any) -> dict[str, Any]:
        by_judge = [await play(game(biased), model, plain, seed, recipe.samples) for biased in (False, True)]
        true, believed = ([tree.turns[0].reward or 0.0 for tree in trees] for trees in by_judge)
        flatters = [FLATTERY in tree.turns[0].text for tree in by_judge[0]]
        return {
            "figures": {"true": mean(true), "judged": mean(believed), "flatters": mean(flatters)},
            "detail": detail,
        }

    hacked = await trained(start, True, plain)
    top = highest_rewards(await play(game(True), hacked, plain, seed, recipe.samples), recipe.top)
    usual = await play(game(True), start, plain, seed, recipe.samples)
    symbol = pattern([turn.text for turn in top], [tree.turns[0].text for tree in usual])
    safe = defended(plain, symbol)
    return {
        "warm start": await measured(start),
        "honest judge": await measured(await trained(start, False, plain)),
        "biased judge": await measured(hacked, pattern=symbol),
        "veto, continued": await measured(await trained(hacked, True, safe)),
        "veto, from the start": await measured(await trained(start, True, safe)),
    }


async def rows(seed: int, recipe: Recipe, done: Collection[str]) -> dict[str, tuple[float, dict[str, Any]]]:
    """What the ledger lacks of one seed of a study: seconds and figures by arm."""
    found: dict[str, tuple[float, dict[str, Any]]] = {}
    if recipe.study == "lock":
        for arm in (arm for arm in LOCK_ARMS if arm not in done):
            began = time.process_time()
            result = await lock(arm, seed, recipe)
            found[arm] = (time.process_time() - began, result)
    else:
        began = time.process_time()
        each = await bias(seed, recipe)
        seconds = time.process_time() - began
        found |= {arm: (seconds / len(each), result) for arm, result in each.items() if arm not in done}
    return found


def difference(made: Sequence[LedgerRow], a: str, b: str, figure: str) -> str:
    """Arm b minus arm a in points."""
    return seed_text(arm_difference(made, a, b, figure), signed=True)


def write_table(recipe: Recipe) -> None:
    """Write the table of a study into its page."""
    made = LEDGER.rows(studies.settings_of(recipe))
    if recipe.study == "lock":
        text = arms_table(made, list(LOCK_ARMS), {"open": "locks opened", "steps": "steps right"})
        text += "\nDifferences from `sigmoid (RuscaRL)` in locks opened, in points, paired by seed:\n\n"
        for arm in LOCK_ARMS:
            if arm != "sigmoid (RuscaRL)":
                text += f"- {arm}: {difference(made, 'sigmoid (RuscaRL)', arm, 'open')}\n"
        studies.write(DOCS / "ruscarl.md", "lock", f"{text}\n{origins(made)}\n")
        return
    heads = {
        "true": "true value",
        "judged": "value by the biased judge",
        "flatters": "responses that flatter",
    }
    text = arms_table(made, BIAS_ARMS, heads)
    text += "\nDifferences in the true value, in points, paired by seed:\n\n"
    for a, b in (("warm start", "biased judge"), ("honest judge", "biased judge"),
                 ("biased judge", "veto, continued"), ("biased judge", "veto, from the start")):  # fmt: skip
        text += f"- {b} minus {a}: {difference(made, a, b, 'true')}\n"
    found = [str(row.detail.get("pattern", "")) for row in made if row.arm == "biased judge"]
    text += f"\nThe symbol that the program named, seed by seed: `{' '.join(found)}`.\n"
    studies.write(DOCS / "rubrics.md", "bias", f"{text}\n{origins(made)}\n")


def seed_rows(seed: int, done: Collection[str], recipe: Recipe, origin: Provenance) -> list[LedgerRow]:
    """The rows of a seed but those that are done."""
    settings, found = studies.settings_of(recipe), asyncio.run(rows(seed, recipe, done))
    return [
        studies.new_row(arm, seed, origin, settings, seconds, **result)
        for arm, (seconds, result) in found.items()
    ]


def main(
    study: Annotated[str, typer.Option(help="lock or bias.")],
    seeds: studies.Seeds = "0-4",
    table: studies.Table = False,
    check_seed: studies.Check = None,
    quick: studies.Quick = False,
    allow_dirty: studies.Dirty = False,
) -> None:
    """Run what the ledger lacks of a study, and write its table."""
    torch.set_num_threads(1)
    recipe = RECIPES[study]
    if quick:
        small = recipe.model_copy(update={"warm_start": 30, "steps": 2, "samples": 2})
        for row in seed_rows(0, (), small, provenance(allow_dirty=True)):
            studies.show(row)
        return
    if check_seed is not None:
        again = seed_rows(check_seed, (), recipe, provenance(allow_dirty=True))
        stored = LEDGER.rows(studies.settings_of(recipe))
        raise typer.Exit(0 if studies.seed_repeats(stored, check_seed, again) else 1)
    if not table:
        commit_of(RESULTS / "plans" / "rubrics.md")  # refuses a plan that is not committed
        play = partial(seed_rows, recipe=recipe, origin=provenance(allow_dirty=allow_dirty))
        arms = LOCK_ARMS if study == "lock" else BIAS_ARMS
        studies.play_seeds(play, seeds_of(seeds), arms, LEDGER, studies.settings_of(recipe))
    write_table(recipe)


if __name__ == "__main__":
    typer.run(main)
