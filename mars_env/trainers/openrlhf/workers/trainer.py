"""OpenRLHF's trainer of one policy, with a team's advantages."""

from collections.abc import Mapping, Sequence
from typing import Any

import ray
import torch
from openrlhf.trainer.ppo_trainer import BasePPOTrainer
from openrlhf.trainer.ppo_utils.experience_maker import RemoteExperienceMaker
from openrlhf.trainer.ppo_utils.samples_generator import SamplesGenerator
from openrlhf.trainer.ray.vllm_engine import batch_vllm_engine_call

from mars_env.models.checksums import Checksum
from mars_env.trainers.config import Credit
from mars_env.trainers.objective import token_weights
from mars_env.trainers.openrlhf.policies import tag_of
from mars_env.trainers.openrlhf.rollouts.responses import ADVANTAGE, batch_shape, responses
from mars_env.trainers.openrlhf.workers.processes import PolicyProcesses
from mars_env.trainers.proof import WeightProof, probe_ids
from mars_env.trainers.recipes import RunSettings
from mars_env.trainers.samples import TurnSample

_METRICS = {"policy_loss": "loss", "actor_lr": "learning_rate", "actor_grad_norm": "grad_norm"}


class TeamExperienceMaker(RemoteExperienceMaker):  # type: ignore[misc]
    """Uses each row's advantage as it was computed from its group; metrics of padding rows are 0, not NaN."""

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

    `version` of the weights says how often they have been sent to the engines, `step` how often trained.
    """

    experience_maker: Any

    def __init__(self, settings: RunSettings, processes: PolicyProcesses) -> None:
        super().__init__(
            processes.strategy, processes.actors, None, None, processes.reference, processes.engines,
            processes.tokenizer,
        )  # fmt: skip
        self.version = self.step = 0
        self._sent: dict[str, Checksum] = {}
        self._proofs = [WeightProof(f"OpenRLHF's engine {i}") for i in range(len(processes.engines))]
        self._overlaps = settings.pipeline.staleness > 0
        maker = self.experience_maker
        self.experience_maker = TeamExperienceMaker(
            maker.actor_model_group, None, None, maker.initial_model_group, maker.kl_ctl, maker.strategy,
            maker.tokenizer,
        )  # fmt: skip
        self.experience_maker.credit = settings.train

    def resume(self) -> Mapping[str, Any]:
        """Load the arguments' checkpoint, if there is one; returns what it holds beside weights."""
        states: dict[str, Any] = self.init_checkpoint_states()
        self.step = states["global_step"]
        self.version = max(0, self.step - 1)  # weights are sent once before the first step
        if self.step:
            self.broadcast_to_vllm()
        return states

    def rows(self, samples: Sequence[TurnSample]) -> list[Any]:
        """OpenRLHF's rows of samples."""
        plain_rows = responses(
            samples,
            batch_shape(self.args),
            temperature=self.args.rollout.temperature,
            padding_token=self.tokenizer.pad_token_id,
        )
        maker = SamplesGenerator(self.strategy, None, None, self.tokenizer, self.vllm_engines)
        context = self.args.data.max_len
        return [maker._process_response_into_experience(row, max_len=context) for row in plain_rows]

    def update(self, rows: Sequence[Any]) -> dict[str, float]:
        """Train on rows; returns OpenRLHF's metrics, those of the local trainer under its names."""
        status, self.step = self.train_step(list(rows), self.step)
        numbers = {name: float(value) for name, value in status.items() if name != "generated_samples"}
        return {_METRICS.get(name, name): value for name, value in numbers.items()}

    def save(self, update: int) -> list[Any]:
        """Start to save a checkpoint; returns Ray's references. Rollouts in progress are played again."""
        states = {"update": update, "global_step": self.step}
        return self.actor_model_group.async_run_method(
            "save_checkpoint", tag=tag_of(update), client_states=states
        )

    def broadcast_to_vllm(self) -> None:
        """Send the new weights to the engines while they do not sample: requests end first, or are frozen."""
        if self._overlaps:
            batch_vllm_engine_call(self.vllm_engines, "pause", self.args.train.partial_rollout_enable)
        try:
            super().broadcast_to_vllm()
            self.version += 1
            batch_vllm_engine_call(self.vllm_engines, "set_version", self.version)
        finally:
            if self._overlaps:
                batch_vllm_engine_call(self.vllm_engines, "resume")

        dtype = batch_vllm_engine_call(self.vllm_engines, "dtype")[0]
        parts = ray.get(self.actor_model_group.async_run_method("checksums", dtype))
        divided = self.args.ds.zero_stage == 3 or self.args.ds.tensor_parallel_size > 1
        ranks = {f"rank {i}: {n}": value for i, part in enumerate(parts) for n, value in part.items()}
        self._sent = ranks if divided else parts[0]

    def prove_weights(self) -> float:
        """Prove, or raise ModelError, that the engines, which are awake, have the weights sent last.

        Returns the share of the tensors that are compared.
        """
        if self._sent:
            prompt, tokens = probe_ids(len(self.tokenizer))
            checksums = batch_vllm_engine_call(self.vllm_engines, "checksums")
            scored = batch_vllm_engine_call(self.vllm_engines, "score", [*prompt, *tokens])
            for proof, sampled, values in zip(self._proofs, checksums, scored, strict=True):
                proof.compare(self._sent, sampled)
                proof.compare_probe(values)
        self._sent = {}
        return min(proof.share_read for proof in self._proofs)

    def _compute_rollout_stats(self, experiences: list[Any]) -> dict[str, float]:
        real = torch.cat([e.action_mask.bool().any(dim=-1) for e in experiences])
        advantages = torch.cat([e.info[ADVANTAGE] for e in experiences])[real]
        return {
            "samples": float(len(advantages)),
            "padding": float(len(real) - len(advantages)),
            "advantage_std": advantages.std().item() if len(advantages) > 1 else 0.0,
        }
