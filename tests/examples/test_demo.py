"""`make demo`: its path from the warm start to the page, in short, and what it brings."""

import asyncio

import demo
import pytest
import torch
from command_line import run_cli
from rich.progress import Progress

from mars_env.models.hf import HFModel


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_few_steps_teach_the_verifier_to_check(tmp_path):
    """Reports that check a solution start with another token, which is what training finds first."""
    torch.set_num_threads(1)
    with Progress(disable=True) as progress:
        recipe, checkpoints = demo.shorter(steps=8, problems=150), tmp_path / "checkpoints"
        before, trained, after = asyncio.run(demo.play(0, progress, recipe, checkpoints))
    assert (len(before), len(after), len(trained.history)) == (150, 150, 8)
    assert [tree.problem.id for tree in before] == [tree.problem.id for tree in after]
    with demo.console.capture() as printed:
        rows = demo.show(0, before, trained, after, tmp_path).rows
    assert rows["verifier_recall"].difference.value > 0.4 and rows["verifier_recall"].clear
    assert rows["solver_accuracy"].difference.low > -0.1
    assert all(title.split()[0] in printed.get() for title in demo.FIGURES.values())
    for name in ("demo.html", "rewards.svg", "before-after.svg"):
        assert (tmp_path / name).stat().st_size > 1000
    demo.store(0, before, after, tmp_path)
    for line in demo.commands(tmp_path):
        run_cli(*line.partition("mars-env ")[2].split())
    assert (tmp_path / "after" / "report.html").stat().st_size > 100_000
    assert (tmp_path / "right.jsonl").read_text().count("\n") > 100
    assert HFModel(demo.newest(checkpoints), device="cpu").module.num_parameters() > 100_000

    # A second call continues from the checkpoint: nothing is left to train.
    with Progress(disable=True) as progress:
        _, again, _ = asyncio.run(demo.play(0, progress, recipe, checkpoints))
    assert again.history == ()


def test_the_demo_plays_the_recipe_of_the_study():
    """So its outcome on a seed is that of the ledger's arm `all`."""
    recipe = demo.RECIPE
    assert demo.shorter(recipe.marsrl.steps, recipe.evaluation_problems) == recipe
