"""The local trainer on given texts (likelihood) and on preferences (DPO), against updates worked out here."""

from dataclasses import replace

import pytest
import torch
from tiny_team import flat
from toy_training import logprobs

from mars_env.trainers.config import Preferences, TrainConfig
from mars_env.trainers.local import LocalTrainer
from mars_env.trainers.policy import Policy
from mars_env.trainers.samples import preference_pairs
from mars_env.types import Completion, Group

CONFIG = TrainConfig(learning_rate=1e-2, max_grad_norm=1e9)
TEXTS = [
    Completion("", prompt_ids=(1, 2), token_ids=(3, 4, 0)),
    Completion("", prompt_ids=(5,), token_ids=(6,)),
    Completion("", prompt_ids=(5, 6, 7), token_ids=(8, 8, 8, 0)),
]


def stepped(model, loss, rate=1e-2):
    """The weights after one step of AdamW on a loss."""
    optimiser = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.0)
    loss.backward()
    optimiser.step()
    return torch.cat([p.detach().flatten() for p in model.parameters()])


@pytest.mark.parametrize("mode", ["token-mean", "sequence-mean"])
def test_imitation_is_one_step_down_the_surprise_of_the_texts(toy, mode):
    policy, plain = Policy(toy.tiny_model()), toy.tiny_model()
    trainer = LocalTrainer(
        {"mars": policy}, CONFIG.model_copy(update={"aggregation": mode, "token_budget": 8})
    )
    figures = trainer.imitate({"mars": TEXTS})
    each = [-logprobs(plain, c) for c in TEXTS]
    loss = torch.cat(each).mean() if mode == "token-mean" else sum(x.mean() for x in each) / 3
    assert figures.policies["mars"]["loss"] == pytest.approx(loss.item(), rel=1e-5)
    assert figures.policies["mars"]["nll"] == pytest.approx(torch.cat(each).mean().item(), rel=1e-5)
    assert (figures.step, trainer.steps, policy.version) == (1, 1, 1)
    torch.testing.assert_close(flat(policy.model), stepped(plain, loss), rtol=1e-3, atol=1e-5)


@pytest.fixture
def groups(toy):
    """Two groups of six turns; the rewards of the first are 1 and 0 by turns with one unknown, the second's
    are all 1."""
    made = toy.toy_groups(toy.tiny_model(), 0)
    rewards = [[1.0, 0.0, 1.0, None, 1.0, 0.0], [1.0] * 6]
    return [
        Group(g.id, tuple(replace(t, reward=r) for t, r in zip(g.turns, row, strict=True)))
        for g, row in zip(made, rewards, strict=True)
    ]


def test_pairs_are_right_against_wrong_and_unknown_is_in_none(groups):
    pairs = preference_pairs(groups, CONFIG)
    assert [sample.turn_id for sample in pairs] == ["0", "1", "2", "5"]
    assert {sample.temperature for sample in pairs} == {1.0}
    assert pairs == preference_pairs(groups[::-1], CONFIG)


@pytest.mark.parametrize("budget", [10, 10_000])
def test_a_preference_step_is_the_papers(toy, groups, budget):
    policy = Policy(toy.tiny_model(), reference=toy.tiny_model(1))
    config = CONFIG.model_copy(update={"token_budget": budget})
    trainer = LocalTrainer({"mars": policy}, config, preferences=Preferences(beta=0.5))
    plain, reference = toy.tiny_model(), toy.tiny_model(1)
    turns = groups[0].turns
    margins = []
    for chosen, rejected in ((turns[0], turns[1]), (turns[2], turns[5])):
        gap = [
            (logprobs(plain, c, temperature=1.0) - logprobs(reference, c, temperature=1.0).detach()).sum()
            for c in (chosen.action.completions[0], rejected.action.completions[0])
        ]
        margins.append(gap[0] - gap[1])
    loss = sum(-torch.nn.functional.logsigmoid(0.5 * margin) for margin in margins) / 2
    figures = trainer.step(groups).policies["mars"]
    assert figures["loss"] == pytest.approx(loss.item(), rel=1e-4)
    assert figures["margin"] == pytest.approx(sum(m.item() for m in margins) / 2, rel=1e-4, abs=1e-5)
    assert figures["preferred"] == sum(m.item() > 0 for m in margins) / 2
    assert figures["pairs"] == 2 and figures["completions"] == 4
    torch.testing.assert_close(flat(policy.model), stepped(plain, loss), rtol=1e-3, atol=1e-5)
