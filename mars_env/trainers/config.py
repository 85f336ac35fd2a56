"""The settings of an update, with their sources, and the advantages that they describe. No torch in here."""

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import BaseModel, Field, model_validator

from mars_env.identity import MAY_CHANGE
from mars_env.trainers.advantages import (
    ESTIMATORS,
    Estimator,
    TurnKey,
    over_batch,
    penalise_calls,
    penalise_overlong,
    zeros_of,
)
from mars_env.trainers.credit_rules import balanced_verdicts, credit_rule, informed_rewards, majority_labels
from mars_env.trainers.tree_credit import tree_shaped
from mars_env.types import Group


class Overlong(BaseModel, frozen=True, extra="forbid", use_attribute_docstrings=True):
    """A penalty near a completion's limit: `mars_env.trainers.advantages.overlong_penalty`."""

    limit: int = Field(ge=1)
    """Most tokens of one completion: the agents' ``Sampling.max_tokens``. At the limit the penalty is -1."""
    buffer: int = Field(default=2048, ge=1)
    """Over this many tokens before the limit it grows from 0 to -1. MARS2: 2048."""

    @model_validator(mode="after")
    def _consistent(self) -> "Overlong":
        if self.buffer > self.limit:
            raise ValueError("an overlong buffer longer than the limit would penalise every completion")
        return self


class TreeCredit(BaseModel, frozen=True, extra="forbid", use_attribute_docstrings=True):
    """A node's reward relative to those of its parent and siblings: `mars_env.trainers.tree_credit`."""

    sibling_weight: float = Field(default=0.5, ge=0, le=1)
    """Weight of the siblings in the baseline; the parent has the rest. MARS2's public code: 0.5."""
    strength: float = Field(default=0.5, ge=0)
    """How far a reward is moved away from its baseline. MARS2's public code: 0.5."""


class Preferences(BaseModel, frozen=True, extra="forbid"):
    """Training on preferences (DPO) in place of advantages: `mars_env.trainers.samples.preference_pairs`."""

    beta: float = Field(default=0.1, gt=0)
    """How strongly the policy is held to its reference. DPO's paper: 0.1; PromptCoT 2.0 does not state it."""


class Credit(BaseModel, frozen=True, extra="forbid", use_attribute_docstrings=True):
    """What a turn's tokens count in an update: the same in every trainer.

    The defaults are MarsRL's (arXiv 2511.11373) where the paper gives a number, and otherwise the usual ones.
    """

    train_roles: tuple[str, ...] | None = None
    """Only turns of these roles enter the loss, e.g. ``("solver",)``; None: all."""
    credit: str = "marsrl"
    """How a team is credited: ``"marsrl"``, ``"mars2"``, ``"team"``, ``"c3"``, ``"ccpo"``, ``"dr-mas"``,
    ``"at-grpo"`` (`mars_env.trainers.credit_rules`), or your function of groups as ``"module:function"``."""
    labels: Literal["reference", "majority"] = "reference"
    """``"majority"`` rewards agreement with the most frequent answer, without reading references; see
    `mars_env.trainers.credit_rules.majority_labels`."""
    imitate: Literal["reference"] | None = None
    """``"reference"``: Verifiers learn to write what they would write if they were shown the reference, which
    they never read in play; see `mars_env.trainers.credit_rules.informed_rewards`."""
    balance: bool = False
    """Trains Verifiers on as many right solutions as wrong ones; see
    `mars_env.trainers.credit_rules.balanced_verdicts`."""
    advantage: Literal["group_normalised", "mean_centred", "leave_one_out"] | None = None
    """An estimator of `mars_env.trainers.advantages`. None: that of the credit rule's paper, which is
    group_normalised for MarsRL and MARS2."""
    uniform_groups: Literal["count", "drop"] = "count"
    """Groups whose known rewards are all equal: ``"count"``: their turns are in the loss with the advantage
    0, so they count in its denominators and get the KL term, as in the formulas of GRPO, MarsRL and MARS2.
    ``"drop"``: they are left out, as in DAPO's dynamic sampling.
    """
    batch_roles: tuple[str, ...] = ()
    """Roles whose turns are compared with each other over the whole batch, whatever their groups; see
    `mars_env.trainers.advantages.over_batch`. SPELL: its Questioner."""
    tree_credit: TreeCredit | None = None
    """Shapes the rewards along the tree before advantages are computed; None turns it off."""
    overlong: Overlong | None = None
    """Adds a penalty to the rewards of turns close to their limit; None turns it off."""
    call_cost: float = Field(default=0.0, ge=0)
    """What each call of a tool takes off its turn's reward, before advantages are computed."""
    tis_cap: float = Field(default=2.0, gt=0)
    """Cap of each token's importance weight: its probability before the update over that with which it was
    sampled, which differ where samples are stale, or of another engine or precision. MARS2: 2."""
    tis_veto: float | None = Field(default=1e-4, ge=0)
    """If a token's weight is below this, its completion gets the weight 0. MARS2: 1e-4."""
    dmmpt_threshold: float | None = Field(default=None, gt=0, le=1)
    """Tokens of positive advantage that are at least this probable are left out of the policy loss; None
    turns it off. MarsRL's threshold is not public; our reading: `mars_env.trainers.losses.mastered`.
    """

    @property
    def whole_trees(self) -> bool:
        """Whether the credit of a turn depends on other turns of its tree: updates need whole trees."""
        by_tree = self.tree_credit is not None or self.balance or self.labels == "majority"
        by_tree |= self.imitate is not None
        return by_tree or credit_rule(self.credit).whole_trees

    def trains(self, role: str) -> bool:
        """Whether turns of this role enter the loss."""
        return self.train_roles is None or role in self.train_roles


