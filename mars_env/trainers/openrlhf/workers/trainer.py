"""OpenRLHF's trainer of one policy, with a team's advantages."""

from collections.abc import Mapping, Sequence
from typing import Any

import ray
import torch
from openrlhf.trainer.ppo_trainer import BasePPOTrainer
from openrlhf.trainer.ppo_utils.experience_maker import RemoteExperienceMaker
from openrlhf.trainer.ppo_utils.samples_generator import SamplesGenerator
from openrlhf.trainer.ray.vllm_engine import batch_vllm_engine_call

from mars_env.trainers.config import Credit
from mars_env.trainers.objective import token_weights
from mars_env.trainers.openrlhf.policies import tag_of
from mars_env.trainers.openrlhf.rollouts.policy_run import PolicyRun
from mars_env.trainers.openrlhf.rollouts.responses import ADVANTAGE, batch_shape, responses
from mars_env.trainers.openrlhf.settings import TeamSettings
from mars_env.trainers.openrlhf.workers.actors import optimizer_steps
from mars_env.trainers.openrlhf.workers.processes import PolicyProcesses
from mars_env.trainers.samplers import COARSE, checked_gap, probe_ids
from mars_env.trainers.samples import TurnSample


class TeamExperienceMaker(RemoteExperienceMaker):  # type: ignore[misc]
    """Uses each row's advantage as it was computed from its group; metrics of padding rows are 0, not NaN.

    `credit` has the weights of tokens, which are factors of their advantages: OpenRLHF's GSPO has none, and
    no loss of OpenRLHF's has a veto or leaves mastered tokens out.
    """

    credit = Credit()

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
        """Each action token gets its row's advantage times its weight; nothing is whitened or clipped."""
        for experience in experiences:
            advantage = experience.info[ADVANTAGE].float()
            experience.rewards = experience.rewards.float()
            old, rollout = experience.action_log_probs, experience.rollout_log_probs
            mask, own = experience.action_mask.bool(), advantage.unsqueeze(-1)
            weights, parts = token_weights(old, rollout, mask, own, self.credit)
            experience.advantages = own * mask * weights
            for name, part in parts.items():
                experience.info[name] = (part * mask).sum(-1) / mask.sum(-1).clamp(min=1)
            experience.returns = experience.advantages.clone()
            experience.info["return"] = advantage
            experience.kl = None
        return experiences


