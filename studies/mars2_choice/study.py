"""The study on MARS2's final choice: public tests that leave several candidates, and a learned reward model.

    python -m studies.mars2_choice --seeds 0-4     # runs what the ledger lacks, writes the tables
    python -m studies.mars2_choice --table         # only writes the tables of docs/final-choice.md
    python -m studies.mars2_choice --check 0       # plays a seed's rows again and compares them
    python -m studies.mars2_choice --tuning recipe.json --seeds 100 --arm single
    python -m studies.mars2_choice --quick         # a very small seed; nothing is kept

Plan: docs/results/plans/mars2-choice.md. Ledger: docs/results/mars2-choice.jsonl; runs on tuning seeds (100
and above) are kept apart, in docs/results/mars2-choice-tuning.jsonl, each with its recipe. A row is written
when it is done; a run may be interrupted.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import torch
import typer

from mars_env.evaluation import Provenance, provenance
from studies.common import program as studies
from studies.common.claims import Claim, claims_table
from studies.common.ledger import Ledger, LedgerRow, arms_table, origins, seeds_of
from studies.common.program import DOCS, RESULTS
from studies.mars2.experiment import train_team
from studies.mars2_choice.choice import (
    CHOICE_ARMS,
    CHOICE_QUICK,
    CHOICE_RECIPE,
    ChoiceRecipe,
    choice_figures,
)

LEDGER = Ledger(RESULTS / "mars2-choice.jsonl")
TUNING = Ledger(RESULTS / "mars2-choice-tuning.jsonl")
RECIPE = CHOICE_RECIPE
PLANNED = "0-4"
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


async def run(name: str, seed: int, recipe: ChoiceRecipe, cache: Path, origin: Provenance) -> LedgerRow:
    """Train one arm of a seed, then its reward model, and evaluate both."""
    arm, began = ARM[name], time.process_time()
    trained = await train_team(arm, seed, recipe.mars2, cache=cache)
    detail = {"training_cpu_seconds": round(time.process_time() - began, 1)}
    with tempfile.TemporaryDirectory() as folder:
        figures = await choice_figures(arm, trained, seed, Path(folder), recipe, cache)
    seconds = time.process_time() - began
    return studies.new_row(name, seed, origin, studies.settings_of(recipe), seconds, figures, detail)


def play(
    name: str, seed: int, recipe: ChoiceRecipe, cache: Path, origin: Provenance, tuning: bool
) -> LedgerRow:
    """`run`, in a process of its own; a row of a tuning seed has its recipe with it."""
    torch.set_num_threads(1)
    row = asyncio.run(run(name, seed, recipe, cache, origin))
    return studies.with_recipe(row, recipe) if tuning else row


def main(
    seeds: studies.Seeds = PLANNED,
    arm: studies.Arms = None,
    jobs: studies.Jobs = 1,
    table: studies.Table = False,
    check_seed: studies.Check = None,
    tuning: Annotated[
        Path | None, typer.Option(help="A recipe as JSON, for seeds from 100 on; rows go to the tuning log.")
    ] = None,
    quick: studies.Quick = False,
    allow_dirty: studies.Dirty = False,
    cache: studies.Cache = None,
) -> None:
    """Run the study on MARS2's final choice."""
    names, wanted = studies.chosen(arm, ARM), seeds_of(seeds)
    studies.refuse_mixed_seeds(() if quick or table else wanted, tuning is not None)
    recipe = CHOICE_QUICK if quick else RECIPE
    if tuning is not None:
        recipe = ChoiceRecipe.model_validate_json(tuning.read_text(encoding="utf-8"))
    ledger = LEDGER if tuning is None else TUNING
    settings = studies.settings_of(recipe)
    with tempfile.TemporaryDirectory() as folder:
        place = (cache or Path(folder)) / settings
        origin = provenance(allow_dirty=allow_dirty or quick or table or check_seed is not None)
        played = partial(play, recipe=recipe, cache=place, origin=origin, tuning=tuning is not None)
        if check_seed is not None:
            raise typer.Exit(0 if studies.repeats(ledger.rows(settings), check_seed, names, played) else 1)
        if quick:
            show([played(name, wanted[0]) for name in names], names)
            return
        if not table:
            owed = ledger.missing(names, wanted, settings)
            studies.play_owed(played, owed, ledger, TEAMS | CHOICES, jobs)
    if rows := ledger.rows(settings):
        show(rows, names)
    if tuning is None:
        write_page()


def show(rows: Sequence[LedgerRow], names: Sequence[str]) -> None:
    """Print the tables."""
    studies.console.print(tables(rows, names), markup=False, highlight=False)


def tables(rows: Sequence[LedgerRow], names: Sequence[str] = tuple(ARM)) -> str:
    """The tables of teams, choices, budgets and what is left to choose; with all arms, the claims."""
    present = [name for name in names if any(row.arm == name for row in rows)]
    cuts = sorted(
        {key.split(" at ")[1].split("_")[0] for row in rows for key in row.figures if " at " in key}
    )
    by_budget = {
        f"{search} at {cut}_pass@1": f"{title}, {cut} tokens"
        for search, title in (("search", "the first"), ("learned", "learned"))
        for cut in sorted(cuts, key=int)
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
    if set(ARM) <= set(present):
        parts.append(claims_table(rows, CLAIMS))
        parts.append("The same choice in the other teams:\n\n" + claims_table(rows, OTHER_CLAIMS))
    return "\n".join(parts)


def number(rows: Sequence[LedgerRow], arm: str, figure: str) -> str:
    """The mean of a figure over the seeds: a count as it is, a share in percent."""
    found = [row.figures[figure] for row in rows if row.arm == arm]
    mean = sum(found) / len(found)
    return f"{mean:,.0f}" if figure == "taught" else f"{100 * mean:.1f}%"


def write_page() -> None:
    """Write the tables of docs/final-choice.md from the ledger."""
    rows = studies.present_rows(LEDGER, studies.settings_of(RECIPE))
    owed = studies.still_owed(len(ARM) * len(seeds_of(PLANNED)), rows)
    seconds = [row.seconds for row in rows]
    spent = f"Processor seconds of a row, one thread: {min(seconds):.0f} to {max(seconds):.0f}."
    text = f"{owed}{tables(rows)}\n{spent}\n\n{origins(rows)}\n"
    studies.write(DOCS / "final-choice.md", "final-choice", text)


if __name__ == "__main__":
    typer.run(main)
