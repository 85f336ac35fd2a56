"""The settings of a run that are not OpenRLHF's own flags: the environment, the team, the credit."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal, Self

from pydantic import (
    BaseModel,
    Field,
    NonNegativeInt,
    PositiveInt,
    ValidationError,
    field_validator,
    model_validator,
)

from mars_env.api import load_problems
from mars_env.envs import Game, GroupedSettings, grouped, make_game, spec
from mars_env.envs.registry import rules_spec
from mars_env.errors import ConfigError
from mars_env.grading import check_reference
from mars_env.problems import ProblemSet
from mars_env.problems.registry import held_out_by_default
from mars_env.rollout.pipeline import PipelineSettings
from mars_env.text import suggestion
from mars_env.trainers.config import Credit, TrainConfig
from mars_env.trainers.openrlhf.command_line import PREFIX, Flags, flag_value
from mars_env.trainers.recipes import RunSettings, require_order
from mars_env.types import role_of


class TeamSettings(GroupedSettings, PipelineSettings, Credit, frozen=True):
    """The flags ``--mars.*``, by their names: also those of grouped rollouts, the pipeline, and credit.

    On the command line a field is given as ``--mars.NAME VALUE``. Tables and lists are written as JSON; a
    list of names also as ``solver,verifier``.

    Example:
        >>> TeamSettings(env="aime-solve-verify-correct").advantage
        'group_normalised'
    """

    env: str
    """The environment's id; ``my_module:my-set-my-rules`` first imports my_module, on each node."""
    options: Mapping[str, Any] = Field(default_factory=dict)
    """Settings of its rules in training, e.g. ``{"schedule": "training"}``."""
    problem_set: str | None = None
    """Replaces the problems in the id: a set's name, or a file that all nodes can read."""
    problem_options: Mapping[str, Any] = Field(default_factory=dict)
    """For the loader of the problems, e.g. ``{"split": "train", "seed": 1}``."""
    problems: PositiveInt | None = None
    """Train on this many problems, the first ones; None: all of a real set, 10000 of a generated one."""
    rewards: Mapping[str, str] = Field(default_factory=dict)
    """Step rewards by role, as ``module:function``; they replace the rules' own."""
    team_reward: str | None = None
    """A reward that needs the whole tree, as ``module:function``."""
    grader: str | None = None
    """Replaces the grader for the problems' kind, as ``module:object``."""

    agents: str | None = None
    """A function that makes the team, as ``module:function``, and returns agents by name. It gets those of
    these arguments for which it has parameters: ``model``, ``names``, ``sampling``, ``temperature``,
    ``max_tokens``, ``policy``. None: the library's own agents."""
    others: Mapping[str, str] = Field(default_factory=dict)
    """Roles or agents that other models play, not trained, e.g. ``{"solver": "http://host/v1#model"}``."""
    policies: Mapping[str, str] = Field(default_factory=dict)
    """Checkpoints by name, to train several policies in one run; empty: ``--actor.model_name_or_path``."""
    plays: Mapping[str, str] = Field(default_factory=dict)
    """The policy of each role or agent; empty: agents and policies are paired in their order."""
    thinking: Literal["tags", "opened", "off"] = "tags"
    """How the model marks its thinking (`mars_env.agents.thinking`); for the library's own agents."""
    tools: str = ""
    """What they may call while they write: ``python``, ``my_module:my_tool``, joined by ``+``."""
    overflow: Literal["check", "unknown", "refuse"] = "check"
    """What happens if a prompt leaves less room than the limit (``--data.max_len``): see `Sampling`."""

    grow: Literal["grouped", "own"] = "grouped"
    """MarsRL's grouped rollouts, or the environment's own grower (a tree search)."""
    staleness: NonNegativeInt = 0
    """Most versions between the oldest token of a group and the policy that is trained on it. 0: rollouts and
    training alternate."""
    segment_tokens: PositiveInt | None = None
    """Outputs are sampled in segments of this many tokens, each by the newest policy; None: in one piece."""

    tis_cap: float | None = Field(default=None, gt=0)
    """Cap of an importance weight between trainer and engine that takes the place of OpenRLHF's correction,
    with `tis_veto`. None: 2 for GSPO, which has no weight in OpenRLHF; else OpenRLHF's correction."""

    eval_set: str | None = None
    """Problems for evaluation during training; None: the same set as in training."""
    eval_problem_options: Mapping[str, Any] = Field(default_factory=dict)
    """For their loader, e.g. ``{"split": "test"}``."""
    eval_problems: NonNegativeInt = 0
    """Play this many problems, the first ones, as often as ``--eval.steps`` says; 0: no evaluation."""
    eval_options: Mapping[str, Any] | None = None
    """Settings of the rules in evaluation, e.g. ``{"rounds": 2}``: the trainer waits meanwhile. None:
    those of training, so that no evaluation takes more turns than a rollout; ``{}``: the rules' own."""
    eval_max_tokens: PositiveInt | None = None
    """Most tokens of a completion in evaluation; None: ``--rollout.max_new_tokens``, as in training."""

    max_num_seqs: PositiveInt | None = None
    """Most sequences that an engine samples at once; None: vLLM's own limit (128 to 1024, by the GPU)."""
    max_num_batched_tokens: PositiveInt | None = None
    """Most tokens that an engine reads in one step; None: vLLM's own limit (2048 to 16384, by the GPU)."""

    seed: int = 0
    """Seed of problems and rollouts."""
    record: str | None = None
    """A directory for a record of what was trained (`mars_env.trainers.openrlhf.rollouts.record`)."""

    @field_validator("train_roles", "batch_roles", mode="before")
    @classmethod
    def _names(cls, value: Any) -> Any:
        return tuple(value.split(",")) if isinstance(value, str) else value

    @model_validator(mode="after")
    def _trainable(self) -> Self:
        if self.grow == "grouped" and self.group < 2 and not self.batch_roles:
            raise ValueError("groups of one turn have nothing to compare: set group to 2 or more")
        require_order(self, self)
        return self

    def run(self, problems_per_step: int) -> RunSettings:
        """What rollouts need, as the local trainer's settings have it."""

        def part(kind: type[BaseModel]) -> dict[str, Any]:
            return self.model_dump(include=set(kind.model_fields))

        return RunSettings(
            seed=self.seed,
            problems_per_step=problems_per_step,
            rollouts=GroupedSettings(**part(GroupedSettings)) if self.grow == "grouped" else None,
            pipeline=PipelineSettings(**part(PipelineSettings)),
            train=TrainConfig(**part(Credit)),
        )

    def is_frozen(self, agent: str) -> bool:
        """Whether another model than the trained ones plays this agent."""
        return agent in self.others or role_of(agent) in self.others

    def game(self) -> Game:
        """The game in training."""
        game = self._made(self.options, self.training_problems())
        return game if self.grow == "own" else replace(game, grower=grouped(self))

    def evaluation_game(self) -> Game:
        """The game in evaluation: with the settings of training, unless it has its own."""
        options = self.options if self.eval_options is None else self.eval_options
        return self._made(options, self._evaluated())

    def engine_limits(self) -> dict[str, int]:
        """The limits that the engines get, by vLLM's names; without those that are left to vLLM."""
        return self.model_dump(include={"max_num_seqs", "max_num_batched_tokens"}, exclude_none=True)

    def training_problems(self) -> ProblemSet:
        """The training problems; a `ConfigError` if the set would give another split, and none is named."""
        name = self.problem_set or spec(self.env).problems
        if "split" not in self.problem_options and (held_out := held_out_by_default(name)):
            raise ConfigError(
                f"{name} gives its split {held_out!r}, which training would spoil for evaluations: say "
                """--mars.problem_options '{"split": "train"}'"""
            )
        chosen = load_problems(name, check=check_reference, **self.problem_options)
        return chosen[: self.problems or (10_000 if chosen.generated else len(chosen))]

    def evaluation_problems(self) -> ProblemSet:
        """The evaluation problems; empty without evaluation."""
        return self._evaluated()[: self.eval_problems]

    def rows_per_tree(self) -> int:
        """Most samples of one tree: the rows that a training step must have room for."""
        if self.grow == "own":
            return self.game().rules.max_turns
        return self.group * self.groups_per_tree()

    def groups_per_tree(self) -> int:
        """Most groups of one tree."""
        return 1 if self.grow == "own" else 1 + self.branches * (self.game().rules.max_turns - 1)

    def most_updates(self, trees: int, step: int) -> int:
        """The most updates of a run of so many trees, `step` of them drawn at a time."""
        if self.groups_per_update is None:
            return math.ceil(trees / step)
        return math.ceil(trees * self.groups_per_tree() / self.groups_per_update)

    def _evaluated(self) -> ProblemSet:
        name = self.eval_set or self.problem_set or spec(self.env).problems
        return load_problems(name, check=check_reference, **self.eval_problem_options)

    def _made(self, options: Mapping[str, Any], problems: ProblemSet) -> Game:
        env_spec = replace(
            spec(self.env, **options), rewards=self.rewards, team_reward=self.team_reward, grader=self.grader
        )
        if own := rules_spec(env_spec.rules).trained_by:
            raise ConfigError(f"OpenRLHF does not train {env_spec.rules!r}: {own.replace(':', '.')} does")
        return make_game(env_spec, kind=problems[0].kind)


