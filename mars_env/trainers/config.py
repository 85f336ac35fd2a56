"""The settings of a training run, with their sources. No torch in here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from mars_env.errors import ConfigError
from mars_env.text import shown, suggestion
from mars_env.types import Agent, Sampling, role_of


class Overlong(BaseModel):
    """A penalty that grows over the last tokens before a completion's limit.

    See `mars_env.trainers.advantages.overlong_penalty`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    limit: int = Field(ge=1)
    """Most tokens of one completion: the agents' ``Sampling.max_tokens``. At the limit the penalty is -1."""
    buffer: int = Field(default=2048, ge=1)
    """Over this many tokens before the limit it grows from 0 to -1. MARS2: 2048."""

    @model_validator(mode="after")
    def _consistent(self) -> Overlong:
        if self.buffer > self.limit:
            raise ValueError("an overlong buffer longer than the limit would penalise every completion")
        return self


class TreeCredit(BaseModel):
    """A node's reward relative to those of its parent and siblings: `mars_env.trainers.tree_credit`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    sibling_weight: float = Field(default=0.5, ge=0, le=1)
    """Weight of the siblings in the baseline; the parent has the rest. MARS2's public code: 0.5."""
    strength: float = Field(default=0.5, ge=0)
    """How far a reward is moved away from its baseline. MARS2's public code: 0.5."""


class Preferences(BaseModel):
    """Training on preferences (DPO) in place of advantages: `mars_env.trainers.preferences`.

    Example:
        >>> Preferences().beta
        0.1
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    beta: float = Field(default=0.1, gt=0)
    """How strongly the policy is held to its reference. DPO's paper: 0.1; PromptCoT 2.0 does not state it."""


def require_limit(overlong: Overlong | None, agents: Mapping[str, Agent]) -> None:
    """Refuse agents whose completions end at another limit than the penalty is for, where they tell it.

    Raises:
        ConfigError: The message names the agent and both limits.
    """
    for name, agent in agents.items():
        sampling = getattr(agent, "sampling", None)
        if overlong and isinstance(sampling, Sampling) and sampling.max_tokens != overlong.limit:
            raise ConfigError(
                f"{name} samples up to {sampling.max_tokens} tokens, but the overlong penalty is for a limit "
                f"of {overlong.limit}: set its limit to the agents' own"
            )


def require_roles(config: TrainConfig, agents: Iterable[str]) -> None:
    """Refuse settings that name roles which no agent has: less than was meant would be trained, or nothing.

    Args:
        config: Its `train_roles` and `batch_roles` are looked at.
        agents: Names of all agents.

    Raises:
        ConfigError: There is no such role, or none is to be trained.

    Example:
        >>> require_roles(TrainConfig(train_roles=("solver",)), ["solver_0", "verifier_0"])
        >>> require_roles(TrainConfig(train_roles=("solver_0",)), ["solver_0", "verifier_0"])
        Traceback (most recent call last):
        mars_env.errors.ConfigError: train_roles names 'solver_0', but the roles are solver, verifier; did you mean 'solver'?
    """  # noqa: E501
    known = list(dict.fromkeys(map(role_of, agents)))
    if config.train_roles is not None and not config.train_roles:
        raise ConfigError(f"train_roles names no role, so nothing would be trained: give {', '.join(known)}")
    for setting, roles in (("train_roles", config.train_roles or ()), ("batch_roles", config.batch_roles)):
        for role in roles:
            if role not in known:
                raise ConfigError(
                    f"{setting} names {shown(role)}, but the roles are {', '.join(known)}"
                    f"{suggestion(role, known)}"
                )