class PolicyTrainer(BasePPOTrainer):  # type: ignore[misc]
    """The trainer of one policy; its caller asks for one update at a time.

    Attributes:
        version: Of the weights: how often they have been sent to the engines.
        step: Updates that have trained the policy.
        probe_gap: How far engines and trainer differed on the last probe (`mars_env.trainers.samplers`).
    """

    experience_maker: Any

    def __init__(self, settings: TeamSettings, processes: PolicyProcesses) -> None:
        wandb = processes.strategy.args.logger.wandb
        key, wandb.key = wandb.key, None  # OpenRLHF's logger would end the run of the policy before
        super().__init__(
            processes.strategy, processes.actors, None, None, processes.reference, processes.engines,
            processes.tokenizer,
        )  # fmt: skip
        wandb.key = key
        if key:
            self.wandb_logger = PolicyRun(self.args)
        self.version = self.step = 0
        self.probe_gap = 0.0
        self._scored: list[float] | None = None
        self._overlaps = settings.staleness > 0
        made = self.experience_maker
        self.experience_maker = TeamExperienceMaker(
            made.actor_model_group, None, None, made.initial_model_group, made.kl_ctl, made.strategy,
            made.tokenizer,
        )  # fmt: skip
        self.experience_maker.credit = settings

    @property
    def loggers(self) -> list[Any]:
        """Those that the flags ask for."""
        return [logger for logger in (self.wandb_logger, self.tensorboard_logger) if logger is not None]

    def resume(self) -> Mapping[str, Any]:
        """Load the arguments' checkpoint, if there is one; returns what it holds beside weights."""
        states: dict[str, Any] = self.init_checkpoint_states()
        self.restore_best_checkpoint_state(states)
        self.step = states["global_step"]
        self.version = max(0, self.step - 1)  # weights are sent once before the first step
        if self.step:
            self.broadcast_to_vllm()
        return states

    def update(self, samples: Sequence[TurnSample], ages: Mapping[str, int]) -> dict[str, Any]:
        """Train on samples, with the ages of their groups by id; returns OpenRLHF's metrics."""
        made = responses(
            samples,
            batch_shape(self.args),
            temperature=self.args.rollout.temperature,
            padding_token=self.tokenizer.pad_token_id,
            ages=ages,
        )
        maker = SamplesGenerator(self.strategy, None, None, self.tokenizer, self.vllm_engines)
        context = self.args.data.max_len
        rows = [maker._process_response_into_experience(row, max_len=context) for row in made]
        status, self.step = self.train_step(rows, self.step)
        return dict(status)

    def progress(self, update: int) -> dict[str, int]:
        """What a checkpoint holds beside the weights; rollouts in progress are played again."""
        return {"update": update, "global_step": self.step}

    def save(self, update: int) -> list[Any]:
        """Start to save a checkpoint; returns Ray's references."""
        best = {
            "best_eval_metric_key": self.best_eval_metric_key,
            "best_eval_metric_value": self.best_eval_metric_value,
            "latest_eval_metric_value": self._latest_eval_metric_value,
        }
        return self.actor_model_group.async_run_method(
            "save_checkpoint",
            tag=tag_of(update),
            client_states={**self.progress(update), **best},
            metric_value=self._latest_eval_metric_value,
            metric_key=self.best_eval_metric_key or None,
        )

    def broadcast_to_vllm(self) -> None:
        """Send the new weights to the engines while they do not sample.

        With partial rollouts, requests in progress are frozen, and continue with the new weights; otherwise
        they end first.
        """
        if self._overlaps:
            batch_vllm_engine_call(self.vllm_engines, "pause", self.args.train.partial_rollout_enable)
        try:
            super().broadcast_to_vllm()
            self.version += 1
            batch_vllm_engine_call(self.vllm_engines, "set_version", self.version)
        finally:
            if self._overlaps:
                batch_vllm_engine_call(self.vllm_engines, "resume")

        [self._scored, *_] = ray.get(self.actor_model_group.async_run_method("score", self._probe()))

    def probe(self) -> None:
        """Prove, or raise ModelError, that the engines, which are awake, have the weights sent last."""
        if self._scored is None:
            return
        found = batch_vllm_engine_call(self.vllm_engines, "score", self._probe())
        self.probe_gap = max(
            checked_gap(each, self._scored, COARSE, f"OpenRLHF's engine {i} (version {self.version})")
            for i, each in enumerate(found)
        )
        self._scored = None

    def _probe(self) -> list[int]:
        prompt, tokens = probe_ids(len(self.tokenizer))
        return [*prompt, *tokens]

    def _compute_rollout_stats(self, experiences: list[Any]) -> dict[str, float]:
        """OpenRLHF's metrics of the rollouts, over the real rows."""
        real = torch.cat([e.action_mask.bool().any(dim=-1) for e in experiences])

        def of(name: str) -> torch.Tensor:
            return torch.cat([getattr(e, name) for e in experiences])[real].float()

        rewards, advantages = of("rewards"), torch.cat([e.info[ADVANTAGE] for e in experiences])[real]
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
    """Most optimizer steps of a run of so many problems a pass, for the learning rate's schedule."""
    trees = problems * args.train.num_episodes
    if settings.groups_per_update is None:
        rows = min(trees, args.rollout.batch_size) * settings.rows_per_tree()
    else:
        rows = settings.groups_per_update * settings.group
    updates = settings.most_updates(trees, args.rollout.batch_size)
    return updates * optimizer_steps(rows, args.train.batch_size) * args.train.max_epochs
