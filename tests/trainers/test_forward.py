"""Passes of an update: nothing is dropped out, and no row is longer than its positions allow."""

from dataclasses import replace

import pytest
import torch
from tiny_team import flat
from transformers import LlamaConfig, LlamaForCausalLM

from mars_env.errors import ConfigError
from mars_env.trainers import LocalTrainer, Policy, TrainConfig

LIMIT = 16


def model(**changes):
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=12, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2,
        attention_dropout=0.5, initializer_range=0.3,
        **{"max_position_embeddings": 64} | changes,
    )  # fmt: skip
    return LlamaForCausalLM(config).eval()


def rescaled():
    """Its positions change with the length of a text beyond the limit (dynamic NTK)."""
    rope = {"rope_type": "dynamic", "factor": 4.0, "rope_theta": 100.0}
    return model(max_position_embeddings=LIMIT, rope_parameters=rope)


def updated(toy, module, groups, *, train=False, **settings):
    """The weights after two updates; the user may turn the training mode on before and between them."""
    policy = Policy(module.train(train), reference=model().train(train))
    trainer = LocalTrainer({"mars": policy}, TrainConfig(learning_rate=1e-2, kl_coefficient=0.1, **settings))
    trainer.step(groups)
    for each in (module, policy.reference):
        each.train(train)
    trainer.step(groups)
    assert module.training == train
    return flat(module)


@pytest.mark.parametrize("settings", [{}, {"gradient_checkpointing": True}, {"minibatches": 2}])
def test_the_training_mode_changes_no_update(toy, settings):
    groups = toy.rewarded(toy.toy_groups(model(), 0))
    found = [updated(toy, model(), groups, train=train, **settings) for train in (False, True)]
    assert torch.equal(*found)


def longer(toy, groups, tokens):
    """The same groups, in which every second prompt has so many tokens that a row has about `tokens`."""

    def turn(number, turn):
        [old] = turn.action.completions
        ids = (1,) * (tokens - len(old.token_ids)) if number % 2 else old.prompt_ids
        return replace(turn, action=replace(turn.action, completions=(replace(old, prompt_ids=ids),)))

    return [replace(g, turns=tuple(turn(i, t) for i, t in enumerate(g.turns))) for g in groups]


def test_updates_do_not_depend_on_the_token_budget_and_longer_rows_are_refused(toy):
    groups = toy.rewarded(toy.toy_groups(rescaled(), 0))
    within, beyond = longer(toy, groups, LIMIT), longer(toy, groups, LIMIT + 1)
    small, large = (updated(toy, rescaled(), within, token_budget=budget) for budget in (LIMIT, 4096))
    assert torch.allclose(small, large, atol=1e-4)
    with pytest.raises(ConfigError):
        updated(toy, rescaled(), beyond)
    updated(toy, model(), beyond)  # its positions are fixed
