"""A natural task: subset sums, with fresh retries at equal tokens as the bar."""

from __future__ import annotations

import time
from collections.abc import Sequence

from studies.common.claims import Claim
from studies.common.ledger import LedgerRow
from studies.common.study import Result, Run, Study, arm_by_arm
from studies.sums.agents import team
from studies.sums.experiment import ARMS, QUICK, RECIPE, figures_of, held_out, train_arm

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


@arm_by_arm
async def play(name: str, run: Run) -> Result:
    """Train one arm of a seed and evaluate it."""
    began = time.process_time()
    model, rewards = await train_arm(ARM[name], run.seed, run.recipe, run.cache)
    trained = time.process_time()
    problems = held_out(run.seed, run.recipe)
    figures = await figures_of(team(model), problems, run.recipe.inference, run.recipe.attempts, run.seed)
    return Result(figures, {"rewards": rewards, "training_cpu_seconds": round(trained - began, 1)})


def spent(rows: Sequence[LedgerRow]) -> str:
    """The smallest and the largest processor time of each arm's training, without the warm start's."""
    by_arm = {
        name: [row.detail["training_cpu_seconds"] for row in rows if row.arm == name]
        for name in ARM
        if name != "none"
    }
    ranges = "; ".join(f"{name} {min(found):.0f} to {max(found):.0f}" for name, found in by_arm.items())
    return f"Processor seconds of the training, one thread: {ranges}."


STUDY = Study(
    name="sums",
    task="subset sums",
    starts="1 for each seed",
    arms=tuple(ARM),
    recipe=RECIPE,
    quick=QUICK,
    updates="marsrl.steps",
    play=play,
    more=spent,
    claims=CLAIMS,
    columns=COLUMNS,
)
