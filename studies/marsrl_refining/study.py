"""The team of MarsRL in miniature beside one agent that was taught, and trained, to revise its solution."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from mars_env.envs import Game, SolveVerifyCorrect
from mars_env.envs.solve_verify_correct import ChainState, Schedule
from mars_env.errors import ConfigError
from mars_env.evaluation.trees import is_right, sampled_tokens
from mars_env.grading import grader_for
from mars_env.miniature import load
from mars_env.miniature.recipe import QUICK, RECIPE, Recipe
from mars_env.types import Tree
from studies.common.claims import Claim, claims_table
from studies.common.ledger import LedgerRow, arms_table, origins
from studies.common.pages import table
from studies.common.study import Result, Run, Study, arm_by_arm
from studies.marsrl import study as marsrl
from studies.marsrl.experiment import play_held_out, train_arm
from studies.marsrl_refining.refining import (
    REFINING_STAGES,
    REVISIONS,
    evaluate_refining,
    taught,
    train_refining,
)

AGENTS = ("taught", "trained")
LONGER = "team, longer"
ARMS = (*AGENTS, LONGER)
TEAM = "team"
CORRECTIONS = 8
"""That the team of the arm `LONGER` may make; the team of the first study may make three."""
FIRST, LAST, TOKENS = "first_accuracy", "refined_accuracy", "tokens"
ONCE = "once_revised_accuracy"
"""After one revision. It is not in the plan: it was added once the rows were seen."""
COLUMNS = {FIRST: "first solution", LAST: "after revisions, or the System"}
SHOWN = COLUMNS | {ONCE: "after one revision (added later)"}
CLAIMS = (
    Claim("the team above one agent that revises, trained as long, equal tokens", TEAM, LAST, "trained"),
    Claim("RL adds to the agent that revises", "trained", LAST, "taught"),
    Claim("RL adds to its first solution", "trained", FIRST, "taught"),
    Claim("revisions add to the first solution, before RL", "taught", LAST, "taught", FIRST),
    Claim("revisions add to the first solution, after RL", "trained", LAST, "trained", FIRST),
    Claim(
        "the team above the agent's one revision, which takes fewer tokens (added later)",
        TEAM,
        LAST,
        "trained",
        ONCE,
    ),
    Claim(
        "the team with up to eight corrections above the agent's one revision (second plan)",
        LONGER,
        LAST,
        "trained",
        ONCE,
    ),
    Claim("the team with up to eight corrections above up to three (second plan)", LONGER, LAST, TEAM),
)


def beside(_: Recipe) -> dict[str, Any]:
    """What decides a result beside the recipe."""
    stages = [stage.model_dump(mode="json") for stage in REFINING_STAGES]
    return {"stages": stages, "revisions": REVISIONS}


def team_rows() -> list[LedgerRow]:
    """The rows of the trained team as rows of this study, with the figures' names here."""
    names = {FIRST: marsrl.SOLVER, LAST: marsrl.SYSTEM, TOKENS: "tokens"}
    return [
        row.model_copy(
            update={
                "arm": TEAM,
                "settings": STUDY.settings(),
                "figures": {name: row.figures[old] for name, old in names.items()},
            }
        )
        for row in marsrl.STUDY.rows()
        if row.arm == "all"
    ]


def budget_of(seed: int) -> float:
    """The mean tokens that the trained team spends on a held-out problem of a seed."""
    for row in team_rows():
        if row.seed == seed:
            return row.figures[TOKENS]
    raise ConfigError(f"the team has no row of seed {seed}: run studies.marsrl first")


async def run_team(seed: int, recipe: Recipe) -> Result:
    """Train the team as the first study does, and play it with more corrections."""
    trained = await train_arm(marsrl.ARM["all"], seed, recipe)
    rules = SolveVerifyCorrect(Schedule(rounds=CORRECTIONS, accept_after=recipe.inference.accept_after))
    game = Game(rules, grader_for("math"))
    trees = await play_held_out(game, trained.agents(recipe), seed, recipe)
    right, tokens = by_correction(trees, rules)
    figures = {FIRST: right[0], LAST: right[-1], TOKENS: tokens[-1]}
    return Result(figures, {"by_correction": right, "tokens_by_correction": tokens})


def by_correction(trees: Sequence[Tree], rules: SolveVerifyCorrect) -> tuple[list[float], list[float]]:
    """Accuracy and mean tokens if the team may correct 0, 1, ... times: the beginnings of the episodes."""
    right, tokens = np.zeros((2, len(trees), rules.schedule.rounds + 1))
    for row, tree in enumerate(trees):
        state, found, spent = ChainState(tree.problem), [], 0
        for turn in tree.turns:
            spent += sampled_tokens(turn)
            if turn.grade is not None:
                found.append(is_right(turn) is True)
                state = replace(state, solutions=(*state.solutions, (turn.text, False)))
            else:
                judged = (len(found) - 1, turn.info["verdict"] == "Correct")
                state = replace(state, judgements=(*state.judgements, judged))
            right[row, len(found) - 1 :] = found[rules.final(state) or 0]
            tokens[row, len(found) - 1 :] = spent
    return right.mean(axis=0).tolist(), tokens.mean(axis=0).tolist()


