"""`make demo`: a miniature team, before and after MarsRL, on one machine.

    python examples/demo.py [--seed 0] [--out runs/demo]
    python examples/demo.py --steps 8 --problems 150    # quick: by then the Verifier has learnt to check
    python examples/demo.py --resume --steps 200        # train the team of the last call further

Evaluates the warm-started miniature on held-out problems, trains Solver, Verifier and Corrector together
with MarsRL, evaluates again on the same problems, and prints one table. Both evaluations are stored as
runs, training leaves a checkpoint, and the last lines say what can be done with them. The recipe, the number
of steps and the problems are fixed beforehand (miniature/recipe.py); the seed here was not used in
tuning.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from pathlib import Path
from typing import Annotated

import torch
import transformers
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from mars_env.agents.asked import prompts_of
from mars_env.envs import Game, SolveVerifyCorrect
from mars_env.evaluation import Comparison, compare_trees
from mars_env.evaluation.tables import interval, number_text
from mars_env.grading import grader_for
from mars_env.miniature import load
from mars_env.miniature.agents import LIMITS
from mars_env.miniature.experiment import TrainedMiniature, evaluate_team, metrics_of, train_team
from mars_env.miniature.recipe import RECIPE, Recipe
from mars_env.rollout import write_run
from mars_env.trainers.metrics import StepMetrics
from mars_env.types import Tree
from mars_env.viewer import Display, write_page
from mars_env.viewer.plots import before_after, training_curves

FIGURES = {
    "solver_accuracy": "Solver",
    "system_accuracy": "System",
    "gain": "System minus Solver",
    "verifier_precision": "Verifier precision (errors)",
    "verifier_recall": "Verifier recall (errors)",
    "fix_rate": "Corrector fixes wrong solutions",
    "break_rate": "Corrector breaks right solutions",
}
BARS = {
    "solver_accuracy": "Solver",
    "system_accuracy": "System",
    "verifier_precision": "precision",
    "verifier_recall": "recall",
    "fix_rate": "fixes",
    "break_rate": "breaks",
}
ENVIRONMENT = "arithmetic-solve-verify-correct"
console = Console(width=110)


class Bar:
    """A training logger that moves a progress bar."""

    def __init__(self, progress: Progress, steps: int) -> None:
        self.progress = progress
        self.task = progress.add_task("training", total=steps)

    def start(self, step: int) -> None:
        """Start at the step from which a resumed run continues."""
        self.progress.update(self.task, completed=step)

    def log(self, step: int, values: object) -> None:
        """Advance by one step."""
        self.progress.update(self.task, completed=step)

    def close(self) -> None:
        """Do nothing: the bar belongs to its progress display."""


async def play(
    seed: int, progress: Progress, recipe: Recipe = RECIPE, checkpoints: Path | None = None
) -> tuple[list[Tree], TrainedMiniature, list[Tree]]:
    """Evaluate, train (from the newest checkpoint, if there is one), evaluate again."""
    untrained = TrainedMiniature(dict.fromkeys(LIMITS, load()), ())
    task = progress.add_task("evaluating the warm-started team", total=1)
    before = await evaluate_team(untrained, seed, recipe)
    progress.update(task, completed=1)
    bar = Bar(progress, recipe.marsrl.steps)
    trained = await train_team(seed, recipe, loggers=[bar], directory=checkpoints)
    task = progress.add_task("evaluating the trained team", total=1)
    after = await evaluate_team(trained, seed, recipe)
    progress.update(task, completed=1)
    return before, trained, after


def curves(history: tuple[StepMetrics, ...]) -> dict[str, list[tuple[float, float]]]:
    """Mean reward of each role by training step."""
    roles = ("solver", "verifier", "corrector")
    return {
        role: [(m.step, m.roles[role]["reward"]) for m in history if "reward" in m.roles.get(role, {})]
        for role in roles
    }


def show(
    seed: int, before: list[Tree], trained: TrainedMiniature, after: list[Tree], out: Path
) -> Comparison:
    """Print the table, and write the page and the plots to a folder."""
    figures = metrics_of(before), metrics_of(after)
    table = Table(
        "",
        "before",
        "after",
        "difference",
        title=f"{len(before)} held-out problems of the generated set arithmetic, seed {seed}",
        caption="95% intervals, the problem is the unit. studies/miniature.md says how the team was made.",
    )
    comparison = compare_trees(before, after, names=("before", "after"))
    for name, title in FIGURES.items():
        cells = [f"{number_text(f[name].value, f[name].scale)} {interval(f[name])}" for f in figures]
        row = comparison.rows[name]
        difference = f"{number_text(row.difference.value, row.difference.scale)} {interval(row.difference)}"
        table.add_row(title, *cells, difference)
    console.print(table)

    out.mkdir(parents=True, exist_ok=True)
    rewards = training_curves(curves(trained.history), ylabel="mean reward")
    bars = before_after(*({title: f[name] for name, title in BARS.items()} for f in figures))
    (out / "rewards.svg").write_bytes(rewards)
    (out / "before-after.svg").write_bytes(bars)
    page = write_page(
        out / "demo.html",
        after,
        title="MarsRL in miniature",
        comparison=comparison,
        figures=[("Before and after training", bars), ("Mean reward by role in training", rewards)],
        notes=[
            f"{len(before)} held-out problems of the generated set arithmetic, seed {seed}.",
            "The warm start was made poor on purpose: studies/miniature.md says how.",
            "The episodes are those of the trained team.",
        ],
        display=Display(
            prompts_of(Game(SolveVerifyCorrect(RECIPE.inference), grader_for("math")), trained.agents(RECIPE))
        ),
    )
    console.print(f"The page with plots and episodes: {page}", highlight=False)
    return comparison


def main(
    seed: Annotated[int, typer.Option(help="Seed of training and of the held-out problems.")] = 0,
    out: Annotated[Path, typer.Option(help="Where to write the page and the plots.")] = Path("runs/demo"),
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue from the last call's checkpoint.")
    ] = False,
    steps: Annotated[int, typer.Option(min=1, help="Training steps.")] = RECIPE.marsrl.steps,
    problems: Annotated[int, typer.Option(min=2, help="Held-out problems.")] = RECIPE.evaluation_problems,
) -> None:
    """Train a miniature team with MarsRL and show the effect."""
    transformers.utils.logging.disable_progress_bar()  # the demo's own two bars are enough
    torch.set_num_threads(1)  # busy threads on shared cores slow each other down
    began = time.perf_counter()
    checkpoints = out / "checkpoints"
    for folder in (out / "before", out / "after", *(() if resume else (checkpoints,))):
        if any(folder.glob("manifest.json")) or any(folder.glob("step-*")):  # of the last call
            shutil.rmtree(folder)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        before, trained, after = asyncio.run(play(seed, progress, shorter(steps, problems), checkpoints))
    show(seed, before, trained, after, out)
    store(seed, before, after, out)
    console.print(f"{time.perf_counter() - began:.0f} s", highlight=False)
    further = f"python examples/demo.py --resume --seed {seed} --steps {2 * steps} --out {out}"
    for line in [*commands(out), f"Train further: {further}"]:
        console.print(line, highlight=False, soft_wrap=True)
    console.print(f"The trained team's checkpoint: {newest(checkpoints)}", highlight=False, soft_wrap=True)


def store(seed: int, before: list[Tree], after: list[Tree], out: Path) -> None:
    """Store the two evaluations as runs."""
    for name, trees in (("before", before), ("after", after)):
        write_run(out / name, trees, {"title": ENVIRONMENT, "problem_set": "arithmetic", "seed": seed})


def commands(out: Path) -> list[str]:
    """What can be done with the stored runs."""
    before, after = out / "before", out / "after"
    return [
        f"Read the episodes: mars-env view {after}",
        f"Compare the two runs: mars-env compare {before} {after}",
        f"Export what was right: mars-env export {after} {out / 'right.jsonl'}",
    ]


def newest(checkpoints: Path) -> Path:
    """The model of the newest checkpoint."""
    return max(checkpoints.glob("step-*/*/model.safetensors")).parent


def shorter(steps: int, problems: int) -> Recipe:
    """The recipe with a different number of training steps and evaluation problems."""
    marsrl = RECIPE.marsrl.model_copy(update={"steps": steps})
    return RECIPE.model_copy(update={"marsrl": marsrl, "evaluation_problems": problems})


if __name__ == "__main__":
    typer.run(main)
