"""The local trainer: on one device, from groups of turns or given completions to updated weights.

Read it from top to bottom. The loop around it is in `loop`, the mathematics in `advantages`, `losses` and
`objective`, the pass through the model in `forward`.
"""

import re
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from mars_env.errors import ConfigError, MarsError
from mars_env.lazy import needs
from mars_env.seeds import derive_seed
from mars_env.text import logger
from mars_env.trainers.advantages import Estimator, advantage_stats, over_batch
from mars_env.trainers.checks import refuse_other_prompts
from mars_env.trainers.config import Preferences, TrainConfig, estimator_of
from mars_env.trainers.metrics import StepMetrics, role_metrics
from mars_env.trainers.samples import TurnSample, given_sample, preference_pairs, turn_samples
from mars_env.types import Completion, Group

with needs("hf", "the local trainer needs torch and safetensors"):
    import torch
    from torch import Tensor

    from mars_env.trainers.batches import Batch, collate
    from mars_env.trainers.checkpoints import (
        load_checkpoint,
        newest_checkpoint,
        save_checkpoint,
        trained_parameters,
    )
    from mars_env.trainers.forward import cut, logits_of, plain_hidden, sampled_logprobs, score, training
    from mars_env.trainers.objective import LIKELIHOOD, REWARD, Objective, preference
    from mars_env.trainers.optimiser import Optimiser
    from mars_env.trainers.prefixes import can_share

log = logger(__name__)


@dataclass(slots=True, eq=False)
class Policy:
    """Weights that are trained, and their optimiser. Turns name it in `Turn.policy`.

    Args:
        model: A causal language model of transformers, float32 (see `TrainConfig.offload`), on the device
            where it is trained; perhaps the module from which an `HFModel` samples.
        tokenizer: Is saved in its checkpoints.
        reference: A frozen model for the KL term and for preferences. A resumed run needs the same one.

    Attributes:
        version: Number of steps that have changed the weights.
        updates: Number of optimiser updates.
        shares: Whether tokens that rows share are computed once, see `TrainConfig.shared_prefixes`.
        optimiser: Created by the trainer.
    """

    model: Any
    tokenizer: Any = None
    reference: Any = None
    version: int = field(default=0, init=False)
    updates: int = field(default=0, init=False)
    shares: bool = field(default=False, init=False)
    optimiser: Optimiser = field(init=False, repr=False)

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return next(self.model.parameters()).device


