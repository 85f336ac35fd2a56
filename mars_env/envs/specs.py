"""`EnvSpec`: which game is asked for, on which problems."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mars_env.types import Grader, Reward, TeamReward

if TYPE_CHECKING:
    from mars_env.envs.game_function import GameFunction
    from mars_env.envs.growers import MakeGrower


@dataclass(frozen=True, slots=True)
class EnvSpec:
    """What is asked for: a problem set, a game, and parts that replace those of the game.

    Parts named by a string (``"module:attribute"``) travel to any process. `problems` is a set's name or a
    file, empty where they come from elsewhere; `module` is imported first, to register what is the user's
    own; `turn_timeout` is in seconds.
    """

    problems: str
    game: str | GameFunction
    module: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    rewards: Mapping[str, Reward | str] = field(default_factory=dict)
    team_reward: TeamReward | str | None = None
    grader: Grader | str | None = None
    grower: MakeGrower | str | None = None
    turn_timeout: float | None = None

    @property
    def game_name(self) -> str:
        """The game's name."""
        return self.game if isinstance(self.game, str) else self.game.name

    @property
    def id(self) -> str:
        """The id that names the problems and the game, such as ``"aime-solve"``."""
        prefix = f"{self.module}:" if self.module else ""
        return f"{prefix}{self.problems}-{self.game_name}" if self.problems else prefix + self.game_name
