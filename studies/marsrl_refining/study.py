"""The team of MarsRL in miniature beside one agent that was taught, and trained, to revise its solution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np

from mars_env.envs import Game, self_refine, solve_verify_correct
from mars_env.errors import ConfigError
from mars_env.evaluation.trees import is_right, sampled_tokens
from mars_env.grading import grader_for
from mars_env.miniature import load, protocol
from mars_env.miniature.agents import MiniatureAgent
from mars_env.miniature.experiment import training_problems
from mars_env.miniature.recipe import QUICK, RECIPE, Recipe
from mars_env.trainers.metrics import StepMetrics
from mars_env.types import Model, Observation, Tree, Turn
from studies.common.claims import Claim
from studies.common.episodes import learned, mean, rewards_of
from studies.common.ledger import LedgerRow
from studies.common.pages import SOLVER, SYSTEM
from studies.common.study import Result, Run, Study, arm_by_arm
from studies.marsrl import study as marsrl
from studies.marsrl.demonstrations import demonstrate
from studies.marsrl.experiment import play_held_out, train_arm, warm_started
from studies.marsrl.warm_start import STAGES

REVISIONS: Final = 4
"""In training: with the first solution five turns, as the team has (S, V, C, V, C)."""
REFINING_STAGES: Final = tuple(
    stage.model_copy(update={"mix": (stage.mix[0], 0.0, stage.mix[1] + stage.mix[2])}) for stage in STAGES
)
"""The team's stages; revisions get the shares of Verifier and Corrector."""
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
    Claim("the team above the agent's one revision, which takes fewer tokens (added later)",
        TEAM, LAST, "trained", ONCE),
    Claim("the team with up to eight corrections above the agent's one revision (second plan)",
        LONGER, LAST, "trained", ONCE),
    Claim("the team with up to eight corrections above up to three (second plan)", LONGER, LAST, TEAM),
)  # fmt: skip


def team_rows() -> list[LedgerRow]:
    """The rows of the trained team as rows of this study, with the figures' names here."""
    names = {FIRST: SOLVER, LAST: SYSTEM, TOKENS: "tokens"}
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
    accept_after = recipe.inference["accept_after"]
    rules = solve_verify_correct(rounds=CORRECTIONS, accept_after=accept_after)
    trees = await play_held_out(Game(rules, grader_for("math")), trained.agents(recipe), seed, recipe)
    right, tokens = by_correction(trees, CORRECTIONS, accept_after)
    figures = {FIRST: right[0], LAST: right[-1], TOKENS: tokens[-1]}
    return Result(figures, {"by_correction": right, "tokens_by_correction": tokens})


def by_correction(
    trees: Sequence[Tree], corrections: int, accept_after: int
) -> tuple[list[float], list[float]]:
    """Accuracy and mean tokens if the team may correct 0, 1, ... times: the beginnings of the episodes."""
    right, tokens = np.zeros((2, len(trees), corrections + 1))
    for row, tree in enumerate(trees):
        is_solution_right, passes, is_judged, spent = list[bool](), list[int](), False, 0
        for turn in tree.turns:
            spent += sampled_tokens(turn)
            if turn.grade is not None:
                is_solution_right.append(is_right(turn) is True)
                passes.append(0)
                is_judged = False
            else:
                passes[-1] += turn.info["verdict"] == "Correct"
                is_judged = True
            last = len(passes) - 1
            right[row, last:] = is_solution_right[answer_so_far(passes, is_judged, accept_after)]
            tokens[row, last:] = spent
    return right.mean(axis=0).tolist(), tokens.mean(axis=0).tolist()


def answer_so_far(passes: Sequence[int], is_judged: bool, accept_after: int) -> int:
    """Which solution is the answer of an episode that ends here, given how often each was judged correct.

    The last one, if it is accepted or not judged yet; else the one most often judged correct, the earliest of
    equals.
    """
    if not is_judged or passes[-1] >= accept_after:
        return len(passes) - 1
    return passes.index(max(passes))


@arm_by_arm
async def play(arm: str, run: Run) -> Result:
    """One row: of the agent with the team's tokens, or of the team that may correct more often."""
    return await run_team(run.seed, run.recipe) if arm == LONGER else await run_agent(arm, run)


