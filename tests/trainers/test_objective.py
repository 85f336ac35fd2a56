"""The gradient of the objective over all tokens of a small vocabulary is that of what it stands for."""

from dataclasses import replace

import torch
from hypothesis import given
from hypothesis import strategies as st

from mars_env.trainers.batches import Batch
from mars_env.trainers.config import TrainConfig
from mars_env.trainers.objective import REWARD

VOCABULARY = 4


def values(low, high):
    return st.lists(st.floats(low, high), min_size=VOCABULARY, max_size=VOCABULARY)


def batch_of(sampled, advantages, reference):
    """Every token of the vocabulary as a completion of its own, with the log-probabilities of a sampler."""
    ones = torch.ones(VOCABULARY, 1)
    return Batch(
        ids=torch.arange(VOCABULARY).unsqueeze(-1),
        prompts=torch.zeros(VOCABULARY),
        lengths=torch.ones(VOCABULARY),
        mask=ones.bool(),
        advantages=advantages.unsqueeze(-1),
        temperatures=ones.squeeze(-1),
        rollout=sampled.unsqueeze(-1),
        same_prompt=ones.bool(),
        weighted=ones.bool(),
        reference=reference.unsqueeze(-1),
    )


def gradient(logits, batch, sampled, config):
    """The expected gradient over what the sampler samples."""
    logits = logits.clone().requires_grad_()
    logp = logits.log_softmax(-1).unsqueeze(-1)
    loss, metrics = REWARD.loss(logp, torch.zeros_like(logp), batch, sampled.exp(), config)
    (found,) = torch.autograd.grad(loss, logits)
    return found, metrics


def exact_gradient(logits, advantages, reference, coefficient):
    """Of the negative expected advantage, and of the KL divergence, by their definitions."""
    logits = logits.clone().requires_grad_()
    logp = logits.log_softmax(-1)
    value = (logp.exp() * (coefficient * (logp - reference) - advantages)).sum()
    return torch.autograd.grad(value, logits)[0]


@given(
    logits=values(-2, 2),
    drift=values(-0.3, 0.3),
    advantages=values(-2, 2),
    other=values(-2, 2),
    coefficient=st.sampled_from([0.0, 1.0]),
    ratio=st.sampled_from(["token", "sequence"]),
)
def test_stale_samples_have_the_gradient_of_the_present_policy(
    logits, drift, advantages, other, coefficient, ratio
):
    logits, drift, advantages, other = (
        torch.tensor(v, dtype=torch.float64) for v in (logits, drift, advantages, other)
    )
    sampled, reference = (logits + drift).log_softmax(-1), other.log_softmax(-1)
    config = TrainConfig(ratio=ratio, kl_coefficient=coefficient)
    batch = batch_of(sampled, advantages, reference)
    found, metrics = gradient(logits, batch, sampled, config)
    exact = exact_gradient(logits, advantages, reference, coefficient)
    torch.testing.assert_close(found, exact)
    assert metrics["clipped"] == 0 and metrics["ratio"] == VOCABULARY


def test_beyond_the_cap_the_gradient_is_bounded_and_not_zero():
    """The audit's token: sampled with 0.01, now of probability 0.04, and good."""
    old = torch.tensor([0.04, 0.32, 0.32, 0.32], dtype=torch.float64).log()
    sampled = torch.tensor([0.01, 0.33, 0.33, 0.33], dtype=torch.float64).log()
    advantages = torch.tensor([1.0, 0.0, 0.0, 0.0], dtype=torch.float64)
    batch = batch_of(sampled, advantages, old)
    found, _ = gradient(old, batch, sampled, TrainConfig())
    exact = exact_gradient(old, advantages, old, 0.0)
    torch.testing.assert_close(found, exact * 2 / 4)  # the weight is 2, its cap, and not 4


def test_the_second_update_of_a_step_has_the_ratio_to_the_weights_before_it():
    """Weights are of those before the step, as well, but for the KL term's, which are of the present ones."""
    logits, before = torch.tensor([0.3, -0.2, 0.1, 0.0]).double(), torch.zeros(4).double()
    sampled, reference = (before + 0.1).log_softmax(-1), torch.tensor([1.0, 0, 0, 0]).double().log_softmax(-1)
    advantages = torch.tensor([1.0, -1.0, 0.5, 0.0]).double()
    batch = replace(batch_of(sampled, advantages, reference), old=before.log_softmax(-1).unsqueeze(-1))
    found, _ = gradient(logits, batch, sampled, TrainConfig(kl_coefficient=0.7, clip_low=0.5, clip_high=0.5))
    torch.testing.assert_close(found, exact_gradient(logits, advantages, reference, 0.7))
