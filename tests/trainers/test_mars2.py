"""MARS2's training: several agents in one tree, each policy on its own nodes; the three stages; resuming."""

import asyncio

import pytest
import torch
from tiny_team import flat, made, models_of, weights

from mars_env.trainers import train


@pytest.mark.parametrize(
    ("agents", "names"),
    [(1, ["one"]), (3, ["shared"]), (2, ["a", "b"])],
    ids=["single", "homogeneous", "heterogeneous"],
)
def test_the_three_stages_are_teams_of_one_trainer(agents, names):
    env, players, wanted = made(agents, names)
    before = weights(players)
    history = asyncio.run(train(env.game, players, env.problems, wanted))
    assert sorted(players.agents) == [f"solver_{i}" for i in range(agents)]
    for name in names:
        assert not torch.equal(before[name], flat(players.policies[name].model))
        assert players.policies[name].version == models_of(players)[name].version == 2
        figures = history[-1].policies[name]
        assert figures["importance"] == pytest.approx(1, abs=1e-3)
        assert figures["kl"] >= 0
    for metrics in history:
        assert metrics.advantages.groups == 3  # a tree is a group
        assert metrics.advantages.turns == 24  # of 8 nodes
        trained = sum(figures["completions"] for figures in metrics.policies.values())
        assert trained == metrics.advantages.kept > 0