async def run_agent(arm: str, run: Run) -> Result:
    """Teach the agent, perhaps train it on as many samples as the team, and evaluate it."""
    seed, recipe = run.seed, run.recipe
    start = warm_started(run, "refining", REFINING_STAGES, demonstrations=partial(demonstrate, alone=True))
    model, history = load(start, name="refining"), list[StepMetrics]()
    agent = partial(RefiningSolver, temperature=recipe.temperature)
    if arm == "trained":
        game = Game(self_refine(revisions=REVISIONS), grader_for("math"))
        settings = recipe.marsrl.model_copy(update={"seed": seed})
        history = await learned(
            model, game, training_problems(seed), settings, lambda _, own: agent(own, policy=own.name)
        )
    budget = budget_of(seed if recipe == RECIPE else 0)
    # No solution has more than SOLUTION_TOKENS, but revisions may be much shorter.
    most = self_refine(revisions=math.ceil(4 * budget / protocol.SOLUTION_TOKENS))
    trees = await play_held_out(Game(most, grader_for("math")), {"solver_0": agent(model)}, seed, recipe)
    found = at_budget(trees, budget)
    figures = {FIRST: found.first, LAST: found.last, TOKENS: found.tokens}
    rewards = rewards_of(history, ["solver"])["solver"]
    return Result(figures, {"turns": found.turns, "by_turn": list(found.by_turn), "rewards": rewards})


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


class Refined(NamedTuple):
    """An agent that revises: accuracy of its first and last solution within a budget, and after each turn."""

    first: float
    last: float
    tokens: float
    turns: int
    by_turn: tuple[float, ...]


def at_budget(trees: Sequence[Tree], budget: float) -> Refined:
    """Accuracy and tokens by turn, and after the first number of turns whose mean tokens reach the budget."""
    right = np.array([[float(is_right(turn) is True) for turn in _in_order(tree)] for tree in trees])
    tokens = np.array([[float(sampled_tokens(turn)) for turn in _in_order(tree)] for tree in trees])
    by_turn, spent = right.mean(axis=0).tolist(), tokens.mean(axis=0).cumsum().tolist()
    turns = min(int(np.searchsorted(spent, budget)) + 1, len(by_turn))
    return Refined(by_turn[0], by_turn[turns - 1], spent[turns - 1], turns, tuple(by_turn))


def _in_order(tree: Tree) -> list[Turn]:
    return sorted(tree.turns, key=lambda turn: len(turn.id))


def beside_the_team(rows: Sequence[LedgerRow]) -> list[LedgerRow]:
    """Rows with the accuracy after one revision, and the team's of their seeds."""
    seeds = {row.seed for row in rows}
    once = [{ONCE: row.detail["by_turn"][1]} if row.arm in AGENTS else {} for row in rows]
    found = [
        row.model_copy(update={"figures": {**row.figures, **more}})
        for row, more in zip(rows, once, strict=True)
    ]
    return [*found, *(row for row in team_rows() if row.seed in seeds)]


def shown(rows: Sequence[LedgerRow]) -> dict[str, Any]:
    """Accuracy and tokens by revisions of the agent, and by corrections of the team."""
    curves = {arm: [row.detail["by_turn"] for row in rows if row.arm == arm] for arm in AGENTS}
    shortest = min(len(curve) for several in curves.values() for curve in several)
    longer = [row.detail for row in rows if row.arm == LONGER]
    return {
        "columns": SHOWN,
        "turns": sorted(row.detail["turns"] for row in rows if row.arm in AGENTS),
        "revisions": {arm: means([curve[:shortest] for curve in several]) for arm, several in curves.items()},
        "right": means([detail["by_correction"] for detail in longer]),
        "tokens": means([detail["tokens_by_correction"] for detail in longer]),
    }


def means(curves: Sequence[Sequence[float]]) -> list[float]:
    """The mean over curves at each of their points."""
    return [mean(points) for points in zip(*curves, strict=True)]


STUDY = Study(
    name="marsrl_refining",
    version="a55095e7ebaf",
    task="one agent that revises",
    starts="1, made poor on purpose",
    arms=ARMS,
    recipe=RECIPE,
    quick=QUICK,
    updates="marsrl.steps",
    play=play,
    shown=shown,
    claims=CLAIMS,
    columns=COLUMNS,
    widen=beside_the_team,
)
