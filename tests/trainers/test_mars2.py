"""MARS2's training: several agents in one tree, each policy on its own nodes; the three stages; resuming."""

import asyncio

import pytest
import torch
import turns as by_hand
from tiny_team import flat, made, models_of, weights

from mars_env.trainers import LocalTrainer, Policy, TrainConfig, train
from mars_env.trainers.advantages import group_normalised
from mars_env.types import Group


def nodes(turns, policies):
    """A tree of hand-made nodes over sampled completions: rewards 1, 0, 0 by turns."""
    made = []
    for i, sampled in enumerate(turns):
        id = f"0.{i - 1}" if i else "0"
        names = {"agent": f"coder_{i % 2}", "policy": policies[i % 2], "tree": "p#0", "group": "p#0"}
        made.append(by_hand.turn(id, float(i % 3 == 0), *sampled.action.completions, **names))
    return Group("p#0", tuple(made))


def test_each_policy_gets_the_gradient_of_its_own_nodes_and_no_other(toy):
    """One plain gradient step, against the policy gradient worked out from the tree's advantages."""
    models_ = {name: toy.tiny_model(seed) for seed, name in enumerate(("a", "b", "idle"))}
    turns = [t for g in toy.toy_groups(models_["a"], 0, problems=1, size=8) for t in g.turns]
    group = nodes(turns, ("a", "b"))
    advantages = group_normalised([group])  # over all nodes, of both agents
    assert len(advantages) == 8
    assert sum(advantages.values()) == pytest.approx(0, abs=1e-9)

    expected = {}
    for name in ("a", "b"):
        own = [t for t in group.turns if t.policy == name]
        assert sum(advantages["p#0", t.id] for t in own) != pytest.approx(0)  # no group of its own
        model = toy.tiny_model({"a": 0, "b": 1}[name])
        loss = torch.zeros(())
        for turn in own:
            (c,) = turn.action.completions
            # On-policy GSPO with "sequence-mean": the mean of the sequences' mean gradients.
            loss = loss - advantages["p#0", turn.id] * toy.logprobs(model, c).mean() / len(own)
        loss.backward()
        expected[name] = torch.cat([p.grad.flatten() for p in model.parameters()])

    policies = {name: Policy(model) for name, model in models_.items()}
    config = TrainConfig(
        ratio="sequence", aggregation="sequence-mean", learning_rate=0.0, max_grad_norm=1e9, clip_high=0.2
    )
    before = {name: flat(model) for name, model in models_.items()}
    figures = LocalTrainer(policies, config, on_policy=True).step([group])
    for name in ("a", "b"):
        found = torch.cat([p.grad.flatten() for p in models_[name].parameters()])
        assert torch.allclose(found, expected[name], rtol=1e-4, atol=1e-6)
        assert figures.policies[name]["completions"] == 4
    assert all(p.grad is None for p in models_["idle"].parameters())
    assert figures.policies["idle"] == {}
    assert {name: policy.version for name, policy in policies.items()} == {"a": 1, "b": 1, "idle": 0}

    moving = LocalTrainer(policies, config.model_copy(update={"learning_rate": 1e-2}))
    moving.step([group])
    assert torch.equal(flat(models_["idle"]), before["idle"])  # bit by bit
    assert not torch.equal(flat(models_["a"]), before["a"])


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
