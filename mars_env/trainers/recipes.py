"""A training run as data: `RunSettings`, and the recipes `MARSRL` and `MARS2`. No torch in here."""

from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from typing import Annotated, Any, Final, Literal, Self, TypeVar

from pydantic import BaseModel, BeforeValidator, Field, PositiveInt, ValidationError, model_validator

from mars_env.distributed.settings import RaySamplers
from mars_env.envs import EnvSpec, GroupedSettings
from mars_env.envs.registry import find_game
from mars_env.errors import ConfigError
from mars_env.identity import MAY_CHANGE
from mars_env.lazy import import_object
from mars_env.rollout.pipeline import PipelineSettings
from mars_env.text import validation_message
from mars_env.trainers.config import Overlong, TrainConfig
from mars_env.trainers.tables import (
    EngineSettings,
    EnvironmentSettings,
    EvaluationSettings,
    LoggingSettings,
    TeamSettings,
    setting_rows,
)
from mars_env.types import Sampling

Settings = TypeVar("Settings", bound=BaseModel)


def _own_grower(value: Any) -> Any:
    return None if value == "own" else value  # TOML has no null


class RunSettings(BaseModel, frozen=True, extra="forbid", use_attribute_docstrings=True):
    """A run, as a file says it: `mars_env.trainers.run_file.load_run` reads one.

    With an environment and a team `mars_env.train` needs nothing else. Without them it is a recipe, for a
    game and a team of the caller's.

    Example:
        >>> RunSettings(pipeline=PipelineSettings(groups_per_update=1152, staleness=2)).pipeline.bound
        3456
    """

    backend: Literal["local", "openrlhf"] = "local"
    """What trains: this process, or OpenRLHF (docs/openrlhf.md)."""
    out: str | None = None
    """Folder of checkpoints and metrics; a run that is there is continued."""
    checkpoint_every: PositiveInt = 10
    """Updates between two checkpoints; the last update always gets one."""
    seed: int = 0
    """Seed of problems, rollouts and minibatches."""
    steps: Annotated[PositiveInt, MAY_CHANGE] = 100
    """Number of updates, fixed beforehand, so that no run is stopped because its curve looks good."""
    problems_per_step: PositiveInt = 128
    """Problems drawn together, without replacement."""
    environment: EnvironmentSettings | None = None
    """What is played."""
    team: TeamSettings = TeamSettings()
    """Who plays, and what is trained."""
    rollouts: Annotated[GroupedSettings | None, BeforeValidator(_own_grower)] = GroupedSettings()
    """Grouping and selection. With settings, turns on the same input are a group, and some outputs of each
    agent are passed to the next (MarsRL). None, in a file ``"own"``: the environment grows its own trees, and
    a search tree is one group of all its agents' nodes (MARS2)."""
    sampling: Sampling = Sampling()
    """How the agents sample; agents made by hand have their own."""
    segment_tokens: PositiveInt | None = None
    """Outputs are sampled in segments of this many tokens, each by the newest weights; None: in one piece.
    MarsRL: 16384, for outputs of up to 65536. Useful only if rollouts overlap with training."""
    pipeline: PipelineSettings = PipelineSettings(staleness=0)
    """Staleness: how far rollouts may run ahead of training. At 0 the two alternate."""
    train: TrainConfig = Field(default_factory=TrainConfig)
    """Optimiser, loss and advantages."""
    engine: EngineSettings = EngineSettings()
    """What samples."""
    samplers: Annotated[RaySamplers | None, MAY_CHANGE] = None
    """Processes on Ray in which the agents act (docs/machines.md), e.g. ``{ count = 2 }``; None: they act
    in this process."""
    evaluation: EvaluationSettings = EvaluationSettings()
    """Evaluation during training."""
    logging: LoggingSettings = LoggingSettings()
    """Where metrics go."""
    openrlhf: Mapping[str, Any] = {}
    """Flags that only OpenRLHF has, e.g. ``{ actor = { num_gpus_per_node = 8 } }``."""

    @model_validator(mode="after")
    def _consistent(self) -> "RunSettings":
        pipeline, credit = self.pipeline, self.train
        if pipeline.groups_per_update is not None:
            if not pipeline.staleness:
                raise ValueError("groups_per_update is for rollouts that overlap: set staleness to 1 or more")
            if credit.whole_trees:
                raise ValueError("groups_per_update splits trees, which the credit needs whole: leave it out")
            if self.rollouts is None:
                raise ValueError("groups_per_update needs groups that end before trees: give rollouts")
        if pipeline.refill > 1 and credit.whole_trees:
            raise ValueError("refill judges groups one by one, but the credit needs whole trees")
        if pipeline.refill > 1 and credit.uniform_groups == "count":
            raise ValueError('refill replaces groups of equal rewards: set uniform_groups to "drop"')
        return self

    def with_(self, **changes: Any) -> Self:
        """These settings with some of them changed, and validated; a mapping changes a part of a table.

        Example:
            >>> run = MARSRL.with_(steps=3, train={"learning_rate": 1e-4})
            >>> run.steps, run.train.learning_rate, run.train.ratio
            (3, 0.0001, 'token')
        """
        return validated(type(self), merged_settings(plain_settings(dict(self)), plain_settings(changes)))


MARSRL: Final = RunSettings(
    problems_per_step=128,
    rollouts=GroupedSettings(group=8, branches=2, sampling="adaptive"),
    sampling=Sampling(temperature=0.85),
    train=TrainConfig(credit="marsrl", ratio="token", learning_rate=1e-6),
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
        credit="mars2",
        ratio="sequence",
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
"""The recipes by their names in games."""


def recipe_of(env: EnvSpec) -> RunSettings:
    """The recipe that an environment's game names: one of `RECIPES`, or ``"module:attribute"``."""
    name = find_game(env.game).options.recipe
    recipe = RECIPES[name] if name in RECIPES else import_object(name)
    if not isinstance(recipe, RunSettings):
        raise ConfigError(f"the recipe {name!r} of {env.game_name!r} is {recipe!r}, not a RunSettings")
    return recipe


def merged_settings(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Nested settings, those of `over` first."""
    result = {**base, **over}
    for name in base.keys() & over.keys():
        if isinstance(base[name], Mapping) and isinstance(over[name], Mapping):
            result[name] = merged_settings(base[name], over[name])
    return result


def plain_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings with their tables as mappings."""
    return {name: _table(value) for name, value in settings.items()}


def _table(settings: Any) -> Any:
    if isinstance(settings, BaseModel):
        return settings.model_dump()
    return asdict(settings) if is_dataclass(settings) and not isinstance(settings, type) else settings


def checked(settings: Settings) -> Settings:
    """The settings, validated again with those inside them, since `model_copy` validates nothing."""
    values = {name: checked(value) if isinstance(value, BaseModel) else value for name, value in settings}
    return validated(type(settings), values)


def validated(kind: type[Settings], values: Mapping[str, Any], source: str = "settings") -> Settings:
    """Settings of a kind; a ConfigError says what is wrong, and in which source."""
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        names = [name for name, *_ in setting_rows(kind)]
        raise ConfigError(f"{source}: {validation_message(error, names)}") from error