class LocalTrainer:
    """Trains one policy that all roles share, or one for each role, on one device.

    Args:
        policies: By the names in `Turn.policy`.
        config: The settings.
        estimator: Replaces the advantage estimator that the settings name.
        run: What else the run depends on, as plain data. A checkpoint with other values is rejected.
        max_staleness: How many versions old the samples may be; see `TrainConfig.denominator`.
        preferences: Makes `step` train on preferences by DPO, in place of advantages.
        frozen: Names of policies that others hold: their turns count in their groups, but are not trained.

    Raises:
        ConfigError: A policy cannot be trained; the message says why.
    """

    def __init__(
        self,
        policies: Mapping[str, Policy],
        config: TrainConfig | None = None,
        *,
        estimator: Estimator | None = None,
        run: Mapping[str, Any] | None = None,
        max_staleness: int = 0,
        preferences: Preferences | None = None,
        frozen: Collection[str] = (),
    ) -> None:
        config = config or TrainConfig()
        self.run = dict(run or {})
        self.config = config.model_copy(update={"old_logprobs": config.denominator(max_staleness)})
        self.policies = dict(policies)
        self.steps = 0
        self.estimator = estimator or estimator_of(self.config)
        self.preferences, self.frozen = preferences, frozenset(frozen)
        self._settings = self.config.model_dump(mode="json") | {f"run.{k}": v for k, v in self.run.items()}
        if preferences is not None:
            self._settings["preferences"] = preferences.model_dump(mode="json")
        if max_staleness and config.tis_cap is None and self.config.old_logprobs == "trainer":
            log.warning(
                'old_logprobs="trainer" without a tis_cap: samples up to %d versions old are trained '
                'as if the newest weights had sampled them; old_logprobs="rollout" or tis_cap corrects it',
                max_staleness,
            )
        if not policies or len({id(policy.model) for policy in policies.values()}) < len(policies):
            raise ConfigError("give a policy or more, and each model once: roles share it by its name")
        for name, policy in self.policies.items():
            if any(policy.reference is other.model for other in self.policies.values()):
                raise ConfigError(f"policy {name!r}: its reference is trained, too: give a frozen copy")
            for module in filter(None, (policy.model, policy.reference)):
                module.eval()  # dropout would make the first ratio differ from 1, and the KL term noisy
            _require_trainable(name, policy, self.config)
            if preferences is not None and policy.reference is None:
                raise ConfigError(f"policy {name!r}: preferences need a reference: a copy of the weights")
            if self.config.gradient_checkpointing:
                policy.model.gradient_checkpointing_enable({"use_reentrant": False})
            if self.config.shared_prefixes:
                policy.shares = all(map(can_share, filter(None, (policy.model, policy.reference))))
                if not policy.shares:
                    log.info("policy %r: every row is read in full: its attention cannot share", name)
            policy.optimiser = Optimiser(policy.model, self.config)

    def step(self, groups: Sequence[Group]) -> StepMetrics:
        """Update all policies on the groups of one rollout: by advantages, or by preferences.

        Raises:
            ConfigError: A turn to be trained has no token ids, an unknown policy ...
            MarsError: A gradient is not finite. The weights are as they were before that update.
        """
        began = time.perf_counter()
        known, advantages = (self.policies.keys(), self.frozen), self.estimator(groups)
        if self.preferences is None:
            objective = REWARD
            found = turn_samples(groups, self.config, advantages, *known)
        else:
            objective = preference(self.preferences)
            found = preference_pairs(groups, self.config, *known)
        metrics = StepMetrics(
            self.steps + 1,
            advantages=advantage_stats(over_batch(groups, self.config.batch_roles), advantages),
            roles=role_metrics(groups, found),
        )
        samples = {name: [sample for sample in found if sample.policy == name] for name in self.policies}
        return self._stepped(samples, objective, metrics, began)

    def imitate(self, texts: Mapping[str, Sequence[Completion]]) -> StepMetrics:
        """Update policies by maximum likelihood on given completions, by policy; one step.

        The loss is ``-log p`` of each token at temperature 1, averaged as `TrainConfig.mean` says. The
        completions have token ids: they are of `HFModel.written`, or sampled.

        Raises:
            ConfigError: An unknown policy, or a completion without token ids.
            MarsError: A gradient is not finite. The weights are as they were before that update.
        """
        began = time.perf_counter()
        if unknown := texts.keys() - self.policies.keys():
            raise ConfigError(f"no policy {', '.join(sorted(unknown))}, only {', '.join(self.policies)}")
        samples = {
            name: [given_sample(c, name, i) for i, c in enumerate(texts.get(name, ()))]
            for name in self.policies
        }
        return self._stepped(samples, LIKELIHOOD, StepMetrics(self.steps + 1), began)

    def _stepped(
        self,
        samples: Mapping[str, Sequence[TurnSample]],
        objective: Objective,
        metrics: StepMetrics,
        began: float,
    ) -> StepMetrics:
        """One step on the samples of each policy; the metrics with those of the policies."""
        policies = {
            name: self._update(name, samples[name], objective) if samples[name] else {}
            for name in self.policies
        }
        self.steps += 1
        return replace(metrics, seconds=time.perf_counter() - began, policies=policies)

    def _update(self, name: str, samples: Sequence[TurnSample], objective: Objective) -> dict[str, float]:
        """All updates of one policy on one batch of samples; returns its metrics."""
        policy, config = self.policies[name], self.config
        if config.tis_cap is not None:
            refuse_other_prompts(samples, "truncated importance sampling (tis_cap)")
        batch = collate(samples, vocabulary=policy.model.get_input_embeddings().num_embeddings)
        if objective is REWARD and config.old_logprobs == "rollout":
            batch = replace(batch, old=batch.rollout)
        elif objective is REWARD and config.epochs * config.minibatches > 1:
            batch = replace(batch, old=score(policy.model, batch, config, shared=policy.shares))
        if objective.unit > 1 or (objective is REWARD and config.kl_coefficient):
            batch = replace(batch, reference=score(policy.reference, batch, config, shared=policy.shares))
        sums: list[dict[str, Tensor]] = []
        norms: list[Tensor] = []
        units = len(batch) // objective.unit
        for epoch in range(config.epochs):
            seed = derive_seed(config.seed, "order", self.steps, name, epoch)
            order = np.random.default_rng(seed).permutation(units)
            parts = np.array_split(order, min(config.minibatches, units))
            rows = (np.sort(part)[:, None] * objective.unit + np.arange(objective.unit) for part in parts)
            minibatches = (batch.rows(torch.from_numpy(each.ravel())) for each in rows)
            norms += [self._descend(policy, minibatch, sums, objective) for minibatch in minibatches]
        policy.version += 1
        return _means(sums, norms, config.epochs, objective.over) | {
            "learning_rate": policy.optimiser.rate(policy.updates - 1),
            "updates": float(len(norms)),
            "completions": float(len(batch)),
        }

    def _descend(
        self, policy: Policy, batch: Batch, sums: list[dict[str, Tensor]], objective: Objective
    ) -> Tensor:
        """One optimiser update on one minibatch; adds its sums to `sums` and returns the gradient's norm."""
        config, weights = self.config, objective.weights(batch, self.config)
        moving = batch.advantages.flatten() != 0
        counted = config.uniform_groups == "count" and objective is REWARD and not config.kl_coefficient
        if counted and moving.any():
            # The others have no gradient: they only count in the weights.
            batch, weights = batch.rows(moving.nonzero().flatten()), weights[moving]
        policy.optimiser.adamw.zero_grad()
        with training(policy.model, shared=policy.shares):
            for rows in cut(batch, config.token_budget, unit=objective.unit, shared=policy.shares):
                part, device = batch.rows(rows), policy.device
                values = sampled_logprobs(policy.model, part, config, shared=policy.shares)
                loss, metrics = objective.loss(*values, part.to(device), weights[rows].to(device), config)
                loss.backward()  # type: ignore[no-untyped-call]
                sums.append(metrics)
        norm = policy.optimiser.clip()
        if not torch.isfinite(norm):
            raise MarsError("a gradient is not finite: lower the learning rate, or check the logprobs")
        policy.optimiser.step(policy.updates)
        policy.updates += 1
        return norm

    def save(self, directory: str | Path, *, keep: int = 2) -> Path:
        """Write a checkpoint of all policies; returns its path (see `mars_env.trainers.checkpoints`).

        Raises:
            StoreError: It cannot be written; earlier ones stay.
        """
        return save_checkpoint(Path(directory), self.steps, self._settings, self.policies, keep)

    def resume(self, directory: str | Path) -> bool:
        """Load the newest complete checkpoint of a directory; False if there is none ahead of this trainer.

        Raises:
            StoreError: It was made with other settings or policies.
        """
        path = newest_checkpoint(Path(directory))
        if path is None or int(path.name.removeprefix("step-")) <= self.steps:
            return False
        self.steps = load_checkpoint(path, self._settings, self.policies)
        return True


