"""What a training run depends on, as data: `RunSettings`, and the recipes `MARSRL` and `MARS2`. No torch."""

from collections.abc import Mapping
from typing import Final, TypeVar

from pydantic import BaseModel, Field, PositiveInt, ValidationError, model_validator

from mars_env.envs import EnvSpec, GroupedSettings
from mars_env.envs.registry import rules_spec
from mars_env.errors import ConfigError
from mars_env.lazy import import_object
from mars_env.rollout.pipeline import PipelineSettings
from mars_env.text import validation_message
from mars_env.trainers.config import Credit, Overlong, TrainConfig
from mars_env.types import Sampling

Settings = TypeVar("Settings", bound=BaseModel)


def require_order(pipeline: PipelineSettings, credit: Credit) -> None:
    """Reject credit for which the pipeline gives its groups too early, or not at all, with ValueError."""
    if pipeline.groups_per_update is not None:
        if not pipeline.staleness:
            raise ValueError("groups_per_update is for rollouts that overlap: set staleness to 1 or more")
        if credit.tree_credit is not None:
            raise ValueError("groups_per_update may train a parent before: leave it or tree_credit out")
    if pipeline.refill > 1 and credit.uniform_groups == "count":
        raise ValueError('refill replaces groups of equal rewards: set uniform_groups to "drop"')


class RunSettings(BaseModel, frozen=True, extra="forbid"):
    """Everything that a run depends on, apart from environment, team and weights.

    Example:
        >>> RunSettings(pipeline=PipelineSettings(groups_per_update=1152, staleness=2)).pipeline.bound
        3456
    """

    seed: int = 0
    """Seed of problems, rollouts and minibatches."""
    steps: PositiveInt = 100
    """Number of updates, fixed beforehand, so that no run is stopped because its curve looks good."""
    problems_per_step: PositiveInt = 128
    """Problems drawn together, without replacement."""
    rollouts: GroupedSettings | None = GroupedSettings()
    """Grouping and selection. With settings, turns on the same input are a group, and some outputs of each
    agent are passed to the next (MarsRL). None: the environment grows its own trees, and a search tree is one
    group of all its agents' nodes (MARS2)."""
    sampling: Sampling = Sampling()
    """How the agents of `mars_env.trainers.make_team` sample; agents made by hand have their own."""
    tools: str = ""
    """What the library's own agents may call while they write: ``python``, ``my_module:my_tool``, joined by
    ``+`` (docs/tools.md)."""
    segment_tokens: PositiveInt | None = None
    """Outputs are sampled in segments of this many tokens, each by the newest weights; None: in one piece.
    MarsRL: 16384, for outputs of up to 65536. Useful only if rollouts overlap with training."""
    pipeline: PipelineSettings = PipelineSettings(staleness=0)
    """Staleness: how far rollouts may run ahead of training. At 0 the two alternate."""
    probe_tolerance: float | None = Field(default=None, gt=0, exclude=True)  # no rollout depends on it
    """How far the log-probabilities of sampler and trainer may differ, on average, on the probe that follows
    each refresh; None: by precision (`mars_env.trainers.samplers`)."""
    train: TrainConfig = Field(default_factory=TrainConfig)
    """Optimiser, loss and advantages."""

    @model_validator(mode="after")
    def _consistent(self) -> "RunSettings":
        require_order(self.pipeline, self.train)
        if self.pipeline.groups_per_update is not None and self.rollouts is None:
            raise ValueError("pipeline.groups_per_update needs groups that end before trees: give rollouts")
        return self


MARSRL: Final = RunSettings(
    problems_per_step=128,
    rollouts=GroupedSettings(group=8, branches=2, sampling="adaptive"),
    sampling=Sampling(temperature=0.85),
    train=TrainConfig(advantage="group_normalised", ratio="token", learning_rate=1e-6),
)
"""MarsRL's training (arXiv 2511.11373): 128 problems a step, groups of 8 on one input, 2 outputs passed on by
adaptive sampling, temperature 0.85, ``(r - mean) / std`` in each group, GRPO's clipped loss, AdamW at 1e-6.

Not public, and therefore at this library's defaults: clip range, KL coefficient (the paper has the term),
DMMPT's threshold (``train.dmmpt_threshold``), bound of staleness. The paper's overlap of rollouts and
training, in 4 segments of 16k tokens, is off: ``pipeline.staleness=1``, ``pipeline.groups_per_update``,
``sampling.max_tokens=65536``, ``segment_tokens=16384`` turn it on.
"""

MARS2: Final = RunSettings(
    rollouts=None,
    train=TrainConfig(
        advantage="group_normalised",
        ratio="sequence",
        tis_cap=2.0,
        tis_veto=1e-4,
        kl_coefficient=1e-3,
        overlong=Overlong(limit=Sampling().max_tokens, buffer=2048),
    ),
)
"""MARS2's training (arXiv 2602.07848): ``(r - mean) / std`` over all nodes of a tree, GSPO with its own
clip range (arXiv 2507.18071), truncated importance sampling (cap 2, veto below 1e-4), KL 1e-3, an overlong
penalty over the last 2048 tokens. The paper's number of problems a step is not known here.

Tree-shaped credit (``train.tree_credit``) is off, as in the paper. The size of the trees belongs to the
environment: ``make("...-tree-search", schedule="training")`` grows the paper's 8 nodes.
"""

RECIPES: Final[Mapping[str, RunSettings]] = {"MARSRL": MARSRL, "MARS2": MARS2}
"""The recipes by their names in the rules."""


def recipe_of(env: EnvSpec) -> RunSettings:
    """The recipe that an environment's rules name: one of `RECIPES`, or ``"module:attribute"``.

    Raises:
        ConfigError: There is no such recipe.

    Example:
        >>> from mars_env.envs import spec
        >>> recipe_of(spec("programs-tree-search")) is MARS2
        True
    """
    name = rules_spec(env.rules).recipe
    found = RECIPES[name] if name in RECIPES else import_object(name)
    if not isinstance(found, RunSettings):
        raise ConfigError(f"the recipe {name!r} of {env.rules!r} is {found!r}, not a RunSettings")
    return found


def checked(settings: Settings) -> Settings:
    """The settings, validated again with those inside them, since `model_copy` validates nothing.

    Raises:
        ConfigError: A value or a name is wrong.
    """
    given = {name: checked(value) if isinstance(value, BaseModel) else value for name, value in settings}
    try:
        return type(settings).model_validate(given)
    except ValidationError as error:
        raise ConfigError(f"settings: {validation_message(error, type(settings).model_fields)}") from error
