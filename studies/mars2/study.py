"""MARS2's scaling law in miniature: from one agent to many, over seeds."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from mars_env.envs.tree_search import T_PLUS
from mars_env.viewer.plots import training_curves
from studies.common.claims import Claim
from studies.common.episodes import mean
from studies.common.ledger import (
    LedgerRow,
    SeedEstimate,
    arm_difference,
    arm_estimate,
    seed_text,
)
from studies.common.pages import seconds_of_seeds, table
from studies.common.study import Result, Run, Study, arm_by_arm
from studies.mars2.experiment import ARMS, evaluate_team, train_team
from studies.mars2.recipe import QUICK, RECIPE, Mars2Recipe

ARM = {arm.name: arm for arm in ARMS}

SEARCHES = {
    "pass@1": "Pass@1 of the agents",
    "best-of-n_pass@1": "best-of-n",
    "refinement_pass@1": "refinement",
    "search_pass@1": "AB-MCTS",
}
ANY = {
    "best-of-n_pass@n": "best-of-n",
    "refinement_pass@n": "refinement",
    "search_pass@n": "AB-MCTS",
}
DIVERSITY = {
    "distinct": "different functions",
    "different": "two agents differ",
    "disagree": "one right, one wrong",
}
RIGHT = {
    "distinct_right": "different right programs for 100 problems",
    "solved": "problems with a right one",
    "right_pairs": "problems with two, by different agents",
    "different_right": "these two differ",
}
CHOICE = {
    "t-plus_solved": "problems with a program that passes",
    "t-plus_one candidate": "one candidate left, whole budget",
    "t-plus stopped_one candidate": "one candidate left, stopped at the first",
}
BUDGETS = {"best-of-n": "best-of-n", "search": "AB-MCTS"}
CURVES = ("untrained", "single", "homogeneous", "equal pair", "heterogeneous")
PARTS = {
    "no-feedback_pass@1": "no part",
    "search_pass@1": "feedback",
    "vote_pass@1": "feedback, vote",
    "shortest_pass@1": "feedback, shortest",
    "depth_pass@1": "feedback, depth",
    "t-plus_pass@1": "all: feedback, depth, shortest",
    "preset_pass@1": "all, no other setting",
}
SHAPE = (
    # text, arm, arm that is taken away
    ("training: single above untrained", "single", "untrained"),
    ("homogeneous above single", "homogeneous", "single"),
    ("heterogeneous above homogeneous", "heterogeneous", "homogeneous"),
    ("heterogeneous above single", "heterogeneous", "single"),
    ("heterogeneous above the equal pair (control)", "heterogeneous", "equal pair"),
    ("equal pair above homogeneous", "equal pair", "homogeneous"),
    ("heterogeneous above homogeneous x2 (control)", "heterogeneous", "homogeneous x2"),
)
COMPARED = {
    "pass@1": "Pass@1 of the agents",
    "search_pass@1": "AB-MCTS, Pass@1",
    "search_pass@n": "AB-MCTS, Pass@N",
    "refinement_pass@1": "refinement, Pass@1",
    "distinct": "different functions, right or wrong",
    "distinct_right": "different right programs for 100 problems",
}
WITHIN = (
    # text, figure, figure that is taken away
    ("AB-MCTS above best-of-n", "search_pass@1", "best-of-n_pass@1"),
    ("AB-MCTS above refinement", "search_pass@1", "refinement_pass@1"),
    ("refinement above best-of-n", "refinement_pass@1", "best-of-n_pass@1"),
    ("T+: feedback", "search_pass@1", "no-feedback_pass@1"),
    ("T+: depth-guided exploration", "depth_pass@1", "search_pass@1"),
    ("T+: a vote as the final choice", "vote_pass@1", "search_pass@1"),
    ("T+: the shortest program as the final choice", "shortest_pass@1", "search_pass@1"),
    ("T+: all parts above none", "t-plus_pass@1", "no-feedback_pass@1"),
    ("T+ with no other setting above AB-MCTS without its parts", "preset_pass@1", "no-feedback_pass@1"),
)
WITHIN_ARMS = tuple(arm.name for arm in ARMS if arm.parts)


def beside(_: Mars2Recipe) -> dict[str, Any]:
    """What decides a result beside the recipe."""
    return {"t-plus": T_PLUS.model_dump(mode="json")}


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


def judged(difference: SeedEstimate) -> str:
    """A difference with its interval, in bold if the interval excludes 0."""
    text = seed_text(difference, signed=True)
    shown = difference.low is not None and difference.high is not None
    excludes = shown and (difference.low or 0.0) * (difference.high or 0.0) > 0
    return f"**{text}**" if excludes else text


def shape_table(rows: Sequence[LedgerRow]) -> str:
    """The parts of the claim, each with its paired differences."""
    lines = [
        (text, *(judged(arm_difference(rows, other, arm, figure)) for figure in COMPARED))
        for text, arm, other in SHAPE
    ]
    return table(("claim", *COMPARED.values()), lines)


def within_table(rows: Sequence[LedgerRow]) -> str:
    """Two ways to search compared, for the same models and tokens."""
    lines = [
        (text, *(judged(arm_difference(rows, arm, arm, less, more)) for arm in WITHIN_ARMS))
        for text, more, less in WITHIN
    ]
    return table(("claim", *WITHIN_ARMS), lines)


def trained_on(rows: Sequence[LedgerRow], arm: str) -> str:
    """The number of programs that entered the loss of each model, averaged over seeds."""
    found = [row.detail["trained"] for row in rows if row.arm == arm]
    means = {model: sum(each[model] for each in found) / len(found) for model in found[0]}
    return ", ".join(f"{model} {mean:,.0f}" for model, mean in means.items()) or "–"


def budgets() -> list[tuple[int, str]]:
    """Budgets in tokens, and the suffix of a search's name in its figures for each."""
    return [*((cut, f"_pass@1 at {cut}") for cut in RECIPE.cuts), (RECIPE.tokens, "_pass@1")]