class TrainConfig(Credit, frozen=True):
    """How turns become updates. How turns are sampled belongs to the rollout.

    Example:
        >>> gspo = TrainConfig(ratio="sequence")
        >>> gspo.clip, gspo.mean
        ((0.0003, 0.0004), 'sequence-mean')
    """

    seed: int = 0
    """Seed of the order of minibatches. In a run (`RunSettings`) the run's own seed takes its place."""
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
    token_budget: Annotated[int, MAY_CHANGE] = Field(default=32_768, ge=1)
    """Most tokens in one forward pass; gradients are accumulated over these micro-batches, so it affects only
    memory and speed. Padding counts; tokens that rows share count once."""
    shared_prefixes: Annotated[bool, MAY_CHANGE] = True
    """Tokens with which rows begin alike are computed once: the prompt of a group, a solution that several
    Verifiers read, the calls of a turn with tools. Losses and gradients are the same up to rounding, 1e-5 in
    float32. False pads rows side by side, as recorded studies did."""
    gradient_checkpointing: Annotated[bool, MAY_CHANGE] = False
    """Layers are computed again in the backward pass instead of kept: a third more work, far less memory."""
    offload: Annotated[bool, MAY_CHANGE] = False
    """Float32 copies of the weights, their gradients and AdamW's moments are in the host's memory, 16 bytes a
    parameter; the device keeps the weights alone, 2 bytes if they are bfloat16."""
    most_logits: Annotated[int, MAY_CHANGE] = Field(default=2**26, ge=1)
    """Most logits (sampled tokens x vocabulary) in memory at once, of 4 bytes, several times over. More are
    computed in chunks, and again in the backward pass."""
    autocast: bool = False
    """Compute in bfloat16 as torch's autocast does; weights, gradients and optimiser stay float32."""
    ratio: Literal["token", "sequence"] = "token"
    """Importance ratio for each token (GRPO, MarsRL) or for each completion: GSPO (arXiv 2507.18071), as
    MARS2 trains. It decides the defaults of the clip range and of the aggregation."""
    clip_low: float | None = Field(default=None, ge=0, le=1)
    """How far a ratio may fall below 1. None: 0.2 (PPO, GRPO), or 3e-4 with ``ratio="sequence"`` (GSPO)."""
    clip_high: float | None = Field(default=None, ge=0)
    """How far a ratio may rise above 1. None: 0.2, or 4e-4 with ``ratio="sequence"``. DAPO: 0.28."""
    aggregation: Literal["token-mean", "sequence-mean"] | None = None
    """See `mars_env.trainers.losses.row_weights`. None: "token-mean", or "sequence-mean" with
    ``ratio="sequence"``."""
    kl_coefficient: float = Field(default=0.0, ge=0)
    """Weight of the KL term to `Policy.reference`; with 0 no reference is needed. MarsRL has the term but
    gives no number; MARS2: 1e-3."""

    @model_validator(mode="after")
    def _consistent(self) -> "TrainConfig":
        if self.dmmpt_threshold is not None and self.ratio == "sequence":
            raise ValueError('dmmpt_threshold is for single tokens: set ratio="token"')
        if not all(0 <= beta < 1 for beta in self.betas):
            raise ValueError(f"betas must be at least 0 and below 1, got {self.betas}")
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
    def mean(self) -> Literal["token-mean", "sequence-mean"]:
        """The aggregation."""
        return self.aggregation or ("sequence-mean" if self.ratio == "sequence" else "token-mean")


def estimator_of(config: Credit) -> Estimator:
    """The credit rule, what else is set, and the estimator; see docs/credit.md.

    The order matters: a parent's length must not affect its child's baseline.

    Example:
        >>> from mars_env.trainers.advantages import _example_group
        >>> shaped = estimator_of(TrainConfig(advantage="mean_centred", tree_credit=TreeCredit()))
        >>> shaped([_example_group({"0": 1.0, "1": 0.0})])
        {('t', '0'): 1.0, ('t', '1'): -1.0}
    """
    rule = credit_rule(config.credit)

    def estimate(groups: Sequence[Group]) -> dict[TurnKey, float]:
        credit, overlong = config.tree_credit, config.overlong
        if config.labels == "majority":
            groups = majority_labels(groups)
        if config.balance:
            groups = balanced_verdicts(groups)
        groups = rule.groups(groups)
        if config.imitate is not None:
            groups = informed_rewards(groups)
        if credit is not None:
            groups = tree_shaped(groups, sibling_weight=credit.sibling_weight, strength=credit.strength)
        if overlong is not None:
            groups = penalise_overlong(groups, overlong.limit, overlong.buffer)
        if config.call_cost:
            groups = penalise_calls(groups, config.call_cost)
        if config.batch_roles:
            groups = over_batch(groups, config.batch_roles)
        advantages = ESTIMATORS[config.advantage or rule.advantage](groups)
        return advantages if config.uniform_groups == "drop" else zeros_of(groups) | advantages

    return estimate
