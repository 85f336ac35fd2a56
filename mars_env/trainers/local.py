"""The local trainer: on one device, from groups of turns or given completions to updated weights.

The mathematics is in `advantages`, `losses` and `objective`, the pass through the model in `forward`.
"""

import re
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from mars_env.errors import ConfigError, MarsError
from mars_env.identity import identity_of, settings_identity
from mars_env.lazy import needs
from mars_env.seeds import derive_seed
from mars_env.text import logger
from mars_env.trainers.advantages import advantage_stats, over_batch
from mars_env.trainers.config import Preferences, TrainConfig, estimator_of
from mars_env.trainers.credit_rules import credit_rule
from mars_env.trainers.metrics import StepMetrics, role_metrics
from mars_env.trainers.samples import TurnSample, given_sample, preference_pairs, turn_samples
from mars_env.trainers.scorable import scorable_groups
from mars_env.types import Completion, Group

with needs("hf", "the local trainer needs torch and safetensors"):
    import torch
    from torch import Tensor

    from mars_env.trainers.batches import Batch, collate
    from mars_env.trainers.checkpoints import (
        describe_weights,
        load_checkpoint,
        newest_checkpoint,
        save_checkpoint,
    )
    from mars_env.trainers.forward import cut, logits_of, plain_hidden, sampled_logprobs, score, training
    from mars_env.trainers.objective import LIKELIHOOD, REWARD, Objective, preference
    from mars_env.trainers.optimiser import Optimiser, trained_parameters
    from mars_env.trainers.policy import Policy
    from mars_env.trainers.prefixes import can_share

log = logger(__name__)

MOST_SKIPPED = 10
"""So many updates of a policy in a row that are not finite end the run."""


