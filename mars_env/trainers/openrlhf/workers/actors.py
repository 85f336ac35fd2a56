"""OpenRLHF's Ray actors, extended: engines that know their policy's version, and updates of any size."""

import asyncio
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar
from uuid import uuid4

import torch
from openrlhf.trainer.ray.ppo_actor import PolicyModelActor
from openrlhf.trainer.ray.vllm_engine import RolloutRayActor
from vllm import SamplingParams, TokensPrompt
from vllm.platforms import current_platform
from vllm.sampling_params import RequestOutputKind

from mars_env.errors import ConfigError
from mars_env.models.requests import Sampled
from mars_env.trainers.openrlhf.rollouts.engines import streamed
from mars_env.trainers.openrlhf.settings import TeamSettings


def _actor_class(actor: Any) -> Any:
    """The class from which ``@ray.remote`` has made an actor."""
    return actor.__ray_metadata__.modified_class.__ray_actor_class__


class TeamRolloutActor(_actor_class(RolloutRayActor)):  # type: ignore[misc]
    """An engine that returns compact completions, with the policy's version that sampled each token."""

    team: ClassVar[TeamSettings | None] = None

    async def __init__(self, *args: Any, **kwargs: Any) -> None:  # type: ignore[misc]  # as Ray allows
        limits = self.team.engine_limits() if self.team is not None else {}
        # Log-probabilities under the sampling distribution, whether or not OpenRLHF corrects with them.
        kwargs |= {"logprobs_mode": "processed_logprobs", "max_logprobs": 1} | limits
        kwargs |= ordered_experts(current_platform)
        await super().__init__(*args, **kwargs)
        require_limits(limits, self.llm.vllm_config.scheduler_config)
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


class TeamPolicyActor(_actor_class(PolicyModelActor)):  # type: ignore[misc]
    """The policy's trainer, for updates with any number of rows; padding rows count in no mean."""

    def init_model_from_pretrained(self, strategy: Any, *args: Any, **kwargs: Any) -> Any:
        """As OpenRLHF's."""
        result = super().init_model_from_pretrained(strategy, *args, **kwargs)
        self.trainer.training_step = self._step(self.trainer.training_step)
        return result

    def fit(self, kl_ctl: float = 0) -> Any:
        """Train on the buffer, in optimizer steps of equal size, none larger than ``--train.batch_size``.

        The metric ``micro_batches`` is how often each rank went through the model.
        """
        args, self._passes = self.strategy.args, 0
        parallel = self.strategy.world_size // (args.ds.ring_attn_size * args.ds.tensor_parallel_size)
        rows = len(self.trainer.replay_buffer.items) * parallel
        steps = optimizer_steps(rows, args.train.batch_size)
        if args.train.dynamic_batch_enable:
            with one_update(args, rows, steps):
                status = super().fit(kl_ctl)
        else:
            engine = self.actor.model
            engine.set_train_batch_size(rows // steps * args.ds.ring_attn_size * args.ds.tensor_parallel_size)
            self.strategy.accumulated_gradient = rows // steps // parallel // args.train.micro_batch_size
            status = super().fit(kl_ctl)
        return {**status, "micro_batches": float(self._passes)}

    def score(self, ids: list[int]) -> list[float]:
        """The log-probabilities of all tokens but the first, at temperature 1."""
        sequences, temperature = torch.tensor([ids]), self.actor.temperature
        self.actor.temperature = 1.0
        try:
            mask = torch.ones_like(sequences)
            found = self.forward(sequences, mask[:, 1:], mask)
        finally:
            self.actor.temperature = temperature
        return found[0].tolist()

    def _step(self, training_step: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
        def step(experience: Any, kl_ctl: float, number: int, info: Any = None) -> dict[str, Any]:
            self._passes += 1
            if self.strategy.args.train.dynamic_batch_enable:
                last = bool(self.trainer.replay_buffer.dynamic_optimizer_step[number])
            else:
                last = (number + 1) % self.strategy.accumulated_gradient == 0
            self.actor.model.set_gradient_accumulation_boundary(last)
            real = experience.action_mask.bool().any(dim=-1)
            status = with_mismatch(training_step(experience, kl_ctl, number, info), experience)
            return without_padding(status, real)

        return step


def ordered_experts(platform: Any) -> dict[str, str]:
    """The argument for kernels of vLLM that keep the experts of a mixture in the order of a checkpoint.

    OpenRLHF writes new weights into the engine's own. On Blackwell GPUs vLLM's default, FlashInfer's kernels,
    has the experts in another order: the first update would fail, or shuffle them silently.
    """
    return {"moe_backend": "triton"} if platform.is_cuda() else {}


def require_limits(asked: Mapping[str, int], scheduler: Any) -> None:
    """Reject, with ConfigError, an engine whose scheduler has other limits than it was given."""
    for name, limit in asked.items():
        if (there := getattr(scheduler, name)) != limit:
            raise ConfigError(f"--mars.{name} {limit} was asked for, but the engine has {there}: give that")


@contextmanager
def one_update(args: Any, rows: int, steps: int) -> Iterator[None]:
    """A context in which OpenRLHF's arguments are as if every update had this one's `rows` on all ranks.

    Where micro-batches are dynamic, its replay buffer computes the number of optimizer steps from them, and
    would drop rows of all updates that are not of the largest size.
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
    """The metrics of a micro-batch with ``vllm_kl``, which OpenRLHF computes with correction and PPO alone.

    It is the mean, over action tokens, of the engine's log-probability less the trainer's before the update.
    """
    if "vllm_kl" in status["metrics"]:
        return status
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
