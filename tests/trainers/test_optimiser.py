import torch

from mars_env.trainers import LocalTrainer, Policy, TrainConfig


def trained(toy, groups, dtype=torch.float32, **settings):
    model = toy.tiny_model().to(dtype)
    config = TrainConfig(learning_rate=1e-3, minibatches=2, token_budget=60, weight_decay=0.1, **settings)
    trainer = LocalTrainer({"mars": Policy(model)}, config)
    trainer.step(groups)
    return trainer


def test_copies_on_the_host_change_nothing_but_where_they_are(toy):
    groups = toy.rewarded(toy.toy_groups(toy.tiny_model(), 0))
    here, there = (trained(toy, groups, offload=offload).policies["mars"] for offload in (False, True))
    for one, other in zip(here.model.parameters(), there.model.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-7)
        assert one.grad is not None and other.grad is None


def test_updates_below_the_rounding_of_bfloat16_add_up(toy):
    """A hundred of them; weights alone would lose each."""
    groups = toy.rewarded(toy.toy_groups(toy.tiny_model(), 0))
    policy = trained(toy, groups, torch.bfloat16, offload=True).policies["mars"]
    [(name, copy), *_] = policy.optimiser.weights.items()
    own = dict(policy.model.named_parameters())[name]
    assert own.dtype == torch.bfloat16 and copy.dtype == torch.float32
    assert torch.equal(own, copy.bfloat16())
    assert not torch.equal(own.float(), copy)
