import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mars_env.trainers.losses import (
    clipped_loss,
    dpo_loss,
    is_clipped,
    kl_k2,
    logprobs_and_entropies,
    mastered,
    row_weights,
    sequence_ratio,
    token_ratio,
    truncated_weights,
)


def aggregate(values, mask, mode):
    return (values * mask * row_weights(mask.sum(-1), mode).unsqueeze(-1)).sum()


def logs(*rows):
    return torch.tensor(rows, dtype=torch.float64).log()


def test_log_probabilities_are_those_of_the_distribution_sampled_from():
    logits = torch.tensor([[1.0, 2.0, 3.0], [0.0, 0.0, 5.0]])
    got, _ = logprobs_and_entropies(logits, torch.tensor([2, 0]), torch.tensor([0.5, 2.0]))
    first = 6 - math.log(math.exp(2) + math.exp(4) + math.exp(6))
    second = -math.log(2 + math.exp(2.5))
    assert got.tolist() == pytest.approx([first, second])
    half, _ = logprobs_and_entropies(logits.bfloat16(), torch.tensor([2, 0]), torch.ones(2))
    assert half.dtype == torch.float32


def test_entropy_by_hand_and_at_a_temperature():
    # at T = 1/2, odds 1 : 4 become 1 : 16
    logits = logs([1.0, 4.0]).float()
    p = 16 / 17
    expected = -(p * math.log(p) + (1 - p) * math.log(1 - p))
    _, entropy = logprobs_and_entropies(logits, torch.tensor([0]), torch.tensor([0.5]))
    assert entropy.item() == pytest.approx(expected)


@given(
    st.sampled_from([0.0, 0.5, 0.79, 0.81, 1.0, 1.19, 1.31, 2.0, 3.5, 50.0]),
    st.sampled_from([-1.5, 0.0, 2.0]),
    st.sampled_from([(0.2, 0.2), (0.2, 0.3), (0.5, 0.5)]),
)
def test_the_clipped_loss_is_that_of_the_papers_and_has_no_gradient_where_it_is_clipped(r, a, bounds):
    low, high = bounds
    expected = -min(r * a, min(max(r, 1 - low), 1 + high) * a)
    ratio, advantages = torch.tensor([[r]], requires_grad=True), torch.tensor([[a]])
    found = clipped_loss(ratio, advantages, *bounds)
    assert found.item() == pytest.approx(expected)
    (gradient,) = torch.autograd.grad(found, ratio)
    clipped = is_clipped(ratio, advantages, *bounds).item()
    assert gradient.item() == (0.0 if clipped else -a)


def test_sequence_ratio_ignores_padding_and_spreads_its_gradient():
    logp = logs([0.5, 0.5, 0.3], [0.2, 0.9, 0.9]).requires_grad_()
    old = logs([0.25, 0.25, 0.9], [0.1, 0.9, 0.9])
    mask = torch.tensor([[True, True, False], [True, True, True]])
    ratio = sequence_ratio(logp, old, mask)
    assert ratio[0].tolist() == pytest.approx([2.0, 2.0, 2.0])
    assert ratio[1].tolist() == pytest.approx([2 ** (1 / 3)] * 3)
    # GSPO: the objective of a row is its ratio, whose gradient by each token's logp is ratio / length
    aggregate(ratio, mask, "sequence-mean").backward()
    assert logp.grad[0].tolist() == pytest.approx([0.5, 0.5, 0.0])
    assert logp.grad[1].tolist() == pytest.approx([2 ** (1 / 3) / 6] * 3)


EXTREME = st.sampled_from([0.0, -1e-30, -1.0, -19.9, -20.1, -88.0, -9999.0, -1e20])


@given(
    st.tuples(EXTREME, EXTREME, EXTREME),
    st.tuples(EXTREME, EXTREME, EXTREME),
    st.sampled_from([-2.0, 0.0, 2.0]),
)
def test_gradients_are_finite(new, old, advantage):
    logp, old = torch.tensor([new], requires_grad=True), torch.tensor([old])
    mask = torch.ones(1, 3).bool()
    for ratio in (token_ratio(logp, old), sequence_ratio(logp, old, mask)):
        loss = clipped_loss(ratio, torch.tensor([[advantage]])) + kl_k2(logp, old)
        (gradient,) = torch.autograd.grad(loss.sum(), logp, retain_graph=True)
        assert loss.isfinite().all() and gradient.isfinite().all()


def test_k2_by_hand_also_of_a_policy_that_has_moved_far():
    logp = torch.tensor([-1.0, -1.0, -30.0], requires_grad=True)
    kl = kl_k2(logp, torch.tensor([-1.5, -31.0, -1.0]))
    assert kl.tolist() == [0.125, 20 * (30 - 10), 20 * (29 - 10)]
    kl.sum().backward()
    assert logp.grad.tolist() == [0.5, 20.0, -20.0]


def test_truncated_weights_cap_veto_and_padding():
    old = logs([0.9, 0.1, 1e-9], [1e-6, 0.5, 0.5], [0.2, 0.2, 0.2]).requires_grad_()
    rollout = logs([0.1, 0.2, 0.5], [0.5, 0.5, 0.5], [0.2, 0.1, 0.3])
    mask = torch.tensor([[True, True, False], [True] * 3, [True] * 3])
    weights = truncated_weights(old, rollout, mask)
    assert weights[0, :2].tolist() == pytest.approx([2.0, 0.5])  # 9 capped; padding does not veto
    assert weights[1].tolist() == [0, 0, 0]
    assert weights[2].tolist() == pytest.approx([1.0, 2.0, 2 / 3])
    assert not weights.requires_grad
    assert truncated_weights(old, rollout, mask, cap=0.4, veto=None)[1].tolist() == pytest.approx(
        [2e-6, 0.4, 0.4]
    )


def test_mastered_tokens_are_those_of_positive_advantage_at_the_threshold_or_above():
    logp = logs([1.0, 0.98], [1.0, 0.1], [1.0, 0.1])
    found = mastered(logp, torch.tensor([[1.0], [-1.0], [0.0]]), 1.0)
    assert found.tolist() == [[True, False], [False, False], [False, False]]


@pytest.mark.parametrize(("mode", "expected"), [("token-mean", 25 / 4), ("sequence-mean", (4 + 7) / 2)])
def test_aggregation_by_hand(mode, expected):
    values = torch.tensor([[4.0, 100.0, 100.0], [6.0, 7.0, 8.0]])
    mask = torch.tensor([[True, False, False], [True, True, True]])
    assert aggregate(values, mask, mode).item() == pytest.approx(expected)


def test_the_gradient_of_dpo_is_the_papers():
    # arXiv 2305.18290: -beta sigmoid(-beta margin) (grad log p(chosen) - grad log p(rejected))
    own = torch.tensor([[-3.0, -4.0], [-2.0, -2.5]], dtype=torch.float64, requires_grad=True)
    known = torch.tensor([[-3.5, -3.0], [-2.0, -2.0]], dtype=torch.float64)
    margin = (own - known)[:, 0] - (own - known)[:, 1]
    dpo_loss(margin, 0.3).sum().backward()
    scale = 0.3 * torch.sigmoid(-0.3 * margin.detach())
    torch.testing.assert_close(own.grad, torch.stack([-scale, scale], -1))
