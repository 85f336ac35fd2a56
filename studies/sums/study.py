"""The study on a natural task: subset sums, with fresh retries at equal tokens as the bar.

    python -m studies.sums --seeds 0-4      # runs what the ledger lacks, then writes the tables
    python -m studies.sums --table          # only writes the tables of docs/sums.md
    python -m studies.sums --check 0        # plays a seed's rows again and compares them exactly
    python -m studies.sums --tuning --seeds 100 --arm all --steps 40
    python -m studies.sums --quick          # a very small seed of everything; nothing is kept

Plan: docs/results/plans/sums.md. Ledger: docs/results/sums.jsonl; runs on tuning seeds (100 and above) are
kept apart, in docs/results/sums-tuning.jsonl. A row is written when it is done; a run may be interrupted.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import torch
import typer

from mars_env.evaluation import Provenance, provenance
from studies.common import program as studies
from studies.common.claims import Claim, claims_table
from studies.common.ledger import Ledger, LedgerRow, arms_table, origins, seeds_of
from studies.common.program import DOCS, RESULTS
from studies.sums.experiment import ARMS, QUICK, RECIPE, SumsRecipe, figures_of, train_arm

LEDGER, TUNING = Ledger(RESULTS / "sums.jsonl"), Ledger(RESULTS / "sums-tuning.jsonl")
PLANNED = "0-4"
ARM = {arm.name: arm for arm in ARMS}
SYSTEM, SOLVER, FRESH = "system_accuracy", "solver_accuracy", "baseline_fresh"
COLUMNS = {
    SOLVER: "Solver",
    SYSTEM: "System",
    FRESH: "fresh retries",
    "baseline_majority": "majority vote",
    "baseline_weighted": "weighted vote",
    "verifier_precision": "Verifier precision",
    "verifier_recall": "Verifier recall",
    "fix_rate": "fixes",
    "break_rate": "breaks",
}
CLAIMS = (
    Claim("the bar: after joint training, System above fresh retries", "all", SYSTEM, "all", FRESH),
    Claim("before training, System above Solver", "none", SYSTEM, "none", SOLVER),
    Claim("joint training improves the System", "all", SYSTEM, "none"),
    Claim("joint training improves the Solver", "all", SOLVER, "none"),
    Claim("joint training improves the Verifier: wrong answers told (added later)",
        "all", "verifier_recall", "none"),
    Claim("joint training improves the Verifier: its objections right (added later)",
        "all", "verifier_precision", "none"),
    Claim("joint training improves the Corrector: fixes (added later)", "all", "fix_rate", "none"),
    Claim("System: joint above more supervised learning", "all", SYSTEM, "supervised"),
    Claim("System: joint above majority vote", "all", SYSTEM, "all", "baseline_majority"),
    Claim("System: joint above weighted vote", "all", SYSTEM, "all", "baseline_weighted"),
    Claim("System: a reward for the report above one for the verdict", "all", SYSTEM, "all, verdict only"),
)  # fmt: skip


async def run(name: str, seed: int, origin: Provenance, cache: Path, recipe: SumsRecipe) -> LedgerRow:
    """Train one arm of a seed and evaluate it."""
    began = time.process_time()
    model, rewards = await train_arm(ARM[name], seed, recipe, cache)
    trained = time.process_time()
    figures = await figures_of(model, seed, recipe)
    seconds = time.process_time() - began
    detail = {"rewards": rewards, "training_cpu_seconds": round(trained - began, 1)}
    return studies.new_row(name, seed, origin, studies.settings_of(recipe), seconds, figures, detail)


def main(
    seeds: studies.Seeds = PLANNED,
    arm: studies.Arms = None,
    table: studies.Table = False,
    check_seed: studies.Check = None,
    tuning: studies.Tuning = False,
    steps: studies.Steps = None,
    learning_rate: studies.Rate = None,
    solved: Annotated[int | None, typer.Option(help="Solved problems; only with --tuning.")] = None,
    quick: studies.Quick = False,
    allow_dirty: studies.Dirty = False,
    cache: studies.Cache = None,
) -> None:
    """Run the study on subset sums."""
    torch.set_num_threads(1)
    names, wanted = studies.chosen(arm, ARM), seeds_of(seeds)
    studies.refuse_mixed_seeds(() if quick or table else wanted, tuning, (steps, learning_rate, solved))
    recipe = QUICK if quick else varied(RECIPE, steps, learning_rate, solved)
    ledger = TUNING if tuning else LEDGER
    settings = studies.settings_of(recipe)
    origin = provenance(allow_dirty=allow_dirty or quick or check_seed is not None or table)
    with tempfile.TemporaryDirectory() as folder:
        place = cache or Path(folder)
        if solved is not None and cache is not None:
            place = cache / f"solved-{solved}"

        def played(name: str, seed: int) -> LedgerRow:
            row = asyncio.run(run(name, seed, origin, place, recipe))
            return studies.with_recipe(row, recipe) if tuning else row

        if check_seed is not None:
            raise typer.Exit(0 if studies.repeats(ledger.rows(settings), check_seed, names, played) else 1)
        if quick:
            show([played(name, wanted[0]) for name in names], names)
            return
        if not table:
            studies.play_owed(played, ledger.missing(names, wanted, settings), ledger, COLUMNS)
    if rows := ledger.rows(settings):
        show(rows, names)
    if not tuning:
        write_page()


def varied(
    recipe: SumsRecipe, steps: int | None, learning_rate: float | None, solved: int | None
) -> SumsRecipe:
    """The recipe with other numbers, for tuning."""
    marsrl = studies.varied_run(recipe.marsrl, steps, learning_rate)
    warm = recipe.warm_start if solved is None else recipe.warm_start.model_copy(update={"solved": solved})
    return recipe.model_copy(update={"marsrl": marsrl, "warm_start": warm})


def show(rows: Sequence[LedgerRow], names: Sequence[str]) -> None:
    """Print the tables."""
    studies.console.print(tables(rows, names), markup=False, highlight=False)


def tables(rows: Sequence[LedgerRow], names: Sequence[str] = tuple(ARM)) -> str:
    """The table of arms and, where all arms are there, the claims."""
    found = arms_table(rows, names, COLUMNS)
    if set(ARM) <= {row.arm for row in rows} & set(names):
        found += "\n" + claims_table(rows, CLAIMS)
    return found


def spread(rows: Sequence[LedgerRow], name: str) -> str:
    """The smallest and the largest processor time of an arm's training, without the warm start's."""
    found = [row.detail["training_cpu_seconds"] for row in rows if row.arm == name]
    return f"{min(found):.0f} to {max(found):.0f}" if found else "not run"


def write_page() -> None:
    """Write the tables of docs/sums.md from the ledger."""
    rows = studies.present_rows(LEDGER, studies.settings_of(RECIPE))
    owed = studies.still_owed(len(ARM) * len(seeds_of(PLANNED)), rows)
    spent = "; ".join(f"{name} {spread(rows, name)}" for name in ARM if name != "none")
    text = f"{tables(rows)}\nProcessor seconds of the training, one thread: {spent}.\n\n{origins(rows)}\n"
    studies.write(DOCS / "sums.md", "sums", owed + text)


if __name__ == "__main__":
    typer.run(main)