SETTING_NAMES: Final = tuple(
    sorted(TeamSettings.model_fields, key=lambda name: name not in TeamSettings.__annotations__)
)
"""Names of all settings, those that `TeamSettings` inherits last."""


def read_flags(flags: Mapping[str, Sequence[str]]) -> tuple[TeamSettings, Flags]:
    """The team's settings, and the remaining flags, which are OpenRLHF's.

    Raises:
        ConfigError: A flag ``--mars.*`` is unknown, or its value is missing or does not fit: a line for each.

    Example:
        >>> settings, rest = read_flags(
        ...     {"--mars.env": ["aime-solve"], "--actor.adam.lr": ["1e-6"], "--mars.group": ["4"]})
        >>> settings.group, rest
        (4, {'--actor.adam.lr': ['1e-6']})
    """
    known = [f"{PREFIX}{name}" for name in SETTING_NAMES]
    ours = {flag: values for flag, values in flags.items() if flag.startswith(PREFIX)}
    wrong = [
        f"there is no flag {flag}; there are: {', '.join(SETTING_NAMES)}{suggestion(flag, known)}"
        for flag in ours
        if flag not in known
    ]
    single = {flag: values[0] for flag, values in ours.items() if len(values) == 1 and values[0]}
    wrong += [f"{flag} needs one value" for flag in ours if flag in known and flag not in single]
    given = {flag.removeprefix(PREFIX): _parsed(single[flag]) for flag in known if flag in single}
    if "env" not in given:
        wrong.append("say what is played: --mars.env, an environment's id (--help lists all flags)")
        given["env"] = ""
    try:
        settings = TeamSettings(**given)
    except ValidationError as error:
        wrong += [
            f"{PREFIX}{'.'.join(map(str, found['loc']))}".rstrip(".") + f": {found['msg']}"
            for found in error.errors(include_url=False)
        ]
    if wrong:
        raise ConfigError("\n".join(wrong))
    return settings, {flag: list(values) for flag, values in flags.items() if flag not in ours}


def as_flags(settings: TeamSettings) -> Flags:
    """The flags that give these settings: the inverse of `read_flags`.

    Example:
        >>> as_flags(TeamSettings(env="aime-solve", group=4))
        {'--mars.env': ['aime-solve'], '--mars.group': ['4']}
    """
    changed = settings.model_dump(mode="json", exclude_defaults=True)
    return {PREFIX + name: [flag_value(changed[name])] for name in SETTING_NAMES if name in changed}


def _parsed(value: str) -> Any:
    """Tables, lists and null are JSON; pydantic reads numbers from strings."""
    try:
        return json.loads(value) if value == "null" or value.startswith(("{", "[")) else value
    except ValueError:
        return value  # the field's validation says what is wrong with it
