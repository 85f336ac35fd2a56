"""A game as values: `EnvSpec` says which game is meant, `RulesSpec` what its rules provide."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel

from mars_env.envs.rewards import PAPER_REWARDS
from mars_env.types import Grader, Reward, TeamReward

if TYPE_CHECKING:
    from mars_env.envs.growers import MakeGrower
    from mars_env.envs.rules import Rules
    from mars_env.envs.visibility import Visibility

Part = Literal["agent", "reward model", "grader"]
"""What a setting of rules may name in a text: the library makes the object before the rules see it."""


@dataclass(frozen=True, slots=True)
class EnvSpec:
    """An environment: all that makes its game, and the problems it is played on.

    One value for `mars_env.make`, `evaluate`, training, the command line and worker processes. It travels
    wherever its parts do; parts named by a text (``"module:attribute"``) travel anywhere.

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
    grower: MakeGrower | None = None
    turn_timeout: float | None = None

    @property
    def id(self) -> str:
        """The id that names the problems and the rules.

        Example:
            >>> EnvSpec("aime", "solve").id
            'aime-solve'
        """
        prefix = f"{self.module}:" if self.module else ""
        return f"{prefix}{self.problems}-{self.rules}"


@dataclass(frozen=True, slots=True)
class RulesSpec:
    """Rules by name.

    Attributes:
        make: Settings (keyword arguments of `mars_env.make`) in, rules out. One that has a parameter
            ``kind`` gets the kind of the problems.
        rewards: Step rewards by role, unless the user gives others.
        grower: What grows a tree in play and evaluation; None for one that plays an episode.
        training: Settings for training, unless the user gives others.
        visibility: What agents and searches may see of judgements, given the rules and the problems' kind.
        parts: Settings that may name an agent, a reward model or a grader.
        team_size: The setting that says how many agents play, where that is the user's choice.
        recipe: What `mars-env train` starts from: a name of `mars_env.trainers.recipes.RECIPES`, or
            your own as ``"module:attribute"``.
        grader: Judges what the rules submit, unless the user gives a grader; None for that of the kind.
        team_reward: Rewards that need the whole tree, unless the user gives others.
        trained_by: The function that trains these rules where `mars_env.trainers.train` does not, as
            ``"module:attribute"``.
        more: The model whose fields `make` takes by ``**settings``; None where it checks them itself.
    """

    make: Callable[..., Rules[Any]]
    rewards: Mapping[str, Reward] = field(default_factory=lambda: PAPER_REWARDS)
    grower: MakeGrower | None = None
    training: Mapping[str, Any] = field(default_factory=dict)
    visibility: Callable[[Rules[Any], str], Visibility | None] | None = None
    parts: Mapping[str, Part] = field(default_factory=dict)
    team_size: str | None = None
    recipe: str = "MARSRL"
    grader: Callable[[], Grader] | None = None
    team_reward: TeamReward | None = None
    trained_by: str = ""
    more: type[BaseModel] | None = None

    @property
    def parameters(self) -> frozenset[str]:
        """Names of the settings that are known before `make` is called."""
        declared = frozenset(p.name for p in self._signature if p.kind is not p.VAR_KEYWORD)
        return declared if self.more is None else declared | self.more.model_fields.keys()

    @property
    def open_ended(self) -> bool:
        """Whether `make` takes settings that are not known before, and checks them itself."""
        return self.more is None and any(p.kind is p.VAR_KEYWORD for p in self._signature)

    @property
    def _signature(self) -> Iterable[inspect.Parameter]:
        return inspect.signature(self.make).parameters.values()
