"""OpenRLHF's Ray actors, extended: engines that know their policy's version, and updates of any size."""

import asyncio
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar
from uuid import uuid4

import torch
from openrlhf.models.loss import aggregate_loss
from openrlhf.trainer.ray.ppo_actor import PolicyModelActor
from openrlhf.trainer.ray.vllm_engine import RolloutRayActor
from vllm import SamplingParams, TokensPrompt
from vllm.platforms import current_platform
from vllm.sampling_params import RequestOutputKind

from mars_env.models.checksums import Checksum, checksums, merged
from mars_env.models.requests import Sampled
from mars_env.models.vllm_weights import WEIGHT_CHECKSUMS
from mars_env.trainers.config import Credit
from mars_env.trainers.objective import weighted_kl
from mars_env.trainers.openrlhf.rollouts.engines import streamed
from mars_env.trainers.openrlhf.workers.extension import EXTENSION
from mars_env.trainers.tables import EngineSettings


def _actor_class(actor: Any) -> Any:
    return actor.__ray_metadata__.modified_class.__ray_actor_class__


class TeamRolloutActor(_actor_class(RolloutRayActor)):  # type: ignore[misc]
    """An engine that returns compact completions, with the policy's version that sampled each token."""

    settings: ClassVar[EngineSettings] = EngineSettings()

    async def __init__(self, *args: Any, **kwargs: Any) -> None:  # type: ignore[misc]  # as Ray allows
        # Log-probabilities under the sampling distribution, whether or not OpenRLHF corrects with them.
        kwargs |= {"logprobs_mode": "processed_logprobs", "max_logprobs": 1}
        kwargs |= self.settings.limits() | ordered_experts(current_platform)
        kwargs["worker_extension_cls"] = EXTENSION
        await super().__init__(*args, **kwargs)
        self._version = 0

    async def sample(self, ids: list[int], requests: Sequence[Mapping[str, Any]]) -> list[Sampled]:
        """One completion of a prompt for each request."""
        return await asyncio.gather(*(self._one(ids, request) for request in requests))

    async def score(self, ids: list[int]) -> list[float]:
        """The log-probabilities of all tokens but the first, at temperature 1."""
        kind = RequestOutputKind.FINAL_ONLY
        params = SamplingParams(max_tokens=1, prompt_logprobs=0, detokenize=False, output_kind=kind)
        prompt = TokensPrompt(prompt_token_ids=ids)
        [final] = [each async for each in self.llm.generate(prompt, params, request_id=uuid4().hex)]
        return [entry[id].logprob for id, entry in zip(ids[1:], final.prompt_logprobs[1:], strict=True)]

    async def checksums(self) -> dict[str, Checksum]:
        """The checksums of those weights that are held as in a checkpoint, by name there."""
        return merged(await self.llm.collective_rpc(WEIGHT_CHECKSUMS))

    async def dtype(self) -> str:
        """The weights' type, e.g. ``"bfloat16"``."""
        return str(self.llm.vllm_config.model_config.dtype).removeprefix("torch.")

    async def pause(self, midway: bool) -> None:
        """Stop sampling for new weights. `midway` freezes requests under way; otherwise they end first."""
        await self.llm.pause_generation(mode="keep" if midway else "wait")

    async def set_version(self, version: int) -> None:
        """The weights are now of this version."""
        self._version = version

    async def resume(self) -> None:
        """Continue sampling."""
        await self.llm.resume_generation()

    async def _one(self, ids: list[int], request: Mapping[str, Any]) -> Sampled:
        params = SamplingParams(**request, output_kind=RequestOutputKind.DELTA)
        # Tokens that were sampled before new weights came have arrived before the new version is set.
        outputs = self.llm.generate(TokensPrompt(prompt_token_ids=ids), params, request_id=uuid4().hex)
        return await streamed(outputs, lambda: self._version)


class LossWithKL(torch.nn.Module):
    """OpenRLHF's policy loss and the KL term of the local trainer: `mars_env.trainers.objective.weighted_kl`.

    OpenRLHF's own term has no weight for what older weights or another engine sampled, and its mean is over
    tokens even where that of the policy loss is over completions. `reference` are the log-probabilities of
    the reference, of the micro-batch that comes next.
    """

    def __init__(self, policy_loss: Any, credit: Credit) -> None:
        super().__init__()
        self.policy_loss, self.credit = policy_loss, credit
        self.coefficient = 0.0
        self.reference: Any = None

    def forward(self, logp: Any, old: Any, advantages: Any, **batch: Any) -> tuple[Any, ...]:
        """As OpenRLHF's `PolicyLoss`, with the KL term in the first value."""
        loss, *metrics = self.policy_loss(logp, old, advantages, **batch)
        if self.coefficient:
            mask, sampled = batch.pop("action_mask"), batch.pop("rollout_log_probs")
            kl = weighted_kl(logp, self.reference, sampled, mask, self.credit)
            over_tokens = self.policy_loss.token_level_loss
            loss = loss + self.coefficient * aggregate_loss(kl, mask, over_tokens, **batch)
        return loss, *metrics