class LocalTrainer:
    """Trains one policy that all roles share, or one for each role, on one device.

    Args:
        policies: By the names in `Turn.policy`.
        config: The settings.
        run: What else the run depends on, as plain data. A checkpoint with other values is rejected.
        on_policy: Samples are of the trained weights themselves, in the same engine and precision: importance
            weights are 1, and not computed.
        preferences: Makes `step` train on preferences by DPO, in place of advantages.
        frozen: Names of policies that others hold: their turns count in their groups, but are not trained.
    """

    def __init__(
        self,
        policies: Mapping[str, Policy],
        config: TrainConfig | None = None,
        *,
        run: Mapping[str, Any] | None = None,
        on_policy: bool = False,
        preferences: Preferences | None = None,
        frozen: Collection[str] = (),
    ) -> None:
        config = config or TrainConfig()
        self.run = dict(run or {})
        self.config, self._on_policy = config, on_policy
        self.policies = dict(policies)
        self.steps = 0
        self.estimator = estimator_of(config)
        self.preferences, self.frozen = preferences, frozenset(frozen)
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
            ModelError: No turn can be scored.
            MarsError: `MOST_SKIPPED` updates of a policy in a row were not finite. The step is done.
        """
        began = time.perf_counter()
        groups, unscorable = scorable_groups(groups, self.config, self.frozen, required=True)
        policies, advantages = (self.policies.keys(), self.frozen), self.estimator(groups)
        if self.preferences is None:
            objective = REWARD
            samples = turn_samples(groups, self.config, advantages, *policies)
        else:
            objective = preference(self.preferences)
            samples = preference_pairs(groups, self.config, *policies)
        metrics = StepMetrics(
            self.steps + 1,
            advantages=advantage_stats(over_batch(groups, self.config.batch_roles), advantages),
            roles=role_metrics(groups, samples),
            unscorable=unscorable,
        )
        by_policy = {name: [sample for sample in samples if sample.policy == name] for name in self.policies}
        return self._stepped(by_policy, objective, metrics, began)

    def imitate(self, texts: Mapping[str, Sequence[Completion]]) -> StepMetrics:
        """Update policies by maximum likelihood on given completions, by policy; one step.

        The loss is ``-log p`` of each token at temperature 1, averaged as `TrainConfig.mean` says. The
        completions have token ids: they are of `HFModel.written`, or sampled. Raises as `step` does.
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
        batches = {name: self._batch(name, own, objective) for name, own in samples.items() if own}
        policies: dict[str, dict[str, float]] = {name: {} for name in self.policies}
        for name, batch in batches.items():  # all are made: one that cannot be ends the step before an update
            policies[name] = self._update(name, batch, objective)
        self.steps += 1
        for name, policy in self.policies.items():
            if policy.skipped >= MOST_SKIPPED:
                raise MarsError(
                    f"policy {name!r}: {policy.skipped} updates in a row had a gradient or a log-probability "
                    "that is not finite: lower the learning rate, or go on from an earlier checkpoint"
                )
        return replace(metrics, seconds=time.perf_counter() - began, policies=policies)

    def _batch(self, name: str, samples: Sequence[TurnSample], objective: Objective) -> Batch:
        policy, config = self.policies[name], self.config
        vocabulary = policy.model.get_input_embeddings().num_embeddings
        batch = collate(samples, vocabulary, on_policy=self._on_policy)
        if objective is REWARD and config.epochs * config.minibatches > 1:
            batch = replace(batch, old=score(policy.model, batch, config, shared=policy.shares))
        if objective.unit > 1 or (objective is REWARD and config.kl_coefficient):
            batch = replace(batch, reference=score(policy.reference, batch, config, shared=policy.shares))
        return batch

    def _update(self, name: str, batch: Batch, objective: Objective) -> dict[str, float]:
        policy, config = self.policies[name], self.config
        sums: list[dict[str, Tensor]] = []
        norms: list[Tensor] = []
        units, tried = len(batch) // objective.unit, 0
        for epoch in range(config.epochs):
            seed = derive_seed(config.seed, "order", self.steps, name, epoch)
            order = np.random.default_rng(seed).permutation(units)
            for part in np.array_split(order, min(config.minibatches, units)):
                rows = np.sort(part)[:, None] * objective.unit + np.arange(objective.unit)
                minibatch = batch.rows(torch.from_numpy(rows.ravel()))
                micro_sums, norm = self._gradient(policy, minibatch, objective)
                tried += 1
                if _descend(policy, micro_sums, norm):
                    sums += micro_sums
                    norms.append(norm)
        counts = {"updates": float(len(norms))}
        if tried > len(norms):
            log.warning("policy %r: %d updates that are not finite were left out", name, tried - len(norms))
            counts["skipped"] = float(tried - len(norms))
        if not norms:
            return counts
        policy.version += 1
        rate = policy.optimiser.rate(policy.updates - 1)
        return _means(sums, norms, config.epochs, objective.over) | {"learning_rate": rate} | counts

    def _gradient(
        self, policy: Policy, batch: Batch, objective: Objective
    ) -> tuple[list[dict[str, Tensor]], Tensor]:
        """Compute the clipped gradient of a minibatch; returns sums by micro-batch, and the norm before."""
        config, weights = self.config, objective.weights(batch, self.config)
        moving = batch.advantages.flatten() != 0
        counted = config.uniform_groups == "count" and objective is REWARD and not config.kl_coefficient
        if counted and moving.any():
            # The others have no gradient: they only count in the weights.
            batch, weights = batch.rows(moving.nonzero().flatten()), weights[moving]
        sums: list[dict[str, Tensor]] = []
        policy.optimiser.adamw.zero_grad()
        with training(policy.model, shared=policy.shares):
            for rows in cut(batch, config.token_budget, unit=objective.unit, shared=policy.shares):
                part, device = batch.rows(rows), policy.device
                values = sampled_logprobs(policy.model, part, config, shared=policy.shares)
                loss, metrics = objective.loss(*values, part.to(device), weights[rows].to(device), config)
                loss.backward()  # type: ignore[no-untyped-call]
                sums.append(metrics)
        return sums, policy.optimiser.clip()

    def save(self, directory: str | Path, *, keep: int = 2) -> Path:
        """Write a checkpoint of all policies; returns its path (see `mars_env.trainers.checkpoints`)."""
        return save_checkpoint(Path(directory), self.steps, self._identity, self.policies, keep)

    def resume(self, directory: str | Path) -> bool:
        """Load the newest checkpoint of a directory; False if there is none ahead of this trainer.

        A StoreError if it is damaged, or of other policies or settings that must match.
        """
        path = newest_checkpoint(Path(directory))
        if path is None or int(path.name.removeprefix("step-")) <= self.steps:
            return False
        self.steps = load_checkpoint(path, self._identity, self.policies)
        return True

    @cached_property
    def _identity(self) -> dict[str, dict[str, Any]]:
        settings = settings_identity(self.config)
        credit = credit_rule(self.config.credit).groups
        parts = {"credit": credit, "preferences": self.preferences}
        must_match = {
            **settings["must_match"],
            **describe_weights(self.policies),
            **{name: identity_of(part) for name, part in parts.items() if part is not None},
            "run": self.run,
        }
        return {**settings, "must_match": must_match}


def _descend(policy: Policy, sums: Sequence[Mapping[str, Tensor]], norm: Tensor) -> bool:
    values = torch.stack([value.float() for row in sums for value in row.values()])
    if not (norm.isfinite() and values.isfinite().all()):
        policy.skipped += 1
        return False
    policy.optimiser.step(policy.updates)
    policy.updates += 1
    policy.skipped = 0
    return True


def _require_trainable(name: str, policy: Policy, config: TrainConfig) -> None:
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
        name: total.pop(name) / epochs for name in ("tokens", "completions", "pairs") if name in total
    }
    loss, same = total.pop("loss"), total.pop("same_prompt", number)
    means = {name: value / number for name, value in total.items()}
    if "rollout_gap" in total:
        means["rollout_gap"] = total["rollout_gap"] / max(1.0, same)
    if same < number:
        means["other_prompt"] = 1 - same / number  # share of tokens that were sampled from another prompt
    return {"loss": loss / len(norms), **means, "grad_norm": torch.stack(list(norms)).mean().item(), **counts}
