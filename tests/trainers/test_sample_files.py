"""Rows that any trainer can train on, made in one place, and files that hold them."""

import json
from dataclasses import replace

import pytest
import torch
from toy_training import tiny_model, toy_groups
from turns import called
from typer.testing import CliRunner

from mars_env.cli import app
from mars_env.rollout import Store, groups_of
from mars_env.trainers import TrainConfig, local
from mars_env.trainers.sample_files import sample_from_row
from mars_env.trainers.samples import turn_samples
from mars_env.types import Problem, Tree

GROUP = 6


@pytest.fixture
def trees():
    """Two problems, six real samples each; one reward is unknown."""
    groups = toy_groups(tiny_model(), 0, problems=2, size=GROUP)
    trees = []
    for group in groups:
        problem = Problem(group.id, "", None)
        turns = tuple(replace(turn, problem_id=problem.id) for turn in group.turns)
        trees.append(Tree(f"{problem.id}#0", problem, turns))
    lost = replace(trees[0].turns[3], reward=None)
    chain = replace(trees[0].turns[4], action=called(trees[0].turns[4].action, (3, 5, 4), (6,)))
    return [replace(trees[0], turns=(*trees[0].turns[:3], lost, chain, trees[0].turns[5])), trees[1]]


def read(path):
    """The samples of a file."""
    return [sample_from_row(json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]


def test_a_chain_in_one_row_trains_as_its_completions_do(trees):
    """Means over tokens do not depend on how tokens are divided into rows."""

    def weights(trees):
        policy = local.Policy(tiny_model())
        local.LocalTrainer({"mars": policy}, TrainConfig(learning_rate=1e-3)).step(groups_of(trees))
        return [parameter.detach() for parameter in policy.model.parameters()]

    chain = trees[0].turns[4]
    apart = replace(chain, action=replace(chain.action, completions=chain.action.completions[::-1]))
    assert [len(turn.action.chains) for turn in (chain, apart)] == [1, 3]
    several = replace(trees[0], turns=(*trees[0].turns[:4], apart, trees[0].turns[5]))
    for one, other in zip(weights(trees), weights([several, trees[1]]), strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=0)


def test_the_command_line_writes_them(trees, tmp_path):
    with Store(tmp_path / "run", {"title": "toy"}, [tree.problem for tree in trees]) as store:
        for tree in trees:
            store.write_turns(tree.turns)
            store.write_tree(tree, {})
    paths = [str(tmp_path / "run"), str(tmp_path / "s.jsonl")]
    CliRunner().invoke(app, ["export", *paths, "--format", "samples", "--advantage", "mean_centred"])
    assert read(tmp_path / "s.jsonl") == turn_samples(groups_of(trees), TrainConfig(advantage="mean_centred"))
