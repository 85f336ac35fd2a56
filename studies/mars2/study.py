"""MARS2's scaling law in miniature: from one agent to many, over seeds."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from mars_env.viewer.plots import training_curves
from studies.common.claims import Claim
from studies.common.episodes import mean
from studies.common.ledger import LedgerRow, arm_estimate
from studies.common.pages import seconds_of_seeds
from studies.common.study import Result, Run, Study, arm_by_arm
from studies.mars2.experiment import ARMS, evaluate_team, train_team
from studies.mars2.recipe import QUICK, RECIPE

ARM = {arm.name: arm for arm in ARMS}

SEARCHES = {
    "pass@1": "Pass@1 of the agents",
    "best-of-n_pass@1": "best-of-n",
    "refinement_pass@1": "refinement",
    "search_pass@1": "AB-MCTS",
}
CURVES = ("untrained", "single", "homogeneous", "equal pair", "heterogeneous")


@arm_by_arm
async def play(name: str, run: Run) -> Result:
    """Train and evaluate one arm on one seed."""
    arm, seed, recipe, cpu = ARM[name], run.seed, run.recipe, time.process_time()
    trained = await train_team(arm, seed, recipe, run.cache)
    figures = await evaluate_team(trained, seed, recipe, parts=arm.parts)
    completions: dict[str, float] = {}
    for step in trained.history:
        for policy, values in step.policies.items():
            completions[policy] = completions.get(policy, 0.0) + values.get("completions", 0.0)
    sampled = sum(role["turns"] for step in trained.history for role in step.roles.values())
    rewards = [step.roles["coder"].get("reward") for step in trained.history]
    figures |= {"sampled": sampled, "cpu_seconds": round(time.process_time() - cpu, 1)}
    detail = {
        "rewards": [None if reward is None else round(reward, 4) for reward in rewards],
        "trained": completions,
        "steps": len(trained.history),
        "problems": recipe.problems,
        "tokens": recipe.tokens,
    }
    return Result(figures, detail)


def trained_on(rows: Sequence[LedgerRow], arm: str) -> str:
    """The number of programs that entered the loss of each model, averaged over seeds."""
    found = [row.detail["trained"] for row in rows if row.arm == arm]
    means = {model: sum(each[model] for each in found) / len(found) for model in found[0]}
    return ", ".join(f"{model} {mean:,.0f}" for model, mean in means.items()) or "–"


def shown(rows: Sequence[LedgerRow]) -> dict[str, Any]:
    """What the page shows of the rows beside their figures."""
    return {
        "present": ARMS,
        "within_arms": [arm.name for arm in ARMS if arm.parts],
        "trained_on": {arm: trained_on(rows, arm) for arm in ARM},
        "seconds": seconds_of_seeds(rows),
        "cpu": mean([row.figures["cpu_seconds"] for row in rows]) * len(ARM),
    }


def plots(rows: Sequence[LedgerRow]) -> dict[str, bytes]:
    """Pass@1 of AB-MCTS in percent by budget, for the arms that are compared."""
    budgets = {cut: f"search_pass@1 at {cut}" for cut in RECIPE.cuts} | {RECIPE.tokens: "search_pass@1"}
    curves = {
        name: [
            (float(tokens), 100 * arm_estimate(rows, name, figure).mean) for tokens, figure in budgets.items()
        ]
        for name in CURVES
    }
    plot = training_curves(curves, ylabel="Pass@1 of the search, %", xlabel="tokens a problem")
    return {"mars2-budget.svg": plot}


PAIR, PASS = "heterogeneous", "search_pass@1"
STUDY = Study(
    name="mars2",
    version="f316bb57127c",
    task="MARS2",
    starts="1 for each seed and model",
    arms=tuple(ARM),
    recipe=RECIPE,
    quick=QUICK,
    updates="steps",
    play=play,
    shown=shown,
    claims=(
        Claim("RL adds to one model's own programs", "single", "pass@1", "untrained"),
        Claim("RL adds to one model's search (AB-MCTS)", "single", PASS, "untrained"),
        Claim("search Pass@1: one model in two roles above one agent", "homogeneous", PASS, "single"),
        Claim("search Pass@1: two different models above one", PAIR, PASS, "homogeneous"),
        Claim("search Pass@1: two different models above two equal ones", PAIR, PASS, "equal pair"),
        Claim("two different models write more different programs than one", PAIR, "distinct", "homogeneous"),
        Claim(
            "... and more different right programs (in 100 problems)", PAIR, "distinct_right", "homogeneous"
        ),
        Claim(
            "T+, all parts, above the search without them", PAIR, "t-plus_pass@1", PAIR, "no-feedback_pass@1"
        ),
    ),
    columns=SEARCHES,
    measured=("cpu_seconds",),
    plan_of=None,
    plots=plots,
)
