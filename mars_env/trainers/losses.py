"""Losses as pure functions on tensors of per-token values; `mars_env.trainers.objective` combines them.

Shapes: S completions (rows), T tokens of the longest one, V tokens of the vocabulary, N any number of tokens.
Per-token values are [S, T] with a boolean mask [S, T] that is True on sampled tokens; other values are
ignored, but must be finite. All logarithms are natural.
"""

from typing import Final, Literal

import torch
from torch import Tensor

Aggregation = Literal["token-mean", "sequence-mean"]

MOST_LOG_RATIO: Final = 20.0
"""Log-ratios are cut off above this, as in verl (``core_algos.py``): ``exp(20)`` is 5e8. An infinite ratio
would turn the gradient into NaN even where the clip leaves it out."""


def logprobs_and_entropies(logits: Tensor, tokens: Tensor, temperatures: Tensor) -> tuple[Tensor, Tensor]:
    """Log-probabilities of chosen tokens, and entropies in nats, under the distribution sampled from.

    A model that samples at temperature T draws from softmax(logits / T); dividing by the same T makes the
    first on-policy ratio 1. From logits [N, V] of any type, tokens [N] and temperatures [N] above 0 to [N]
    each, float32; entropies without gradient.
    """
    logp = torch.log_softmax(logits.float() / temperatures.unsqueeze(-1), dim=-1)
    values = logp.detach()
    return logp.gather(-1, tokens.unsqueeze(-1)).squeeze(-1), -(values.exp() * values).sum(-1)


def token_ratio(logp: Tensor, logp_old: Tensor) -> Tensor:
    """The probability ratio of each token, new to old: [S, T]; its logarithm is at most `MOST_LOG_RATIO`.

    Source: PPO (arXiv 1707.06347, section 3).
    """
    return _bounded(logp - logp_old).exp()


def sequence_ratio(logp: Tensor, logp_old: Tensor, mask: Tensor) -> Tensor:
    """The geometric mean of a completion's token ratios, at each of its tokens: [S, T].

    Source: GSPO (arXiv 2507.18071, section 4.1); MARS2 trains with it. Aggregate with "sequence-mean" for the
    paper's objective. Its clip range is much narrower than PPO's (3e-4 and 4e-4 in the paper).

    Example:
        >>> logp, old = torch.tensor([[0.5, 0.5, 0.9]]).log(), torch.tensor([[0.25, 0.5, 0.1]]).log()
        >>> sequence_ratio(logp, old, torch.tensor([[True, True, False]]))  # sqrt(2 * 1)
        tensor([[1.4142, 1.4142, 1.4142]])
    """
    gap = ((logp - logp_old) * mask).sum(-1, keepdim=True)
    return _bounded(gap / mask.sum(-1, keepdim=True)).exp().expand_as(logp)


def clipped_loss(ratio: Tensor, advantages: Tensor, clip_low: float = 0.2, clip_high: float = 0.2) -> Tensor:
    """The clipped surrogate, as a loss: ``-min(ratio A, clip(ratio, 1 - low, 1 + high) A)``, [S, T].

    Source: PPO (arXiv 1707.06347, equation 7); GRPO (arXiv 2402.03300); two bounds: DAPO (arXiv 2503.14476).

    Example:
        >>> clipped_loss(torch.tensor([[1.5, 1.5, 0.5]]), torch.tensor([[1.0, -1.0, -1.0]]))
        tensor([[-1.2000,  1.5000,  0.8000]])
    """
    clipped = ratio.clamp(1 - clip_low, 1 + clip_high)
    return -torch.minimum(ratio * advantages, clipped * advantages)


def is_clipped(ratio: Tensor, advantages: Tensor, clip_low: float = 0.2, clip_high: float = 0.2) -> Tensor:
    """Where `clipped_loss` has no gradient because of a clip: boolean [S, T]."""
    return torch.where(advantages > 0, ratio > 1 + clip_high, (ratio < 1 - clip_low) & (advantages < 0))


def kl_k2(logp: Tensor, logp_reference: Tensor) -> Tensor:
    """Schulman's k2 estimate of KL(policy || reference), token by token: [S, T], never negative.

    ``d ** 2 / 2`` with ``d = logp - logp_reference``, both at the sampling temperature; linear in d beyond
    `MOST_LOG_RATIO`, so that it stays finite. Over samples of the policy its mean gradient is that of the
    divergence; that of k3, GRPO's estimate, is not. Times a weight ``p / p_rollout`` without gradient this
    holds for samples of an older policy, too, and equals the gradient of k3 times that weight (DeepSeek-V3.2,
    arXiv 2512.02556, section 3.1).

    Source: Schulman, "Approximating KL divergence" (2020).

    Example:
        >>> kl_k2(torch.tensor([[-1.0]]), torch.tensor([[-3.0]]))
        tensor([[2.]])
    """
    return torch.nn.functional.huber_loss(logp, logp_reference, reduction="none", delta=MOST_LOG_RATIO)


