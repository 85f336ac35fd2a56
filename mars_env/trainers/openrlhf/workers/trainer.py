"""OpenRLHF's trainers, synchronous and asynchronous, with a team's rollouts. Imports OpenRLHF.

Each class has the run's settings as a class attribute: Ray sends a class to the nodes, but only OpenRLHF's
own arguments.
"""

from __future__ import annotations

import time
from typing import Any, ClassVar

import ray
import torch
from openrlhf.trainer.ppo_trainer import BasePPOTrainer, PPOTrainer
from openrlhf.trainer.ppo_trainer_async import GenerateSamplesActor, TrainingActor
from openrlhf.trainer.ray.vllm_engine import batch_vllm_engine_call
from openrlhf.utils.logging_utils import init_logger

from mars_env.trainers.openrlhf.settings import TeamSettings
from mars_env.trainers.openrlhf.workers.actors import optimizer_steps, plain
from mars_env.trainers.openrlhf.workers.experience import TeamExperienceMaker
from mars_env.trainers.openrlhf.workers.generator import TeamSamplesGenerator, drawn_problems

log = init_logger(__name__)


class TeamTraining:
    """What both trainers have in common: advantages, versions of the weights, figures."""

    team: ClassVar[TeamSettings]
    version = 0
    args: Any
    vllm_engines: Any
    experience_maker: Any

    def take_advantages(self) -> None:
        """Replace OpenRLHF's experience maker with the team's."""
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

    def train_step(self, rollout_samples: Any, global_step: int) -> tuple[dict[str, Any], int]:
        """As in OpenRLHF, with the team's figures."""
        status, step = super().train_step(rollout_samples, global_step)  # type: ignore[misc]
        return {**status, **rollout_samples.figures}, step

    def init_checkpoint_states(self) -> dict[str, Any]:
        """As in OpenRLHF; after a resume the weights' version is the number of steps done."""
        states: dict[str, Any] = super().init_checkpoint_states()  # type: ignore[misc]
        self.version = max(0, states["global_step"] - 1)  # weights are sent once before the first step
        return states

    def send_weights(self, midway: bool) -> None:
        """Send the new weights to the engines while they do not sample.

        Args:
            midway: Freeze the requests under way, so that they continue with the new weights; otherwise they
                end first.
        """
        under_way = self.team.staleness > 0
        if under_way:
            batch_vllm_engine_call(self.vllm_engines, "pause", midway)
        try:
            BasePPOTrainer.broadcast_to_vllm(self)
            self.version += 1
            batch_vllm_engine_call(self.vllm_engines, "set_version", self.version)
        finally:
            if under_way:
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


class TeamPPOTrainer(TeamTraining, plain(PPOTrainer)):  # type: ignore[misc]
    """The synchronous trainer."""

    def __init__(self, pretrain: str, strategy: Any, *args: Any, **generate_kwargs: Any) -> None:
        torch.manual_seed(strategy.args.train.seed)  # of the order in which the loader draws
        super().__init__(pretrain, strategy, *args, **generate_kwargs)
        self.take_advantages()
        self.prompts_dataloader, self.samples_generator, self.max_steps = _team_of(self, self.team)

    def broadcast_to_vllm(self) -> None:
        """Send the weights."""
        self.send_weights(midway=False)

    def evaluate(self, global_step: int, **generate_kwargs: Any) -> dict[str, float]:
        """Play the evaluation's problems and log their figures."""
        began = time.time()
        figures: dict[str, float] = self.samples_generator.evaluate()
        for logger in filter(None, (self.wandb_logger, self.tensorboard_logger)):
            logger.log_eval(global_step, figures)
        log.info(f"Evaluation at global step {global_step} ({time.time() - began:.0f} s): {figures}")
        return figures


class TeamGenerateSamplesActor(plain(GenerateSamplesActor)):  # type: ignore[misc]
    """The asynchronous generator. Its rollouts continue whatever it waits for."""

    team: ClassVar[TeamSettings]

    def __init__(self, pretrain: str, strategy: Any, vllm_engines: Any, **kwargs: Any) -> None:
        torch.manual_seed(strategy.args.train.seed)
        super().__init__(pretrain, strategy, vllm_engines, **kwargs)
        self.prompts_dataloader, self.samples_generator, self.max_steps = _team_of(self, self.team)
        # The lock separates weights and rollouts batch by batch. Here rollouts never end: the trainer itself
        # pauses the engines while it sends weights. (Evaluations take the lock in any case.)
        self._partial_rollout = True

    def _run_eval(self) -> dict[str, float]:
        """Play the evaluation's problems."""
        figures: dict[str, float] = self.samples_generator.evaluate()
        log.info(f"Evaluation: {figures}")
        return figures


class TeamTrainingActor(TeamTraining, plain(TrainingActor)):  # type: ignore[misc]
    """The asynchronous trainer."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.take_advantages()

    def broadcast_to_vllm(self) -> None:
        """Send the weights, but not during an evaluation."""
        ray.get(self.vllm_lock.acquire.remote())
        try:
            self.send_weights(midway=self._partial_rollout)
        finally:
            ray.get(self.vllm_lock.release.remote())


def _team_of(trainer: Any, settings: TeamSettings) -> tuple[Any, TeamSamplesGenerator, int]:
    """The ledger, the generator, and the number of optimizer steps, for a trainer that has OpenRLHF's."""
    theirs = trainer.samples_generator
    prompts = drawn_problems(settings, trainer.prompts_dataloader, theirs.args)
    generator = TeamSamplesGenerator(
        settings, theirs.strategy, prompts, trainer.eval_dataloader, theirs.tokenizer, theirs.vllm_engines
    )
    return prompts, generator, scheduled_steps(settings, theirs.args, len(prompts))


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
