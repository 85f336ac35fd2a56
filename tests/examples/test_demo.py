"""`make demo`: its path from the warm start to the page, in short, and what it brings."""

import asyncio

import demo
import pytest
import torch

from mars_env.models.hf import HFModel
from mars_env.rollout import read_run


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_few_steps_teach_the_verifier_to_check(tmp_path):
    """Reports that check a solution start with another token, which is what training finds first."""
    torch.set_num_threads(1)
    marsrl = demo.RECIPE.marsrl.model_copy(update={"steps": 8})
    recipe = demo.RECIPE.model_copy(update={"marsrl": marsrl, "evaluation_problems": 60})
    checkpoints = tmp_path / "checkpoints"
    before, trained, after = asyncio.run(demo.play(0, recipe, checkpoints))
    assert (len(before), len(after), len(trained.history)) == (60, 60, 8)
    assert [tree.problem.id for tree in before] == [tree.problem.id for tree in after]
    rows = demo.show(0, before, trained, after, tmp_path).rows
    assert rows["verifier_recall"].difference.value > 0.4 and rows["verifier_recall"].clear
    assert rows["solver_accuracy"].difference.low > -0.1
    assert (tmp_path / "demo.html").stat().st_size > 100_000
    assert len(read_run(tmp_path / "after").trees) == 60
    [model] = (checkpoints / "step-00000008").glob("*/model.safetensors")
    assert HFModel(model.parent, device="cpu").module.num_parameters() > 100_000

    # A second call continues from the checkpoint: nothing is left to train.
    _, again, _ = asyncio.run(demo.play(0, recipe, checkpoints))
    assert again.history == ()
