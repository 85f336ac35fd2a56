"""MarsRL's ablation in miniature, over seeds, with equal-token baselines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mars_env.errors import ConfigError
from mars_env.evaluation import Baseline
from mars_env.miniature import load
from mars_env.miniature.experiment import TrainedMiniature, evaluate_team
from mars_env.miniature.protocol import CHECK
from mars_env.miniature.recipe import QUICK, RECIPE, Recipe
from mars_env.types import Tree
from mars_env.viewer.plots import training_curves
from studies.common.claims import Claim
from studies.common.episodes import metrics_of, rewards_of
from studies.common.ledger import LedgerRow
from studies.common.pages import ANSWERS, REPAIRS, SOLVER, SYSTEM, reward_curve, seconds_of_seeds
from studies.common.study import Result, Run, Study, arm_by_arm
from studies.marsrl.experiment import (
    ARMS,
    Arm,
    continuing_baselines,
    equal_token_baselines,
    train_arm,
    warm_started,
)
from studies.marsrl.warm_start import STAGES

ROLES = ("solver", "verifier", "corrector")
LENGTHS = {"short": (1, 2, 3), "long": (4, 5, 6)}
COLUMNS = {**ANSWERS, "gain": "System - Solver", **REPAIRS}
CLAIMS = (
    Claim("before training, the loop adds nothing or hurts", "none", SYSTEM, "none", SOLVER, above=False),
    Claim("Solver: joint above Verifier and Corrector only", "all", SOLVER, "verifier+corrector"),
    Claim("System, own weights for each role: joint above Verifier and Corrector only",
          "separate all", SYSTEM, "separate verifier+corrector"),
)  # fmt: skip
"""Those that the overview leaves out."""
ARM = {arm.name: arm for arm in ARMS}
CONTINUED = {f"{name}, continued": ARM[name] for name in ("none", "all")}
CONTINUING = {
    "continuing_once": "own text, one attempt",
    "continuing": "own text, vote",
    "afresh_once": "rest as a new problem, one attempt",
    "afresh": "rest as a new problem, vote",
}
FORCED, BEFORE = "none, check forced", "before habits"
CONTROLS = {
    FORCED: 'the untrained team, the first token of every report forced to be "Check:"',
    BEFORE: "the warm start before its last stage, which teaches the bad habits",
}
CHECKS = {"verifier": CHECK}
ROWS = (*ARM, *CONTROLS, *CONTINUED)


@arm_by_arm
async def play(name: str, run: Run) -> Result:
    """An arm, an arm's Solver continued, or a control."""
    if name in CONTROLS:
        return await control(name, run)
    if name in CONTINUED:
        return await continued(CONTINUED[name], run.seed, run.recipe)
    return await ablation(ARM[name], run.seed, run.recipe)


def team_figures(trees: Sequence[Tree]) -> dict[str, float | None]:
    """The figures of a team, over all problems and over short and long ones."""
    found = metrics_of(trees)
    figures = {name: found[name].value for name in (*COLUMNS, "tokens") if name in found}
    for length, levels in LENGTHS.items():
        part = metrics_of([tree for tree in trees if tree.problem.metadata["level"] in levels])
        for name in ANSWERS:
            figures[f"{name}_{length}"] = part[name].value
    return figures


def baseline_figures(baselines: Mapping[str, Baseline]) -> dict[str, float | None]:
    """The accuracy of each baseline and the tokens that it spent."""
    figures: dict[str, float | None] = {}
    for name, baseline in baselines.items():
        figures[f"baseline_{name}"] = baseline.accuracy.value
        figures[f"baseline_{name}_tokens"] = baseline.tokens
    return figures


async def ablation(arm: Arm, seed: int, recipe: Recipe) -> Result:
    """Train an arm, evaluate it, and evaluate its Solver with the System's tokens."""
    trained = await train_arm(arm, seed, recipe)
    trees = await evaluate_team(trained, seed, recipe)
    figures = team_figures(trees) | baseline_figures(
        await equal_token_baselines(trained, trees, seed, recipe)
    )
    for role in ROLES:
        counts = [step.roles.get(role, {}).get("trained", 0.0) for step in trained.history]
        figures[f"trained_{role}"] = sum(counts)
    rewards = rewards_of(trained.history, ROLES)
    return Result(figures, {"rewards": rewards, "problems": len(trees), "steps": len(trained.history)})


