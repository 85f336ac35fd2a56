"""MARS2's training: several agents in one tree, each policy on its own nodes; the three stages; resuming."""

import asyncio

import pytest
import torch
import turns as by_hand
from tiny_team import flat, made, models_of, weights

from mars_env.trainers import train
from mars_env.types import Group


def nodes(turns, policies):
    """A tree of hand-made nodes over sampled completions: rewards 1, 0, 0 by turns."""
    made = []
    for i, sampled in enumerate(turns):
        id = f"0.{i - 1}" if i else "0"
        names = {"agent": f"coder_{i % 2}", "policy": policies[i % 2], "tree": "p#0", "group": "p#0"}
        made.append(by_hand.turn(id, float(i % 3 == 0), *sampled.action.completions, **names))
    return Group("p#0", tuple(made))


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
