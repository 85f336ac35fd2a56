"""The optimiser of the local trainer: AdamW, with a linear warm-up. Weight decay spares norms and biases."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from mars_env.trainers.config import TrainConfig


def adamw(parameters: Sequence[torch.nn.Parameter], config: TrainConfig) -> torch.optim.AdamW:
    """AdamW with the settings' betas; matrices decay, vectors (norms and biases) do not.

    Example:
        >>> parameters = [torch.nn.Parameter(torch.ones(2)), torch.nn.Parameter(torch.ones(2, 2))]
        >>> made = adamw(parameters, TrainConfig(weight_decay=0.1))
        >>> [(len(group["params"]), group["weight_decay"]) for group in made.param_groups]
        [(1, 0.1), (1, 0.0)]
    """
    groups = [
        {"params": [p for p in parameters if p.dim() > 1], "weight_decay": config.weight_decay},
        {"params": [p for p in parameters if p.dim() <= 1], "weight_decay": 0.0},
    ]
    fused = parameters[0].device.type in ("cpu", "cuda")
    return torch.optim.AdamW(groups, lr=config.learning_rate, betas=config.betas, fused=fused)


def learning_rate(updates: int, config: TrainConfig) -> float:
    """Linear warm-up, then constant.

    Example:
        >>> config = TrainConfig(learning_rate=1.0, warmup_updates=4)
        >>> [learning_rate(n, config) for n in range(6)]
        [0.25, 0.5, 0.75, 1.0, 1.0, 1.0]
    """
    return config.learning_rate * min(1.0, (updates + 1) / max(1, config.warmup_updates))
