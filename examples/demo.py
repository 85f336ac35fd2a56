"""`make demo`: a miniature team, before and after MarsRL, on one machine.

    python examples/demo.py [--seed 0] [--out runs/demo]
    python examples/demo.py --steps 8 --problems 150    # quick: by then the Verifier has learnt to check
    python examples/demo.py --resume --steps 200        # train the team of the last call further

The recipe is fixed beforehand, and seed 0 was not used in tuning (studies/miniature.md).
"""

import asyncio
import shutil
from pathlib import Path
from typing import Annotated

import rich
import torch
import transformers
import typer

from mars_env.evaluation import compare_trees
from mars_env.loggers import ConsoleLogger
from mars_env.miniature import load
from mars_env.miniature.agents import LIMITS
from mars_env.miniature.experiment import TrainedMiniature, evaluate_team, train_team
from mars_env.miniature.recipe import RECIPE
from mars_env.rollout import write_run
from mars_env.viewer import write_page
from mars_env.viewer.plots import training_curves

SHOWN = ("solver_accuracy", "system_accuracy", "gain", "verifier_precision", "verifier_recall", "fix_rate")


async def play(seed, recipe=RECIPE, checkpoints=None):
    """Evaluate, train (from the newest checkpoint, if there is one), evaluate again."""
    before = await evaluate_team(TrainedMiniature(dict.fromkeys(LIMITS, load()), ()), seed, recipe)
    trained = await train_team(seed, recipe, loggers=[ConsoleLogger()], directory=checkpoints)
    return before, trained, await evaluate_team(trained, seed, recipe)


def show(seed, before, trained, after, out):
    """Print the table, and store both evaluations and a page with the rewards."""
    found = compare_trees(before, after, names=("before", "after"))
    found = found.model_copy(
        update={"rows": {name: row for name, row in found.rows.items() if name in SHOWN}}
    )
    rich.print(found)
    for name, trees in (("before", before), ("after", after)):
        write_run(out / name, trees, {"title": RECIPE.environment, "problem_set": "arithmetic", "seed": seed})
    steps = [(step.step, step.roles) for step in trained.history]
    rewards = {role: [(n, roles[role]["reward"]) for n, roles in steps if role in roles] for role in LIMITS}
    figures = [("Mean reward by role in training", training_curves(rewards, ylabel="mean reward"))]
    write_page(out / "demo.html", after, title="MarsRL in miniature", comparison=found, figures=figures)
    return found


def main(
    seed: Annotated[int, typer.Option(help="Seed of training and of the held-out problems.")] = 0,
    out: Annotated[Path, typer.Option(help="Where to write the page and the runs.")] = Path("runs/demo"),
    resume: Annotated[bool, typer.Option("--resume", help="Continue the last call's training.")] = False,
    steps: Annotated[int, typer.Option(min=1, help="Training steps.")] = RECIPE.marsrl.steps,
    problems: Annotated[int, typer.Option(min=2, help="Held-out problems.")] = RECIPE.evaluation_problems,
) -> None:
    """Train a miniature team with MarsRL and show the effect."""
    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(1)  # busy threads on shared cores slow each other down
    for name in ("before", "after") if resume else ("before", "after", "checkpoints"):
        shutil.rmtree(out / name, ignore_errors=True)
    marsrl = RECIPE.marsrl.model_copy(update={"steps": steps})
    recipe = RECIPE.model_copy(update={"marsrl": marsrl, "evaluation_problems": problems})
    show(seed, *asyncio.run(play(seed, recipe, out / "checkpoints")), out)
    print(f"""Plots and episodes: {out}/demo.html. Read, compare, train further:
    mars-env view {out}/after
    mars-env compare {out}/before {out}/after
    python examples/demo.py --resume --seed {seed} --steps {2 * steps} --out {out}""")


if __name__ == "__main__":
    typer.run(main)