async def continued(arm: Arm, seed: int, recipe: Recipe) -> Result:
    """Train an arm again, and continue its Solver after each cut."""
    trained = await train_arm(arm, seed, recipe)
    trees = await evaluate_team(trained, seed, recipe)
    figures = team_figures(trees)
    own = [
        row for row in STUDY.ledger.rows(STUDY.settings(recipe)) if (row.arm, row.seed) == (arm.name, seed)
    ]
    for row in own:
        differs = sorted(name for name in figures if figures[name] != row.figures.get(name))
        if differs:
            raise ConfigError(f"{arm.name}, seed {seed}, differs from its row in {', '.join(differs)}")
    figures |= baseline_figures(await continuing_baselines(trained, trees, seed, recipe))
    return Result(figures, {"problems": len(trees), "repeats_row": bool(own)})


async def control(name: str, run: Run) -> Result:
    """Evaluate a team that was not trained with rewards."""
    seed, recipe = run.seed, run.recipe
    if name == FORCED:
        trees = await evaluate_team(await train_arm(ARM["none"], seed, recipe), seed, recipe, forced=CHECKS)
    else:
        model = load(warm_started(run, "before-habits", STAGES[:-1]), name="before habits")
        trees = await evaluate_team(TrainedMiniature(dict.fromkeys(ROLES, model), ()), seed, recipe)
    return Result(team_figures(trees), {"problems": len(trees)})


def shown(rows: Sequence[LedgerRow]) -> dict[str, Any]:
    """What the page shows of the rows beside their figures."""
    return {
        "present": ARMS,
        "detail": next(row.detail for row in rows if row.arm == "all"),
        "roles": ROLES,
        "claims": (*STUDY.claims, *CLAIMS),
        "lengths": {
            f"{figure}_{length}": f"{who}, {length}" for length in LENGTHS for figure, who in ANSWERS.items()
        },
        "continued": CONTINUED,
        "continuing": CONTINUING,
        "continuing_claims": [
            Claim(f"{arm.name}: System above {title}", name, SYSTEM, name, f"baseline_{key}")
            for name, arm in CONTINUED.items()
            for key, title in CONTINUING.items()
        ],
        "controls": CONTROLS,
        "seconds": seconds_of_seeds([row for row in rows if row.arm in ARM]),
    }


def plots(rows: Sequence[LedgerRow]) -> dict[str, bytes]:
    """The mean rewards of the jointly trained team, by role and step."""
    joint = [row for row in rows if row.arm == "all"]
    found = {role: reward_curve(joint, role, joint[0].detail["steps"]) for role in ROLES}
    curves = {role: [(step + 1, mean) for step, mean in curve] for role, curve in found.items()}
    return {"rewards.svg": training_curves(curves, ylabel="mean reward")}


_BOTH = "all, continued"
STUDY = Study(
    name="marsrl",
    version="5a646c882d4f",
    task="MarsRL",
    starts="1, made poor on purpose",
    arms=ROWS,
    recipe=RECIPE,
    quick=QUICK,
    updates="marsrl.steps",
    play=play,
    shown=shown,
    claims=(
        Claim("RL adds to the Solver", "all", SOLVER, "none"),
        Claim("RL adds to the System", "all", SYSTEM, "none"),
        Claim("the trained System is above its own Solver", "all", SYSTEM, "all", SOLVER),
        Claim("... above a majority vote of it at equal tokens", "all", SYSTEM, "all", "baseline_majority"),
        Claim("... above it continued from its own cut, with a vote, at equal tokens",
              _BOTH, SYSTEM, _BOTH, "baseline_continuing"),
        Claim("... above it when a program poses the rest as a new problem, with a vote, at equal tokens",
              _BOTH, SYSTEM, _BOTH, "baseline_afresh"),
        Claim("RL brings the team above where it was before it was made poor", "all", SYSTEM, BEFORE),
        Claim("training all three beats training the Solver only", "all", SYSTEM, "solver"),
        Claim("training all three beats training Verifier and Corrector only",
              "all", SYSTEM, "verifier+corrector"),
        Claim("own rewards beat one shared reward", "all", SYSTEM, "shared"),
    ),
    columns=COLUMNS,
    plan_of=None,
    plots=plots,
)  # fmt: skip
