"""MarsRL in miniature from several warm starts, with chains, several updates a step, and more controls."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from mars_env.envs import Game, solve_verify_correct
from mars_env.evaluation.baselines import Baseline, checked_attempts, retries, weighted_vote
from mars_env.evaluation.trees import final_answer
from mars_env.grading import grader_for
from mars_env.miniature import CHECKPOINT, load
from mars_env.miniature.experiment import TrainedMiniature, evaluate_team
from mars_env.miniature.recipe import QUICK, RECIPE, Recipe
from mars_env.types import Tree
from studies.common.claims import Claim
from studies.common.episodes import rewards_of
from studies.common.ledger import LedgerRow
from studies.common.pages import SOLVER, SYSTEM
from studies.common.study import Result, Run, Study, arm_by_arm
from studies.marsrl.experiment import (
    Arm,
    affordable,
    equal_token_baselines,
    play_held_out,
    train_arm,
    warm_started,
)
from studies.marsrl.study import ARM, COLUMNS, ROLES, baseline_figures, team_figures
from studies.marsrl.warm_start import STAGES, Stage


@dataclass(frozen=True, slots=True)
class Start:
    """A warm start: the seed of its weights and demonstrations, and what it is taught."""

    name: str
    seed: int
    stages: tuple[Stage, ...]


POOR: Final = Start("poor", 0, STAGES)
STARTS = (POOR, Start("poor 1", 1, STAGES), Start("poor 2", 2, STAGES), Start("good", 0, STAGES[:-1]))
UPDATES: Final = {"minibatches": 4, "epochs": 2}
GSPO: Final = {"ratio": "sequence", "aggregation": "sequence-mean", "clip_low": 3e-4, "clip_high": 4e-4}
EVERYWHERE = (ARM["none"], ARM["all"], ARM["verifier+corrector"])
POOR_ONLY = (
    ARM["shared"],
    Arm("chains", "all three, independent chains", None, chains=14),
    Arm("shared chains", "independent chains, one shared team reward", None, shared_reward=True, chains=14),
)
SEVERAL_UPDATES = (
    Arm("4x2", "4 minibatches, 2 epochs", None, changes=UPDATES),
    Arm("4x2, gspo", "the same, GSPO", None, changes={**UPDATES, **GSPO}),
    Arm("4x2, kl", "the same, KL 0.01", None, changes={**UPDATES, "kl_coefficient": 0.01}),
)
FEW, MANY = range(10, 15), range(10, 20)


@dataclass(frozen=True, slots=True)
class Row:
    """Where training starts, how it trains, and the plan's seeds."""

    start: Start
    arm: Arm
    seeds: range

    @property
    def name(self) -> str:
        """Its name in the ledger, such as "poor 1, all"."""
        return f"{self.start.name}, {self.arm.name}"


ROWS: Final[Mapping[str, Row]] = {
    row.name: row
    for row in (
        *(Row(POOR, arm, MANY) for arm in (*EVERYWHERE, *POOR_ONLY)),
        *(Row(start, arm, FEW) for start in STARTS[1:] for arm in EVERYWHERE),
        *(Row(POOR, arm, FEW) for arm in SEVERAL_UPDATES),
    )
}
RETRIES, WEIGHTED = "baseline_retries", "baseline_weighted"


def _claims() -> Iterator[Claim]:
    for start in STARTS:
        for figure, title in ((SYSTEM, "System"), (SOLVER, "Solver")):
            text = f"{start.name}: RL adds to the {title}"
            yield Claim(text, f"{start.name}, all", figure, f"{start.name}, none")
    for start in STARTS:
        both, part = f"{start.name}, all", f"{start.name}, verifier+corrector"
        yield Claim(f"{start.name}: joint training above Verifier and Corrector only", both, SYSTEM, part)
    yield Claim("poor: own rewards above one shared reward, grouped", "poor, all", SYSTEM, "poor, shared")
    yield Claim(
        "poor: own rewards above one shared reward, chains", "poor, chains", SYSTEM, "poor, shared chains"
    )
    yield Claim("poor: grouped rollouts above chains, own rewards", "poor, all", SYSTEM, "poor, chains")
    for arm in SEVERAL_UPDATES:
        yield Claim(f"{arm.name} above one update a step", f"poor, {arm.name}", SYSTEM, "poor, all")
    for title, figure in (
        ("a majority vote", "baseline_majority"),
        ("a vote weighted by its Verifier", WEIGHTED),
        ("fresh retries until its Verifier accepts", RETRIES),
    ):
        for start in STARTS:
            name = f"{start.name}, all"
            yield Claim(f"{start.name}: System above {title}, equal tokens", name, SYSTEM, name, figure)
    for start in STARTS:
        for other in STARTS:
            if other is not start:
                name = f"{start.name}, all"
                text = f"{start.name}: its Verifier and Corrector help the untrained Solver of {other.name}"
                yield Claim(text, name, f"{SYSTEM} with {other.name}", name, f"{SOLVER} with {other.name}")