class TrainConfig(BaseModel):
    """How turns become updates. How turns are sampled (temperature, group size) belongs to the rollout.

    The defaults are those of MarsRL (arXiv 2511.11373) if the paper gives a number, and otherwise the usual
    ones. MarsRL samples at temperature 0.85 in groups of 8, 128 problems a step; the trainer reads
    the temperature from each completion and the groups from the batch, so neither is set here.

    Example:
        >>> TrainConfig().learning_rate
        1e-06
        >>> gspo = TrainConfig(ratio="sequence")
        >>> gspo.clip, gspo.mean
        ((0.0003, 0.0004), 'sequence-mean')
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    seed: int = 0
    """Seed of the order of minibatches. In a run (`RunSettings`) the run's own seed takes its place."""

    train_roles: tuple[str, ...] | None = None
    """Only turns of these roles enter the loss, e.g. ``("solver",)``; None: all."""

    advantage: Literal["group_normalised", "mean_centred", "leave_one_out"] = "group_normalised"
    """An estimator of `mars_env.trainers.advantages`. MarsRL and MARS2: group_normalised."""

    uniform_groups: Literal["count", "drop"] = "count"
    """Groups whose known rewards are all equal have no policy gradient. ``"count"``: their turns are in the
    loss with the advantage 0, so they count in its denominators and get the KL term, as in the formulas of
    GRPO, MarsRL and MARS2. ``"drop"``: they are left out, as in DAPO's dynamic sampling."""

    batch_roles: tuple[str, ...] = ()
    """Roles whose turns are compared with each other over the whole batch, whatever their groups; see
    `mars_env.trainers.advantages.over_batch`. SPELL: its Questioner."""

    tree_credit: TreeCredit | None = None
    """Shapes the rewards along the tree before advantages are computed; None turns it off."""

    overlong: Overlong | None = None
    """Adds a penalty to the rewards of turns close to their limit; None turns it off."""

    learning_rate: float = Field(default=1e-6, ge=0)
    """Learning rate of AdamW, constant after the warm-up. MarsRL: 1e-6. A miniature needs 1e-4 or more."""

    warmup_updates: int = Field(default=0, ge=0)
    """Number of optimiser updates over which the learning rate grows linearly from 0 to its full value."""

    betas: tuple[float, float] = (0.9, 0.999)
    """Betas of AdamW. Not in the papers; torch's default."""

    weight_decay: float = Field(default=0.0, ge=0)
    """Weight decay of AdamW, for matrices alone: not for norms and biases. Not in the papers."""

    max_grad_norm: float = Field(default=1.0, gt=0)
    """Gradients of one update are scaled down to this Euclidean norm. Not in the papers; the usual value."""

    epochs: int = Field(default=1, ge=1)
    """Passes over each batch of turns."""

    minibatches: int = Field(default=1, ge=1)
    """Updates in one epoch, of random parts of the batch. 1 x 1 is exactly on-policy: all ratios are 1."""

    token_budget: int = Field(default=32_768, ge=1)
    """Most tokens, padding included, in one forward pass; gradients are accumulated over these micro-batches.

    This affects only memory and speed, not the result (apart from rounding). Logits take 4 x vocabulary bytes
    per sampled token, several times over: for a vocabulary of 150,000 start at 4,096.
    """

    autocast: bool = False
    """Compute in bfloat16 as torch's autocast does; weights, gradients and optimiser stay float32."""

    ratio: Literal["token", "sequence"] = "token"
    """Importance ratio for each token (GRPO, MarsRL) or for each completion: GSPO (arXiv 2507.18071), as
    MARS2 trains. It decides the defaults of the clip range and of the aggregation."""

    clip_low: float | None = Field(default=None, ge=0, le=1)
    """How far a ratio may fall below 1. None: 0.2 (PPO, GRPO), or 3e-4 with ``ratio="sequence"`` (GSPO)."""

    clip_high: float | None = Field(default=None, ge=0)
    """How far a ratio may rise above 1. None: 0.2, or 4e-4 with ``ratio="sequence"``. DAPO: 0.28."""

    dual_clip: float | None = Field(default=None, gt=1)
    """For negative advantages the loss is at most this times ``-A``, however large the ratio; None turns it
    off. The usual value is 3 (arXiv 1912.09729)."""

    aggregation: Literal["token-mean", "sequence-mean", "sequence-sum"] | None = None
    """See `mars_env.trainers.losses.row_weights`. None: "token-mean", or "sequence-mean" with
    ``ratio="sequence"``."""

    normaliser: int | None = Field(default=None, ge=1)
    """The constant of "sequence-sum", in tokens: the limit of one completion."""

    old_logprobs: Literal["trainer", "rollout"] | None = None
    """Whose log-probabilities are the ratio's denominator: the trainer's, computed before the first update
    (free if a step has one update), or those that the rollout recorded. None: see `denominator`."""

    tis_cap: float | None = Field(default=None, gt=0)
    """Cap of the importance weight between trainer and rollout engine; None turns it off. MARS2: 2."""

    tis_veto: float | None = Field(default=1e-4, ge=0)
    """If a token's ratio is below this, its completion gets weight 0 (needs `tis_cap`). MARS2: 1e-4."""

    dmmpt_threshold: float | None = Field(default=None, gt=0, le=1)
    """Tokens of positive advantage that are at least this probable are left out of the policy loss; None
    turns it off. MarsRL's threshold is not public; our reading: `mars_env.trainers.losses.mastered`. It needs
    the token's own ratio: that of a completion has all its tokens in it, and would go on to push them."""

    kl_coefficient: float = Field(default=0.0, ge=0)
    """Weight of the k3 term to `Policy.reference`; with 0 no reference is needed. MarsRL has the term but
    gives no number; MARS2: 1e-3."""

    kl_unbiased: bool = False
    """Weights the k3 term with the token's importance ratio, gradient included: unbiased where samples are
    stale (DeepSeek-V3.2, arXiv 2512.02556, section 3.1)."""

    @model_validator(mode="after")
    def _consistent(self) -> TrainConfig:
        if (self.aggregation == "sequence-sum") != (self.normaliser is not None):
            raise ValueError('aggregation="sequence-sum" and normaliser go together: give both or neither')
        if self.tis_cap is not None and self.old_logprobs == "rollout":
            raise ValueError(
                'tis_cap corrects between trainer and rollout: with old_logprobs="rollout" the ratio does so'
            )
        if self.dmmpt_threshold is not None and self.ratio == "sequence":
            raise ValueError(
                "dmmpt_threshold leaves single tokens out, which the ratio of a whole completion would go on "
                'to push: set ratio="token"'
            )
        return self

    @property
    def clip(self) -> tuple[float, float]:
        """How far a ratio may fall below 1 and rise above it."""
        low, high = (3e-4, 4e-4) if self.ratio == "sequence" else (0.2, 0.2)
        return (
            low if self.clip_low is None else self.clip_low,
            high if self.clip_high is None else self.clip_high,
        )

    @property
    def mean(self) -> Literal["token-mean", "sequence-mean", "sequence-sum"]:
        """The aggregation."""
        return self.aggregation or ("sequence-mean" if self.ratio == "sequence" else "token-mean")

    def denominator(self, max_staleness: int) -> Literal["trainer", "rollout"]:
        """Whose log-probabilities are the ratio's denominator, for samples at most this many versions old.

        Fresh samples need only the trainer's. Stale samples need a correction: the ratio to the policy that
        sampled them, unless `tis_cap` weights them already.

        Example:
            >>> TrainConfig().denominator(0), TrainConfig().denominator(1)
            ('trainer', 'rollout')
            >>> TrainConfig(tis_cap=2.0).denominator(1)
            'trainer'
        """
        if self.old_logprobs is not None:
            return self.old_logprobs
        return "rollout" if max_staleness and self.tis_cap is None else "trainer"

    def uncorrected(self, max_staleness: int) -> bool:
        """Whether stale samples would be trained as if the newest weights had sampled them.

        Example:
            >>> TrainConfig().uncorrected(1), TrainConfig(old_logprobs="trainer").uncorrected(1)
            (False, True)
        """
        return max_staleness > 0 and self.tis_cap is None and self.denominator(max_staleness) == "trainer"