def _require_trainable(name: str, policy: Policy, config: TrainConfig) -> None:
    """Reject a policy that would be trained wrongly without an error."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", name):
        raise ConfigError(f"policy {name!r}: a name may hold letters, digits and _.- (it names a directory)")
    trained = trained_parameters(policy.model)
    if not trained or (not config.offload and any(p.dtype != torch.float32 for p in trained.values())):
        # In 16 bits rounding would lose an update of 1e-6.
        raise ConfigError(f"policy {name!r}: its weights must be trainable float32: use .float() or offload")
    if config.kl_coefficient and policy.reference is None:
        raise ConfigError(f"policy {name!r}: kl_coefficient needs a reference, e.g. a copy of the weights")
    vocabulary = policy.model.get_input_embeddings().num_embeddings
    probe = torch.arange(min(16, vocabulary), device=policy.device).unsqueeze(0)
    with torch.no_grad():
        direct = policy.model(input_ids=probe, use_cache=False).logits
        computed = logits_of(policy.model, plain_hidden(policy.model, probe))
    close = 1e-4 if direct.dtype == torch.float32 else 0.05 * float(direct.abs().max())
    if not torch.allclose(direct.float(), computed, rtol=1e-4, atol=close):
        raise ConfigError(f"policy {name!r}: its logits are not its output embedding alone (scaled?)")


def _means(
    sums: Sequence[Mapping[str, Tensor]], norms: Sequence[Tensor], epochs: int, over: str
) -> dict[str, float]:
    """Means over tokens or pairs, from the micro-batches' sums in all epochs; counts are of one."""
    names = list(sums[0])
    table = torch.stack([torch.stack([row[name].float() for name in names]) for row in sums]).cpu().double()
    total = dict(zip(names, table.sum(0).tolist(), strict=True))
    number = total[over]
    counts: dict[str, float] = {
        name: total.pop(name) / epochs for name in ("tokens", "pairs") if name in total
    }
    loss, same = total.pop("loss"), total.pop("same_prompt", number)
    means = {name: value / number for name, value in total.items()}
    if "rollout_gap" in total:
        means["rollout_gap"] = total["rollout_gap"] / max(1.0, same)
    if same < number:
        means["other_prompt"] = 1 - same / number  # share of tokens that were sampled from another prompt
    return {"loss": loss / len(norms), **means, "grad_norm": torch.stack(list(norms)).mean().item(), **counts}
