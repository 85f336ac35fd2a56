"""OpenRLHF's trainer of one policy, with a team's advantages. Imports OpenRLHF."""

from __future__ import annotations

from typing import Any

import torch
from openrlhf.trainer.ppo_trainer import BasePPOTrainer
from openrlhf.trainer.ray.vllm_engine import batch_vllm_engine_call

from mars_env.trainers.openrlhf.rollouts.policy_run import PolicyRun
from mars_env.trainers.openrlhf.settings import TeamSettings
from mars_env.trainers.openrlhf.workers.actors import optimizer_steps
from mars_env.trainers.openrlhf.workers.experience import TeamExperienceMaker


class PolicyTrainer(BasePPOTrainer):  # type: ignore[misc]
    """The trainer of one policy; its caller asks for one step at a time.

    Attributes:
        version: Of the weights: how often they have been sent to the engines.
    """

    experience_maker: Any

    def __init__(self, settings: TeamSettings, strategy: Any, *groups: Any) -> None:
        wandb = strategy.args.logger.wandb
        key, wandb.key = wandb.key, None  # OpenRLHF's logger would end the run of the policy before
        super().__init__(strategy, *groups)
        wandb.key = key
        if key:
            self.wandb_logger = PolicyRun(strategy.args)
        self.version = 0
        self._under_way = settings.staleness > 0
        made = self.experience_maker
        self.experience_maker = TeamExperienceMaker(
            made.actor_model_group,
            made.critic_model_group,
            made.reward_model_group,
            made.initial_model_group,
            made.kl_ctl,
            made.strategy,
            made.tokenizer,
        )

    @property
    def loggers(self) -> list[Any]:
        """Those that the flags ask for."""
        return [logger for logger in (self.wandb_logger, self.tensorboard_logger) if logger is not None]

    def init_checkpoint_states(self) -> dict[str, Any]:
        """As in OpenRLHF; after a resume the weights' version is the number of steps done."""
        states: dict[str, Any] = super().init_checkpoint_states()
        self.restore_best_checkpoint_state(states)
        self.version = max(0, states["global_step"] - 1)  # weights are sent once before the first step
        return states

    def broadcast_to_vllm(self) -> None:
        """Send the new weights to the engines while they do not sample.

        With partial rollouts, requests under way are frozen, and continue with the new weights; otherwise
        they end first.
        """
        if self._under_way:
            batch_vllm_engine_call(self.vllm_engines, "pause", self.args.train.partial_rollout_enable)
        try:
            super().broadcast_to_vllm()
            self.version += 1
            batch_vllm_engine_call(self.vllm_engines, "set_version", self.version)
        finally:
            if self._under_way:
                batch_vllm_engine_call(self.vllm_engines, "resume")

    def _compute_rollout_stats(self, experiences: list[Any]) -> dict[str, float]:
        """OpenRLHF's figures of the rollouts, over the real rows."""
        real = torch.cat([e.action_mask.bool().any(dim=-1) for e in experiences])

        def of(name: str) -> torch.Tensor:
            return torch.cat([getattr(e, name) for e in experiences])[real].float()

        rewards, advantages = of("rewards"), torch.cat([e.info["advantage"] for e in experiences])[real]
        return {
            "rollout/reward_mean": rewards.mean().item(),
            "rollout/reward_std": rewards.std().item() if len(rewards) > 1 else 0.0,
            "rollout/response_length_mean": of("response_length").mean().item(),
            "rollout/truncated_rate": of("truncated").mean().item(),
            "rollout/num_samples": float(len(rewards)),
            "rollout/padding": float(len(real) - len(rewards)),
            "rollout/advantage_std": advantages.std().item() if len(advantages) > 1 else 0.0,
        }


def scheduled_steps(settings: TeamSettings, args: Any, problems: int) -> int:
    """Most optimizer steps of a run, for the learning rate's schedule.

    Args:
        settings: The team's.
        args: OpenRLHF's arguments.
        problems: Number of problems of one pass.
    """
    trees = problems * args.train.num_episodes
    if settings.groups_per_update is None:
        rows = min(trees, args.rollout.batch_size) * settings.rows_per_tree()
    else:
        rows = settings.groups_per_update * settings.group
    updates = settings.most_updates(trees, args.rollout.batch_size)
    steps: int = updates * optimizer_steps(rows, args.train.batch_size) * args.train.max_epochs
    return steps