@arm_by_arm
async def play(arm: str, run: Run) -> Result:
    """One row: of the agent with the team's tokens, or of the team that may correct more often."""
    return await run_team(run.seed, run.recipe) if arm == LONGER else await run_agent(arm, run)


async def run_agent(arm: str, run: Run) -> Result:
    """Train the agent from its warm start, or not, and evaluate it with the team's tokens."""
    seed, recipe = run.seed, run.recipe
    start = started(run)
    model, history = (
        (load(start, name="refining"), ()) if arm == "taught" else await train_refining(start, seed, recipe)
    )
    found = await evaluate_refining(model, seed, budget_of(seed if recipe is RECIPE else 0), recipe)
    figures = {FIRST: found.first, LAST: found.last, TOKENS: found.tokens}
    rewards = [step.roles.get("solver", {}).get("reward") for step in history]
    return Result(figures, {"turns": found.turns, "by_turn": list(found.by_turn), "rewards": rewards})


def started(run: Run) -> Path:
    """The agent's warm start."""
    stages = REFINING_STAGES
    if run.recipe == QUICK:
        stages = tuple(stage.model_copy(update={"steps": 2}) for stage in stages)
    return taught(run.cache, stages)


def prepare(arms: Collection[str], run: Run) -> None:
    """Make the warm start if the agent is among the arms."""
    if not set(AGENTS).isdisjoint(arms):
        started(run)


def beside_the_team(rows: Sequence[LedgerRow]) -> list[LedgerRow]:
    """Rows with the accuracy after one revision, and the team's of their seeds."""
    seeds = {row.seed for row in rows}
    once = [{ONCE: row.detail["by_turn"][1]} if row.arm in AGENTS else {} for row in rows]
    found = [
        row.model_copy(update={"figures": {**row.figures, **more}})
        for row, more in zip(rows, once, strict=True)
    ]
    return [*found, *(row for row in team_rows() if row.seed in seeds)]


def by_revision(rows: Sequence[LedgerRow]) -> str:
    """Accuracy after each number of revisions that all rows of the agent have, in percent."""
    curves = {arm: [row.detail["by_turn"] for row in rows if row.arm == arm] for arm in AGENTS}
    shortest = min(len(curve) for several in curves.values() for curve in several)
    lines = [(arm, *means(several, shortest, 100)) for arm, several in curves.items()]
    return table(("revisions", *map(str, range(shortest))), lines)


def of_the_team(rows: Sequence[LedgerRow]) -> str:
    """Accuracy and tokens of the team by the most corrections that it may make."""
    columns = CORRECTIONS + 1
    right = means([row.detail["by_correction"] for row in rows], columns, 100)
    tokens = means([row.detail["tokens_by_correction"] for row in rows], columns)
    title = (
        "The same for the team by the most corrections that it may make, with the tokens of a problem:\n\n"
    )
    lines = [("accuracy", *right), ("tokens", *tokens)]
    return title + table(("corrections", *map(str, range(columns))), lines)


def means(curves: Sequence[Sequence[float]], length: int, factor: float = 1.0) -> list[str]:
    """The mean over curves at each of the first points."""
    return [f"{factor * sum(curve[i] for curve in curves) / len(curves):.1f}" for i in range(length)]


def page(rows: Sequence[LedgerRow]) -> str:
    """What the page shows of the rows."""
    every = beside_the_team(rows)
    arms = (*ARMS, TEAM)
    tokens = {arm: [row.figures[TOKENS] for row in every if row.arm == arm] for arm in arms}
    spent = "; ".join(f"{arm} {sum(values) / len(values):.0f}" for arm, values in tokens.items())
    agents = [row for row in rows if row.arm in AGENTS]
    turns = sorted({row.detail["turns"] for row in agents})
    longer = [row for row in rows if row.arm == LONGER]
    parts = (
        arms_table(every, arms, SHOWN),
        f"Tokens a problem: {spent}. Turns within them: {turns[0]} to {turns[-1]}.\n",
        claims_table(every, CLAIMS),
        "Accuracy by the number of the agent's revisions, means over seeds:\n",
        by_revision(agents),
        of_the_team(longer),
        origins(rows),
    )
    return "\n".join(parts)


STUDY = Study(
    name="marsrl_refining",
    task="one agent that revises",
    starts="1, made poor on purpose",
    arms=ARMS,
    recipe=RECIPE,
    quick=QUICK,
    updates="marsrl.steps",
    play=play,
    text=page,
    claims=CLAIMS,
    beside=beside,
    columns=COLUMNS,
    widen=beside_the_team,
    prepare=prepare,
    clock=time.perf_counter,
)