def _bounded(log_ratio: Tensor) -> Tensor:
    return log_ratio.clamp(max=MOST_LOG_RATIO)


def truncated_weights(
    logp_old: Tensor, logp_rollout: Tensor, mask: Tensor, cap: float = 2.0, veto: float | None = 1e-4
) -> Tensor:
    """Truncated importance sampling, for samples of older weights, or of another engine or precision.

    ``min(exp(logp_old - logp_rollout), cap)``, [S, T] without gradient: the trainer's log-probabilities
    before the update, and those with which the tokens were sampled. If a token's ratio is below `veto`, its
    whole completion gets weight 0, because this policy would not have sampled it. It still counts in the
    denominators.

    Source: MARS2 (arXiv 2602.07848: cap 2, veto 1e-4); as the decoupled form of PPO for stale samples: AReaL
    (arXiv 2505.24298). That the veto applies to the whole completion is our reading.

    Example:
        >>> old = torch.tensor([[0.9, 0.1], [1e-6, 0.5]]).log()
        >>> rollout = torch.tensor([[0.1, 0.2], [0.5, 0.5]]).log()
        >>> truncated_weights(old, rollout, torch.ones(2, 2, dtype=torch.bool))
        tensor([[2.0000, 0.5000],
                [0.0000, 0.0000]])
    """
    weights = _bounded((logp_old - logp_rollout).detach() * mask).exp()
    if veto is None:
        return weights.clamp(max=cap)
    vetoed = (weights < veto).any(-1, keepdim=True)
    return weights.clamp(max=cap).masked_fill(vetoed, 0.0)


def mastered(logp_old: Tensor, advantages: Tensor, threshold: float) -> Tensor:
    """DMMPT: tokens [S, T] of positive advantage that the policy already gives at least this probability.

    Leaving them out of the policy loss keeps the entropy from collapsing. It goes with `token_ratio`: in
    `sequence_ratio` each token moves the losses of all others.

    Source: MarsRL (arXiv 2511.11373), dynamic masking of mastered positive tokens. The paper's threshold is
    not public, and that "mastered" means a probability above it is our reading.

    Example:
        >>> mastered(torch.tensor([[0.999, 0.5]]).log(), torch.tensor([[1.0]]), 0.99)
        tensor([[ True, False]])
    """
    return (logp_old.exp() >= threshold) & (advantages > 0)


def dpo_loss(margin: Tensor, beta: float = 0.1) -> Tensor:
    """Direct preference optimisation: ``-log sigmoid(beta margin)``, [N] from margins [N] in nats.

    A margin says how much more than a reference a policy prefers the chosen completion to the rejected one:
    ``(log p(chosen) - log p_ref(chosen)) - (log p(rejected) - log p_ref(rejected))``.

    Source: DPO (arXiv 2305.18290, equation 7). `beta` says how strongly the policy is held to the reference.

    Example:
        >>> dpo_loss(torch.tensor([0.0, 10.0]), beta=0.1)  # ln 2, ln(1 + 1/e)
        tensor([0.6931, 0.3133])
    """
    return -torch.nn.functional.logsigmoid(beta * margin)


def row_weights(lengths: Tensor, mode: Aggregation) -> Tensor:
    """The weight [S] of each token of completions of lengths [S]; the loss is the weighted sum of all.

    They are computed once for a batch, so gradients accumulated over micro-batches equal the batch's.

    - "token-mean": 1 / all tokens of the batch. Long completions weigh more. DAPO (arXiv 2503.14476).
    - "sequence-mean": 1 / (completions x own tokens). GRPO (arXiv 2402.03300), GSPO.

    Example:
        >>> lengths = torch.tensor([1, 3])
        >>> row_weights(lengths, "token-mean"), row_weights(lengths, "sequence-mean")
        (tensor([0.2500, 0.2500]), tensor([0.5000, 0.1667]))
    """
    rows = len(lengths)
    if mode == "token-mean":
        return (1.0 / lengths.sum().float()).expand(rows)
    return 1.0 / (rows * lengths.float())
