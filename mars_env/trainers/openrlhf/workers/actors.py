"""OpenRLHF's Ray actors, extended: engines that know their policy's version, updates of any size.

Imports OpenRLHF, Ray and vLLM; the processes of a run import it by name.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from openrlhf.trainer.ray.ppo_actor import PolicyModelActor
from openrlhf.trainer.ray.vllm_engine import RolloutRayActor
from vllm import SamplingParams, TokensPrompt
from vllm.sampling_params import RequestOutputKind

from mars_env.trainers.openrlhf.rollouts.engines import streamed


def plain(actor: Any) -> Any:
    """The class that ``@ray.remote`` has made an actor of."""
    return actor.__ray_metadata__.modified_class.__ray_actor_class__


class TeamRolloutActor(plain(RolloutRayActor)):  # type: ignore[misc]
    """An engine that gives compact completions, and knows which version of the policy drew which token."""

    async def __init__(self, *args: Any, **kwargs: Any) -> None:  # type: ignore[misc]  # as Ray allows
        # The distribution that was sampled from, whether or not OpenRLHF corrects with it.
        kwargs |= {"logprobs_mode": "processed_logprobs", "max_logprobs": 1}
        await super().__init__(*args, **kwargs)
        self._version = 0
        self._news = asyncio.Condition()

    async def sample(
        self, ids: list[int], requests: Sequence[Mapping[str, Any]]
    ) -> list[tuple[tuple[int, ...], tuple[float, ...], str, tuple[tuple[int, int], ...]]]:
        """The fields of `mars_env.trainers.openrlhf.rollouts.engines.Sampled`, one for each request."""
        return await asyncio.gather(*(self._one(ids, request) for request in requests))

    async def hold(self, midway: bool) -> None:
        """Stop sampling before new weights come: `midway` freezes what is under way; else it ends first."""
        await self.llm.pause_generation(mode="keep" if midway else "wait")

    async def set_version(self, version: int) -> None:
        """The weights are now of this version."""
        self._version = version
        async with self._news:
            self._news.notify_all()

    async def go_on(self) -> None:
        """Sample again."""
        await self.llm.resume_generation()

    async def version(self, at_least: int = 0) -> int:
        """The version of the weights; waits until it is at least so high."""
        async with self._news:
            await self._news.wait_for(lambda: self._version >= at_least)
        return self._version

    async def _one(
        self, ids: list[int], request: Mapping[str, Any]
    ) -> tuple[tuple[int, ...], tuple[float, ...], str, tuple[tuple[int, int], ...]]:
        params = SamplingParams(**request, output_kind=RequestOutputKind.DELTA)
        prompt = TokensPrompt(prompt_token_ids=ids)
        # What was sampled before new weights came has arrived before their version is set.
        outputs = self.llm.generate(prompt, params, request_id=_request_id())
        told = await streamed(outputs, lambda: self._version)
        return told.token_ids, told.logprobs, told.finish_reason, told.versions


class TeamPolicyActor(plain(PolicyModelActor)):  # type: ignore[misc]
    """The policy's trainer, for updates of any number of rows: rows of padding count in no mean."""

    def init_model_from_pretrained(self, strategy: Any, *args: Any, **kwargs: Any) -> Any:
        """As OpenRLHF's."""
        result = super().init_model_from_pretrained(strategy, *args, **kwargs)
        self.trainer.training_step = self._step(self.trainer.training_step)
        return result

    def fit(self, kl_ctl: float = 0) -> Any:
        """Train on the buffer, in optimizer steps of equal size, none larger than ``--train.batch_size``."""
        args = self.strategy.args
        parallel = self.strategy.world_size // (args.ds.ring_attn_size * args.ds.tensor_parallel_size)
        rows = len(self.trainer.replay_buffer) * parallel
        steps = optimizer_steps(rows, args.train.batch_size)
        engine = self.actor.model
        engine.set_train_batch_size(rows // steps * args.ds.ring_attn_size * args.ds.tensor_parallel_size)
        self.strategy.accumulated_gradient = rows // steps // parallel // args.train.micro_batch_size
        return super().fit(kl_ctl)

    def _step(self, training_step: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
        def step(experience: Any, kl_ctl: float, number: int, info: Any = None) -> dict[str, Any]:
            last = (number + 1) % self.strategy.accumulated_gradient == 0
            self.actor.model.set_gradient_accumulation_boundary(last)
            real = experience.action_mask.bool().any(dim=-1)
            return without_padding(training_step(experience, kl_ctl, number, info), real)

        return step


def optimizer_steps(rows: int, batch_size: int) -> int:
    """The number of optimizer steps of an update: none has more rows than the batch size.

    Example:
        >>> optimizer_steps(100, 64), optimizer_steps(64, 64)
        (2, 1)
    """
    return math.ceil(rows / batch_size)


def without_padding(status: dict[str, Any], real: torch.Tensor) -> dict[str, Any]:
    """The figures of a micro-batch over its real rows alone.

    Args:
        status: What OpenRLHF's ``training_step`` returns.
        real: Which rows are no padding; boolean, of shape [rows].
    """
    count = int(real.sum())
    metrics = dict(status["metrics"])
    for name, weight in status["weights"].items():
        value = metrics[name]
        if weight == "sample" and isinstance(value, torch.Tensor):
            metrics[name] = value[real.to(value.device)].float().mean() if count else torch.zeros(())
        elif weight == "token" and not count:
            metrics[name] = torch.zeros(())
    # A micro-batch of padding weighs next to nothing: OpenRLHF divides by the sum of the weights.
    return {
        **status,
        "metrics": metrics,
        "num_samples": count or 1e-9,
        "num_action_tokens": status["num_action_tokens"] or 1e-9,
    }


def _request_id() -> str:
    from uuid import uuid4

    return uuid4().hex