CLAIMS = tuple(_claims())
PRIMARY = (
    "good: RL adds to the System",
    "poor: joint training above Verifier and Corrector only",
    "poor: own rewards above one shared reward, grouped",
    "poor: own rewards above one shared reward, chains",
    "poor: System above fresh retries until its Verifier accepts, equal tokens",
)
PRIMARY_CLAIMS = tuple(claim for claim in CLAIMS if claim.text in PRIMARY)
_COMPARED = {text.partition(": ")[2] for text in PRIMARY}
SHOWN_CLAIMS = tuple(claim for claim in CLAIMS if claim.text.partition(": ")[2] in _COMPARED)
"""The primary comparisons from every warm start that has them."""


def checkpoint(start: Start, run: Run) -> Path:
    """The checkpoint of a warm start; the shipped one is there already."""
    if start is POOR:
        return CHECKPOINT
    return warm_started(run, start.name.replace(" ", "-"), start.stages, start.seed)


@arm_by_arm
async def play(name: str, run: Run) -> Result:
    """Train from a start as the arm says, and evaluate."""
    row, seed, recipe = ROWS[name], run.seed, run.recipe
    trained = await train_arm(row.arm, seed, recipe, start=checkpoint(row.start, run))
    trees = await evaluate_team(trained, seed, recipe)
    figures = team_figures(trees)
    if row.arm.name == "all":
        baselines = await equal_token_baselines(trained, trees, seed, recipe)
        figures |= baseline_figures({"majority": baselines["majority"]})
        figures |= baseline_figures(await verified_baselines(trained, trees, seed, recipe))
        figures |= await transferred(row, trained, run)
    return Result(figures, {"problems": len(trees), "rewards": rewards_of(trained.history, ROLES)})


async def verified_baselines(
    trained: TrainedMiniature, trees: Sequence[Tree], seed: int, recipe: Recipe
) -> dict[str, Baseline]:
    """What the trained Solver and Verifier reach without a Corrector at the System's tokens."""
    game = Game(solve_verify_correct(rounds=0), grader_for("math"))
    samples = math.ceil(1.25 * affordable(trees)) + 1
    pool = await play_held_out(game, trained.agents(recipe), seed, recipe, samples)
    if not any(checked_attempts(pool, final_answer).values()):
        return {}
    return {"weighted": weighted_vote(trees, pool, final_answer), "retries": retries(trees, pool)}


async def transferred(row: Row, trained: TrainedMiniature, run: Run) -> dict[str, float | None]:
    """The System with the untrained Solvers of the other starts, and those Solvers alone."""
    found: dict[str, float | None] = {}
    for other in STARTS:
        if other is not row.start:
            solver = load(checkpoint(other, run), name=f"solver of {other.name}")
            mixed = TrainedMiniature({**trained.models, "solver": solver}, ())
            figures = team_figures(await evaluate_team(mixed, run.seed, run.recipe))
            found |= {f"{name} with {other.name}": figures[name] for name in (SYSTEM, SOLVER)}
    return found


def shown(_: Sequence[LedgerRow]) -> dict[str, Any]:
    """What the page shows beside the figures of the rows."""
    return {
        "titles": {row.arm.name: row.arm.title for row in ROWS.values()},
        "primary": PRIMARY_CLAIMS,
        "secondary": [claim for claim in CLAIMS if claim not in PRIMARY_CLAIMS],
        "joint": [name for name in ROWS if name.endswith(", all")],
    }


STUDY = Study(
    name="marsrl_robustness",
    version="44fded54533f",
    task="MarsRL from other warm starts",
    starts="1 of 4, the one that is named",
    arms=tuple(ROWS),
    recipe=RECIPE,
    quick=QUICK,
    updates="marsrl.steps",
    play=play,
    shown=shown,
    claims=SHOWN_CLAIMS,
    seeds_of_arm={name: row.seeds for name, row in ROWS.items()},
    columns=COLUMNS,
)
