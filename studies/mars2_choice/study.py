"""MARS2's final choice: several candidates, and a learned reward model."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from studies.common.claims import Claim, claims_table
from studies.common.ledger import LedgerRow, arms_table, origins
from studies.common.study import Result, Run, Study, arm_by_arm
from studies.mars2.experiment import train_team
from studies.mars2_choice.choice import CHOICE_ARMS, CHOICE_QUICK, CHOICE_RECIPE, choice_figures

ARM = {arm.name: arm for arm in CHOICE_ARMS}
T_PLUS, FIRST, LEARNED = "t-plus_pass@1", "search_pass@1", "learned_pass@1"
CHOICES = {
    FIRST: "the first",
    "vote_pass@1": "a vote",
    "shortest_pass@1": "the shortest",
    LEARNED: "learned reward model",
    "search_pass@n": "Pass@N: a perfect choice",
}
TEAMS = {
    "pass@1": "Pass@1 of the agents",
    "best-of-n_pass@1": "best-of-n",
    FIRST: "AB-MCTS",
    T_PLUS: "T+ with the learned model",
    "t-plus_pass@n": "T+, Pass@N",
    "distinct_right": "different right programs for 100 problems",
}
LEFT = {
    "search_passed": "searches with a program that passes",
    "search_several": "with several",
    "search_open": "with right and wrong ones",
    "taught": "programs that the reward model learnt from",
    "taught_right": "right ones among them",
}
CLAIMS = (
    Claim("the bar: T+ with a learned reward model above the same search that takes its first candidate",
        "heterogeneous", T_PLUS, "heterogeneous", "depth_pass@1"),
    Claim("T+ with it: two different models above one in two roles", "heterogeneous", T_PLUS, "homogeneous"),
    Claim("T+ with it: two different models above two equal ones", "heterogeneous", T_PLUS, "equal pair"),
    Claim("T+ with it: one model in two roles above one agent", "homogeneous", T_PLUS, "single"),
    Claim("... two equal models above one agent", "equal pair", T_PLUS, "single"),
    Claim("one agent: a learned choice above the first candidate", "single", LEARNED, "single", FIRST),
    Claim("one agent: a learned choice above a vote", "single", LEARNED, "single", "vote_pass@1"),
    Claim("one agent: a learned choice above the shortest", "single", LEARNED, "single", "shortest_pass@1"),
    Claim("two different models: a learned choice above a vote",
        "heterogeneous", LEARNED, "heterogeneous", "vote_pass@1"),
    Claim("different right programs: two different models above one in two roles",
        "heterogeneous", "distinct_right", "homogeneous"),
    Claim("RL adds to T+ of one agent", "single", T_PLUS, "untrained"),
)  # fmt: skip
OTHER_CLAIMS = tuple(
    Claim(f"{name}: a learned choice above {CHOICES[other]}", name, LEARNED, name, other)
    for name in ARM
    for other in (FIRST, "vote_pass@1", "shortest_pass@1")
    if not any((claim.arm, claim.figure, claim.other_figure) == (name, LEARNED, other) for claim in CLAIMS)
)
"""What the plan compares beside `CLAIMS`: the same choice, in the other teams."""


@arm_by_arm
async def play(name: str, run: Run) -> Result:
    """Train one arm of a seed, then its reward model, and evaluate both."""
    arm, began = ARM[name], time.process_time()
    trained = await train_team(arm, run.seed, run.recipe.mars2, run.cache)
    detail = {"training_cpu_seconds": round(time.process_time() - began, 1)}
    with tempfile.TemporaryDirectory() as folder:
        figures = await choice_figures(arm, trained, run.seed, Path(folder), run.recipe, run.cache)
    return Result(figures, detail)


def text(rows: Sequence[LedgerRow]) -> str:
    """The tables of teams, choices, budgets and what is left to choose, and the claims."""
    present = list(ARM)
    by_budget = {
        f"{search} at {cut}_pass@1": f"{title}, {cut} tokens"
        for search, title in (("search", "the first"), ("learned", "learned"))
        for cut in CHOICE_RECIPE.mars2.cuts
    }
    parts = [
        arms_table(rows, present, TEAMS),
        "The same trees of AB-MCTS, by what makes the final choice:\n\n" + arms_table(rows, present, CHOICES),
        "The same trees, stopped earlier:\n\n" + arms_table(rows, present, by_budget),
        "What the public tests leave, and what the reward model learnt from:\n\n"
        + "\n".join(
            f"- {name}: " + ", ".join(f"{title} {number(rows, name, key)}" for key, title in LEFT.items())
            for name in present
        )
        + "\n",
    ]
    seconds = [row.seconds for row in rows]
    parts += [
        claims_table(rows, CLAIMS),
        "The same choice in the other teams:\n\n" + claims_table(rows, OTHER_CLAIMS),
        f"Processor seconds of a row, one thread: {min(seconds):.0f} to {max(seconds):.0f}.\n",
        f"{origins(rows)}\n",
    ]
    return "\n".join(parts)


def number(rows: Sequence[LedgerRow], arm: str, figure: str) -> str:
    """The mean of a figure over the seeds: a count as it is, a share in percent."""
    found = [row.figures[figure] for row in rows if row.arm == arm]
    mean = sum(found) / len(found)
    return f"{mean:,.0f}" if figure == "taught" else f"{100 * mean:.1f}%"


STUDY = Study(
    name="mars2_choice",
    task="MARS2's final choice",
    starts="1 for each seed and model",
    arms=tuple(ARM),
    recipe=CHOICE_RECIPE,
    quick=CHOICE_QUICK,
    play=play,
    text=text,
    claims=CLAIMS + OTHER_CLAIMS,
    columns=TEAMS | CHOICES,
)
