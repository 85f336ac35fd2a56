"""`EnvSpec`: which game is asked for. `RulesSpec`: rules with their defaults."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel

from mars_env.checks import refuse_misfit
from mars_env.envs.rewards import PAPER_REWARDS
from mars_env.errors import ConfigError
from mars_env.text import shown, validation_message
from mars_env.types import Grader, Reward, TeamReward

if TYPE_CHECKING:
    from mars_env.envs.growers import MakeGrower
    from mars_env.envs.rules import Rules
    from mars_env.envs.visibility import Visibility


@dataclass(frozen=True, slots=True)
class EnvSpec:
    """What is asked for: a problem set, rules by name, and parts that replace those of the rules.

    One value for `mars_env.make`, `evaluate`, training, the command line and worker processes. Parts named by
    a string (``"module:attribute"``) travel anywhere. `mars_env.envs.make_game` makes its game.

    Attributes:
        problems: Name of the problem set (or path of a problem file).
        rules: Name of the rules.
        module: Imported first, to register what is the user's own.
        settings: Settings of the rules.
        rewards: Step rewards by role that replace those of the rules.
        team_reward: Rewards that need the whole tree, given at its end.
        grader: Replaces the grader for the problems' kind.
        grower: Replaces that of the rules.
        turn_timeout: Seconds that an agent may take for a turn; None for no limit.
    """

    problems: str
    rules: str
    module: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    rewards: Mapping[str, Reward | str] = field(default_factory=dict)
    team_reward: TeamReward | str | None = None
    grader: Grader | str | None = None
    grower: MakeGrower | str | None = None
    turn_timeout: float | None = None

    @property
    def id(self) -> str:
        """The id that names the problems and the rules, such as ``"aime-solve"``."""
        prefix = f"{self.module}:" if self.module else ""
        return f"{prefix}{self.problems}-{self.rules}"


@dataclass(frozen=True, slots=True)
class RulesSpec:
    """Rules with their defaults: all but `make` may be class attributes of a rules class.

    Parts may be strings ``"module:attribute"``, so that rules need not import them.

    Attributes:
        make: The rules class, or a function that makes rules. Its parameters are settings; one named ``kind``
            gets the kind of the problems unless it is set. A class with a method ``from_settings`` is made by
            that; one with `Settings` and no such method is called with a value of it.
        Settings: A pydantic model or a dataclass of the settings.
        rewards: Step rewards by role.
        team_reward: Rewards that need the whole tree.
        grader: Judges what the rules submit: an object, or a class of it; None for that of the kind.
        grower: What grows a tree in play and evaluation; None for one that plays an episode.
        visibility: What agents and searches may see of judgements, given the rules and the problems' kind.
            The rules must then have `mars_env.envs.rules.TakesFeedback.with_feedback`.
        training: Settings for training, unless the user gives others.
        recipe: What `mars-env train` starts from: a name of `mars_env.trainers.recipes.RECIPES`, or
            your own as ``"module:attribute"``.
        trained_by: The function that trains these rules where `mars_env.trainers.train` does not.
        parts: Settings that name a part (a verifier, say), each with the function that makes the part.
        team_size: The setting that says how many agents act, where that is the user's choice.

    Raises:
        ConfigError: A reward cannot be called with its arguments.
    """

    make: Callable[..., Rules[Any]]
    Settings: type[Any] | None = None
    rewards: Mapping[str, Reward | str] = field(default_factory=lambda: PAPER_REWARDS)
    team_reward: TeamReward | str | None = None
    grader: Grader | Callable[[], Grader] | str | None = None
    grower: MakeGrower | str | None = None
    visibility: Callable[[Any, str], Visibility | None] | None = None
    training: Mapping[str, Any] = field(default_factory=dict)
    recipe: str = "MARSRL"
    trained_by: str = ""
    parts: Mapping[str, Callable[[Any], Any] | str] = field(default_factory=dict)
    team_size: str | None = None

    def __post_init__(self) -> None:
        refuse_misfits(self.rewards, self.team_reward)

    @classmethod
    def of(cls, make: Callable[..., Rules[Any]] | RulesSpec, **given: Any) -> RulesSpec:
        """Rules with the defaults that their class declares as class attributes; those given replace them.

        Example:
            >>> from mars_env.envs.solve_verify_correct import SolveVerifyCorrect
            >>> dict(RulesSpec.of(SolveVerifyCorrect).training)
            {'schedule': 'training'}
        """
        given = {name: each for name, each in given.items() if each is not None}
        if isinstance(make, RulesSpec):
            return replace(make, **given)
        settings = _field_names(make) if is_dataclass(make) else ()
        names = {each.name for each in fields(cls)}.difference(("make",), settings)
        declared = {name: getattr(make, name) for name in names if hasattr(make, name)}
        return cls(make, **{**declared, **given})

    def rules(self, settings: Mapping[str, Any], kind: str) -> Rules[Any]:
        """Rules with these settings, for problems of a kind."""
        if self._takes_settings:
            assert self.Settings is not None
            return self.make(self.Settings(**settings))
        given = {"kind": kind} if "kind" in self.parameters else {}
        return self._maker(**{**given, **settings})

    @property
    def parameters(self) -> frozenset[str]:
        """Names of the settings that are known before the rules are made."""
        names = frozenset(_field_names(self.Settings)) if self.Settings is not None else frozenset()
        if self._takes_settings:
            return names
        return names | {each.name for each in self._signature if each.kind is not each.VAR_KEYWORD}

    @property
    def open_ended(self) -> bool:
        """Whether there are settings that are not known before: the rules check them themselves."""
        return self.Settings is None and any(each.kind is each.VAR_KEYWORD for each in self._signature)

    @property
    def _takes_settings(self) -> bool:
        return self.Settings is not None and self._maker is self.make

    @property
    def _maker(self) -> Callable[..., Rules[Any]]:
        return getattr(self.make, "from_settings", self.make)

    @property
    def _signature(self) -> Iterable[inspect.Parameter]:
        return inspect.signature(self._maker).parameters.values()


def _field_names(settings: type[Any]) -> list[str]:
    """The fields of a pydantic model or a dataclass."""
    if issubclass(settings, BaseModel):
        return [*settings.model_fields]
    return [each.name for each in fields(settings)]


def refuse_misfits(rewards: Mapping[str, Reward | str], team_reward: TeamReward | str | None = None) -> None:
    """Reject rewards that cannot be called as they will be; those named by strings are not loaded."""
    if not isinstance(rewards, Mapping):
        raise ConfigError(f"rewards= is a mapping by role (team_reward= is for all), not {shown(rewards)}")
    for role, reward in rewards.items():
        if not isinstance(reward, str):
            refuse_misfit(reward, ("turn", "path", "problem"), f"the reward of {shown(role)}")
    if team_reward is not None and not isinstance(team_reward, str):
        refuse_misfit(team_reward, ("tree",), "the team reward")


M = TypeVar("M", bound=BaseModel)


def preset_settings(
    presets: Mapping[str, M], schedule: object, given: Mapping[str, Any], rules: str, others: Collection[str]
) -> M:
    """The settings of rules: a preset by its name, or settings, with single ones replaced.

    Errors name `rules`, and suggest one of `others` where a further setting may be meant.
    """
    preset = presets.get(schedule) if isinstance(schedule, str) else schedule
    model = type(next(iter(presets.values())))
    if isinstance(preset, model):
        preset = {name: getattr(preset, name) for name in preset.model_fields_set}
    if not isinstance(preset, Mapping):
        names = ", ".join(map(repr, presets))
        raise ConfigError(f"schedule must be {names} or settings, got {shown(schedule)}")
    try:
        return model(**{**preset, **given})
    except ValueError as error:
        known = ("schedule", *others, *model.model_fields)
        raise ConfigError(f"these settings do not fit {rules}: {validation_message(error, known)}") from error