class TeamPolicyActor(_actor_class(PolicyModelActor)):  # type: ignore[misc]
    """The policy's trainer, for updates with any number of rows; padding rows count in no mean."""

    settings: ClassVar[Credit] = Credit()

    def init_model_from_pretrained(self, strategy: Any, *args: Any, **kwargs: Any) -> Any:
        """As OpenRLHF's."""
        result = super().init_model_from_pretrained(strategy, *args, **kwargs)
        self.trainer.actor_loss_fn = LossWithKL(self.trainer.actor_loss_fn, self.settings)
        self.trainer.training_step = self._step(self.trainer.training_step)
        return result

    def fit(self, kl_ctl: float = 0) -> Any:
        """Train on the buffer, in optimizer steps of equal size, none larger than ``--train.batch_size``."""
        args = self.strategy.args
        parallel = self.strategy.world_size // (args.ds.ring_attn_size * args.ds.tensor_parallel_size)
        rows = len(self.trainer.replay_buffer.items) * parallel
        steps = optimizer_steps(rows, args.train.batch_size)
        if args.train.dynamic_batch_enable:
            with one_update(args, rows, steps):
                return super().fit(kl_ctl)
        engine = self.actor.model
        engine.set_train_batch_size(rows // steps * args.ds.ring_attn_size * args.ds.tensor_parallel_size)
        self.strategy.accumulated_gradient = rows // steps // parallel // args.train.micro_batch_size
        return super().fit(kl_ctl)

    def checksums(self, dtype: str) -> dict[str, Checksum]:
        """The checksums of the weights as they are in a type, by name; of this rank's parts with ZeRO 3."""
        tensors = {
            name: getattr(parameter, "ds_tensor", parameter)
            for name, parameter in self.actor.model.module.named_parameters()
        }
        return checksums(tensors, dict.fromkeys(tensors, dtype))

    def _step(self, training_step: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
        def step(experience: Any, kl_ctl: float, number: int, info: Any = None) -> dict[str, Any]:
            if self.strategy.args.train.dynamic_batch_enable:
                last = bool(self.trainer.replay_buffer.dynamic_optimizer_step[number])
            else:
                last = (number + 1) % self.strategy.accumulated_gradient == 0
            self.actor.model.set_gradient_accumulation_boundary(last)
            real = experience.action_mask.bool().any(dim=-1)
            loss = self.trainer.actor_loss_fn
            loss.coefficient, loss.reference = kl_ctl, experience.base_action_log_probs
            status = with_mismatch(training_step(experience, 0.0, number, info), experience)
            return without_padding(status, real)

        return step


def ordered_experts(platform: Any) -> dict[str, str]:
    """For kernels of vLLM that keep the experts of a mixture in the order of a checkpoint.

    OpenRLHF writes new weights into the engine's own. On Blackwell GPUs vLLM's default, FlashInfer's kernels,
    has the experts in another order: the first update would fail, or shuffle them silently.
    """
    return {"moe_backend": "triton"} if platform.is_cuda() else {}


@contextmanager
def one_update(args: Any, rows: int, steps: int) -> Iterator[None]:
    """A context in which OpenRLHF's arguments are as if every update had this one's `rows` on all ranks.

    Where micro-batches are dynamic, its replay buffer computes the number of optimizer steps from them, and
    would drop rows of all smaller updates.
    """
    before = args.train.batch_size, args.rollout.batch_size, args.rollout.n_samples_per_prompt
    args.train.batch_size, args.rollout.batch_size, args.rollout.n_samples_per_prompt = rows // steps, rows, 1
    try:
        yield
    finally:
        args.train.batch_size, args.rollout.batch_size, args.rollout.n_samples_per_prompt = before


def optimizer_steps(rows: int, batch_size: int) -> int:
    """The number of optimizer steps of an update: none has more rows than the batch size."""
    return math.ceil(rows / batch_size)


def with_mismatch(status: dict[str, Any], experience: Any) -> dict[str, Any]:
    """The metrics of a micro-batch with ``vllm_kl``, which OpenRLHF computes with its own correction alone.

    It is the mean over action tokens of the engine's log-probability less the trainer's before the update.
    """
    mask = experience.action_mask.float()
    engine, trainer = (
        values.to(mask.device) for values in (experience.rollout_log_probs, experience.action_log_probs)
    )
    mean = ((engine - trainer) * mask).sum() / mask.sum().clamp(min=1)
    return {
        **status,
        "metrics": {**status["metrics"], "vllm_kl": mean},
        "weights": {**status["weights"], "vllm_kl": "token"},
    }


def without_padding(status: dict[str, Any], real: torch.Tensor) -> dict[str, Any]:
    """The metrics of a micro-batch over its real rows only (`real`: boolean, of shape [rows])."""
    count = int(real.sum())
    metrics = dict(status["metrics"])
    for name, weight in status["weights"].items():
        value = metrics[name]
        if weight == "sample" and isinstance(value, torch.Tensor):
            metrics[name] = value[real.to(value.device)].float().mean() if count else torch.zeros(())
        elif weight == "token" and not count:
            metrics[name] = torch.zeros(())
    # A micro-batch of padding has almost no weight: OpenRLHF divides by the sum of the weights.
    return {
        **status,
        "metrics": metrics,
        "num_samples": count or 1e-9,
        "num_action_tokens": status["num_action_tokens"] or 1e-9,
    }
