"""OpenRLHF's experience maker with the advantages of mars_env. Imports OpenRLHF."""

from __future__ import annotations

from typing import Any

import torch
from openrlhf.trainer.ppo_utils.experience_maker import RemoteExperienceMaker

from mars_env.trainers.openrlhf.rollouts.responses import ADVANTAGE


class TeamExperienceMaker(RemoteExperienceMaker):  # type: ignore[misc]
    """Uses each row's advantage as it was computed from its group, whatever the sizes of groups.

    Padding rows have no action tokens. OpenRLHF computes their figures as means over no token; here they are
    0 rather than not a number.
    """

    @torch.no_grad()
    def make_experience(self, samples_list: list[Any]) -> list[Any]:
        """As in OpenRLHF: log-probabilities of the trainer and of the reference."""
        experiences: list[Any] = super().make_experience(samples_list)
        for experience in experiences:
            padding = ~experience.action_mask.bool().any(dim=-1)
            for name in ("kl", "logprobs_diff"):
                experience.info[name] = experience.info[name].masked_fill(padding, 0.0)
        return experiences

    @torch.no_grad()
    def compute_advantages_and_returns(self, experiences: list[Any]) -> list[Any]:
        """Each action token gets its row's advantage; nothing is whitened, clipped or penalised again."""
        for experience in experiences:
            advantage = experience.info[ADVANTAGE].float()
            experience.rewards = experience.rewards.float()
            experience.advantages = advantage.unsqueeze(-1) * experience.action_mask
            experience.returns = experience.advantages.clone()
            experience.info["return"] = advantage
            experience.kl = None
        return experiences