def curves(rows: Sequence[LedgerRow]) -> Mapping[str, Sequence[tuple[float, float]]]:
    """Pass@1 of AB-MCTS in percent by budget, for the arms that are compared."""
    return {
        name: [
            (float(tokens), 100 * arm_estimate(rows, name, f"search{figure}").mean)
            for tokens, figure in budgets()
        ]
        for name in CURVES
    }


def shown(rows: Sequence[LedgerRow]) -> dict[str, Any]:
    """What the page shows of the rows beside where they come from."""
    spent = [
        (name, trained_on(rows, name), *(f"{arm_estimate(rows, name, figure).mean:,.1f}" for figure in SPENT))
        for name in ARM
    ]
    smaller = {
        f"{search}{figure}": f"{title}, {tokens}"
        for search, title in BUDGETS.items()
        for tokens, figure in budgets()[:-1]
    }
    columns = {"any": ANY, "smaller": smaller, "right": RIGHT, "diversity": DIVERSITY, "parts": PARTS}
    return {
        **columns,
        "choice": CHOICE,
        "present": ARMS,
        "within_arms": WITHIN_ARMS,
        "shape": shape_table(rows),
        "within": within_table(rows),
        "spent": table(("arm", "trained on, by model", *SPENT.values()), spent),
        "seconds": seconds_of_seeds(rows),
        "cpu": mean([row.figures["cpu_seconds"] for row in rows]) * len(ARM),
    }


SPENT = {
    "sampled": "sampled in training",
    "best-of-n_tokens": "tokens, best-of-n",
    "refinement_tokens": "refinement",
    "search_tokens": "AB-MCTS",
    "best-of-n_nodes": "nodes, best-of-n",
    "search_nodes": "nodes, AB-MCTS",
    "search_depth": "depth, AB-MCTS",
}


def plots(rows: Sequence[LedgerRow]) -> dict[str, bytes]:
    """The search by its budget."""
    plot = training_curves(curves(rows), ylabel="Pass@1 of the search, %", xlabel="tokens a problem")
    return {"mars2-budget.svg": plot}


PAIR, PASS = "heterogeneous", "search_pass@1"
STUDY = Study(
    name="mars2",
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
    beside=beside,
    columns=SEARCHES,
    measured=("cpu_seconds",),
    plan_of=None,
    plots=plots,
)
