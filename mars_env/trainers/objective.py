"""What an update descends: rewards by advantages, given texts, or preferences, from per-token values.

Each loss is a pure function of log-probabilities and entropies of the sampled tokens, [S, T]. It gives the
weighted loss of a micro-batch, and sums of its metrics over sampled tokens or pairs.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from mars_env.trainers import losses
from mars_env.trainers.batches import Batch
from mars_env.trainers.config import Credit, Preferences, TrainConfig

Loss = Callable[[Tensor, Tensor, Batch, Tensor, TrainConfig], tuple[Tensor, dict[str, Tensor]]]
"""Of log-probabilities, entropies, the batch, the weight of each row's tokens, the settings."""


@dataclass(frozen=True, slots=True)
class Objective:
    """What an update descends.

    Attributes:
        loss: Of a micro-batch.
        over: The sum that metrics are divided by.
        unit: How many neighbouring rows belong together.
    """

    loss: Loss
    over: str = "tokens"
    unit: int = 1

    def weights(self, batch: Batch, config: TrainConfig) -> Tensor:
        """The weight of each row's tokens, [S]."""
        if self.unit == 1:
            return losses.row_weights(batch.mask.sum(-1), config.mean)
        return torch.full((len(batch),), self.unit / len(batch))


def _reward_loss(
    logp: Tensor, entropy: Tensor, batch: Batch, weights: Tensor, config: TrainConfig
) -> tuple[Tensor, dict[str, Tensor]]:
    mask, advantages = batch.mask, batch.advantages
    old = logp.detach() if batch.old is None else batch.old
    if config.ratio == "sequence":
        ratio = losses.sequence_ratio(logp, old, mask)
    else:
        ratio = losses.token_ratio(logp, old)
    sampled = torch.where(batch.weighted, batch.rollout, old)
    factors, parts = token_weights(old, sampled, mask, advantages, config)
    per_token = losses.clipped_loss(ratio, advantages, *config.clip) * factors
    gap = (old - batch.rollout).abs()
    metrics = {
        "ratio": ratio,
        "clipped": losses.is_clipped(ratio, advantages, *config.clip),
        "entropy": entropy,
        "rollout_gap": gap * batch.same_prompt,  # between engine and trainer, not between two prompts
        "same_prompt": batch.same_prompt.expand_as(ratio),
        **parts,
    }
    if batch.reference is not None:
        kl = weighted_kl(logp, batch.reference, sampled, mask, config)
        per_token = per_token + config.kl_coefficient * kl
        metrics["kl"] = kl
    return _weighted(per_token, metrics, mask, weights)


def token_weights(
    old: Tensor, sampled: Tensor, mask: Tensor, advantages: Tensor, credit: Credit
) -> tuple[Tensor, dict[str, Tensor]]:
    """The factor of each token's policy loss, [S, T], without gradient; and what it is made of, for metrics.

    `sampled` are the log-probabilities with which tokens were sampled. No factor is below 0, so they may as
    well be factors of the advantages.
    """
    weights = losses.truncated_weights(old, sampled, mask, credit.tis_cap, credit.tis_veto)
    parts = {"importance": weights, "vetoed": weights == 0}
    if credit.dmmpt_threshold is not None:
        parts["mastered"] = losses.mastered(old, advantages, credit.dmmpt_threshold)
        weights = weights * ~parts["mastered"]
    return weights, parts


def weighted_kl(logp: Tensor, reference: Tensor, sampled: Tensor, mask: Tensor, credit: Credit) -> Tensor:
    """The KL term of each token, [S, T]: its gradient is that of the KL divergence, up to cap and veto.

    Each token has the importance weight of the present policy, as the samples are not of this policy.
    """
    weights = losses.truncated_weights(logp, sampled, mask, credit.tis_cap, credit.tis_veto)
    return weights * losses.kl_k2(logp, reference)


def _likelihood_loss(
    logp: Tensor, entropy: Tensor, batch: Batch, weights: Tensor, config: TrainConfig
) -> tuple[Tensor, dict[str, Tensor]]:
    return _weighted(-logp, {"nll": -logp, "entropy": entropy}, batch.mask, weights)


def _weighted(
    per_token: Tensor, metrics: dict[str, Tensor], mask: Tensor, weights: Tensor
) -> tuple[Tensor, dict[str, Tensor]]:
    loss = (per_token * mask * weights.unsqueeze(-1)).sum()
    totals = {name: (value.detach() * mask).sum() for name, value in metrics.items()}
    rows = torch.tensor(len(mask), device=mask.device)
    return loss, totals | {"loss": loss.detach(), "tokens": mask.sum(), "completions": rows}


def _preference_loss(
    logp: Tensor, entropy: Tensor, batch: Batch, weights: Tensor, config: TrainConfig, *, beta: float
) -> tuple[Tensor, dict[str, Tensor]]:
    assert batch.reference is not None
    policy, reference = (torch.where(batch.mask, each, 0.0).sum(-1) for each in (logp, batch.reference))
    gain = policy - reference
    margin = gain[0::2] - gain[1::2]
    loss = (losses.dpo_loss(margin, beta) * weights[0::2]).sum()
    totals = {"margin": margin, "preferred": margin > 0, "chosen": policy[0::2], "rejected": policy[1::2]}
    sums = {name: value.detach().float().sum() for name, value in totals.items()}
    return loss, sums | {
        "loss": loss.detach(),
        "tokens": batch.mask.sum(),
        "completions": torch.tensor(len(batch), device=margin.device),
        "pairs": torch.tensor(len(margin), device=margin.device),
    }


REWARD, LIKELIHOOD = Objective(_reward_loss), Objective(_likelihood_loss)


def preference(settings: Preferences) -> Objective:
    """Direct preference optimisation."""
    return Objective(partial(_preference_loss, beta=settings.beta), "pairs", 2)
