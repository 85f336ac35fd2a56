"""`mars_env.game`: the decorator that makes a game of a generator function."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from inspect import isgeneratorfunction, signature
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from mars_env.checks import require_integer, validate_signature
from mars_env.envs.rewards import MARSRL_REWARDS
from mars_env.envs.rules import Ask, End, Play, Reply, Rules
from mars_env.errors import ConfigError
from mars_env.lazy import import_object
from mars_env.text import brief, choices, suggestion, validation_message
from mars_env.types import Action, Grader, Problem, Reward, TeamReward, role_of

if TYPE_CHECKING:
    from mars_env.envs.growers import MakeGrower
    from mars_env.envs.visibility import Visibility

BUILT_IN = {
    "solve-verify-correct": "mars_env.envs.marsrl:solve_verify_correct",
    "solve": "mars_env.envs.solving:solve",
    "self-refine": "mars_env.envs.solving:self_refine",
    "spell": "mars_env.methods.spell.rules:spell",
    "tree-search": "mars_env.envs.tree_search:tree_search",
}
"""The library's own games, imported on use."""

GAMES: "dict[str, GameFunction]" = {}
"""The games of users, by name."""

SCHEDULE = "schedule"
"""The setting that names a preset; the preset of this name is the one for training."""

_USUAL_NAMES = {"n": "samples"}
"""Names in other libraries, and what is suggested for them."""

Roles = Mapping[str, Any]
"""The class of the default agent, its name ``"module:Class"``, or None, by role or place."""


@dataclass(frozen=True, kw_only=True)
class GameOptions:
    """Make a game of a generator function, and register it by the function's name, with hyphens.

    The function gets the problem, yields `ask`, gets a `Reply`, and returns the reply that is the team's
    answer, or None. It has no side effects and is not random, since it is replayed where a tree branches. Its
    settings are keyword-only arguments with types and defaults, or one argument whose type is a pydantic
    model. An option that is a function of the settings gets them as attributes of one object.

    Attributes:
        max_turns: The most turns of an episode, or a function of the settings.
        roles: The agents, by role (``"judge"``) or by place (``"solver_0"``, ``"solver_1"``), each with the
            class that a model becomes there, a subclass of `mars_env.agents.RoleAgent` or its name
            ``"module:Class"``, or None; or a function of the settings that gives them.
        fields: What a role observes, by role or place; by default the variables of its agent's template.
        rewards: Step rewards by role, or their names; other roles get the score of their grade.
        team_reward: Rewards that need the whole tree, given at its end.
        grader: An object, its class or its name; None for the grader of the problems' kind.
        grower: What grows a tree in play and evaluation; None for what plays an episode.
        visibility: What agents and searches may see of judgements, given the settings and the problems' kind.
        presets: Settings by the name of a ``schedule``, which is then a setting, too; training takes that of
            ``"training"``, if there is one.
        parts: Settings that name a part, a verifier say, each with the function that makes the part.
        team_size: The setting that says how many agents act, where that is the user's choice.
        recipe: What ``mars-env train`` starts from: a name of `mars_env.trainers.recipes.RECIPES`, or your
            own as ``"module:attribute"``.
        trained_by: The function that trains the game where `mars_env.train` does not.
        poses: Whether agents make the problem, which no user can then ask.

    Raises:
        ConfigError: The function is no generator, a game of the library has its name, or an option or a
            setting does not fit.

    Example:
        >>> from mars_env.agents import RoleAgent, Solver
        >>> from mars_env.envs.rules import ask
        >>> class Critic(RoleAgent):
        ...     template = "{{ problem }} Correct this: {{ attempt }}"
        >>> @game(max_turns=2, roles={"solver": Solver, "critic": Critic})
        ... def two_attempts(problem):
        ...     first = yield ask("solver", problem=problem.statement)
        ...     second = yield ask("critic", problem=problem.statement, attempt=first.text)
        ...     return second
        >>> two_attempts.play(Problem("p", "2 + 2?"), replies=["5"]).pending.fields["attempt"]
        '5'
    """

    max_turns: int | Callable[[Any], int]
    roles: Roles | Callable[[Any], Roles]
    fields: Mapping[str, Sequence[str]] = field(default_factory=dict)
    rewards: Mapping[str, Reward | str] = field(default_factory=lambda: MARSRL_REWARDS)
    team_reward: TeamReward | str | None = None
    grader: Grader | Callable[[], Grader] | str | None = None
    grower: "MakeGrower | str | None" = None
    visibility: "Callable[[Any, str], Visibility | None] | None" = None
    presets: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    parts: Mapping[str, Callable[[Any], Any] | str] = field(default_factory=dict)
    team_size: str | None = None
    recipe: str = "MARSRL"
    trained_by: str = ""
    poses: bool = False

    def __call__(self, function: Callable[..., Play]) -> "GameFunction":
        """The game of a function, registered."""
        checked: Any = function  # GameFunction rejects what is none
        new_game = GameFunction(checked, self)
        if new_game.__module__.partition(".")[0] == "mars_env":
            return new_game
        if new_game.name in BUILT_IN:
            raise ConfigError(f"{new_game.where()}: a game of the library has this name: take another")
        GAMES[new_game.name] = new_game
        return new_game


game = GameOptions


@dataclass(frozen=True)
class Transcript:
    """What `GameFunction.play` returns: the replies so far, and what the game does next."""

    replies: tuple[Reply, ...]
    pending: Ask | End


@dataclass(frozen=True, eq=False)
class GameFunction:
    """A game: what `mars_env.game` makes of a function. Called with settings, it makes `Rules`."""

    function: FunctionType
    options: GameOptions
    Settings: type[BaseModel] = field(init=False, repr=False)
    argument: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        function = self.function
        if not isinstance(function, FunctionType):
            raise ConfigError(f"a game is a function that yields ask(...), not {brief(function)}")
        if not isgeneratorfunction(function):
            raise ConfigError(f"{self.where()} has no yield: write `reply = yield ask(...)`")
        model, argument = _settings_of(function, self.where())
        copied = {name: getattr(function, name) for name in ("__doc__", "__module__", "__name__")}
        self.__dict__.update(Settings=model, argument=argument, **copied)
        validate_rewards(self.options.rewards, self.options.team_reward)
        if not callable(self.options.roles) and self.options.rewards is not MARSRL_REWARDS:
            validate_roles(self.name, self.options.rewards, self.options.roles)

    @property
    def name(self) -> str:
        """The function's name, with hyphens."""
        return self.function.__name__.replace("_", "-")

    def where(self, live: Play | None = None) -> str:
        """The game's name and the line where a generator waits, else its first line: for messages."""
        code, frame = self.function.__code__, getattr(live, "gi_frame", None)
        number = code.co_firstlineno if frame is None else frame.f_lineno
        return f"the game {self.name} ({Path(code.co_filename).name}, line {number})"

    @property
    def parameters(self) -> frozenset[str]:
        """Names of the settings."""
        return frozenset(self.Settings.model_fields) | ({SCHEDULE} if self.options.presets else set())

    @property
    def training(self) -> Mapping[str, Any]:
        """The preset for training."""
        return {SCHEDULE: "training"} if "training" in self.options.presets else {}

    def identity(self) -> Mapping[str, Any]:
        """What identifies it: its function."""
        return {"game": self.function}

    def __reduce__(self) -> Any:
        """A copy in another process: imported there, or, from a notebook, made again."""
        if self.__module__ == "__main__":
            return GameFunction, (self.function, self.options)
        return import_object, (f"{self.__module__}:{self.function.__qualname__}",)

    def __call__(self, **settings: Any) -> Rules:
        """The game with these settings, as engines play it."""
        return self.rules(settings)

    def rules(self, settings: Mapping[str, Any], kind: str = "") -> Rules:
        """The game with settings and the kind of its problems; a ConfigError if they do not fit."""
        return self.with_settings(self._validated(settings, kind))

    def with_settings(self, values: BaseModel) -> Rules:
        """The game with settings that fit."""
        options = self.options
        roles = options.roles(values) if callable(options.roles) else options.roles
        most = options.max_turns(values) if callable(options.max_turns) else options.max_turns
        most = require_integer(most, f"max_turns of {self.where()}")
        return Rules(self, values, _places(self.where(), roles), most)

    def play(self, problem: Problem, replies: Iterable[str | Action] = (), **settings: Any) -> Transcript:
        """Play by hand, without agents or grades, to see what the game asks after some replies."""
        rules = self.rules(settings, problem.kind)
        state = rules.start(problem)
        for reply in replies:
            state = rules.apply(state, reply if isinstance(reply, Action) else Action(reply), None)
        return Transcript(state.replies(), rules.pending(state))

    def validate_names(self, names: Iterable[str], others: Iterable[str] = ()) -> None:
        """Reject settings that the game does not have; suggests the closest one, or one of `others`."""
        for name in sorted({*names} - self.parameters):
            settings = self.parameters - {"kind"}
            they_are = f"its settings are {', '.join(sorted(settings))}" if settings else "it has none"
            hint = suggestion(_USUAL_NAMES.get(name, name), {*settings, *others})
            raise ConfigError(f"the game {self.name!r} has no setting {brief(name)}; {they_are}{hint}")

    def _validated(self, settings: Mapping[str, Any], kind: str) -> BaseModel:
        self.validate_names(settings)
        fields = self.Settings.model_fields
        values: dict[str, Any] = {"kind": kind} if kind and "kind" in fields else {}
        values |= self._preset(settings.get(SCHEDULE)) if self.options.presets else {}
        values |= {name: value for name, value in settings.items() if name in fields}
        for name in values.keys() & self.options.parts.keys():
            make: Any = self.options.parts[name]
            make = import_object(make) if isinstance(make, str) else make
            values[name] = None if values[name] is None else make(values[name])
        try:
            return self.Settings(**values)
        except ValidationError as error:
            why = validation_message(error, self.parameters)
            raise ConfigError(f"these settings do not fit the game {self.name!r}: {why}") from error

    def _preset(self, schedule: object) -> Mapping[str, Any]:
        presets = self.options.presets
        if schedule is None:
            return {}
        if not isinstance(schedule, str) or schedule not in presets:
            raise ConfigError(f"schedule is one of {choices(schedule, presets)}, not {brief(schedule)}")
        return presets[schedule]

    def begin(self, values: BaseModel) -> partial[Play]:
        """The function of the problem alone."""
        if self.argument:
            return partial(self.function, **{self.argument: values})
        return partial(self.function, **{name: getattr(values, name) for name in self.Settings.model_fields})


def _settings_of(function: FunctionType, where: str) -> tuple[type[BaseModel], str]:
    """The model of a function's settings, and the argument that gets it; empty where each has its own."""
    try:
        _, *arguments = signature(function, eval_str=True).parameters.values()
    except (NameError, ValueError) as error:  # a type that only type checkers import; no argument at all
        why = "takes a problem, and settings whose types can be found"
        raise ConfigError(f"{where} {why}: {error}") from error
    model = arguments[0].annotation if len(arguments) == 1 else None
    if isinstance(model, type) and issubclass(model, BaseModel):
        return model, arguments[0].name
    fields: Any = {}
    for argument in arguments:
        name, default = argument.name, argument.default
        if argument.kind is not argument.KEYWORD_ONLY:
            raise ConfigError(f"{where}: put a * before its setting {name!r}, which is given by name")
        if default is argument.empty:
            raise ConfigError(f"{where}: its setting {name!r} needs a default")
        is_typed = argument.annotation is not argument.empty
        fields[name] = (argument.annotation if is_typed else type(default), default)
    config = ConfigDict(frozen=True, extra="forbid", strict=True, arbitrary_types_allowed=True)
    return create_model(function.__name__, __config__=config, **fields), ""


_PLACE = re.compile(r"[A-Za-z]\w*", re.ASCII)


def _places(where: str, roles: object) -> dict[str, Any]:
    """The default agents by place: a role that has no number has one place."""
    if not isinstance(roles, Mapping) or not roles:
        raise ConfigError(f"{where}: roles= maps names to classes of agents or None, not {brief(roles)}")
    for name in roles:
        if not isinstance(name, str) or not _PLACE.fullmatch(name) or name.endswith("_"):
            raise ConfigError(f"{where}: a role is a word such as 'solver' or 'solver_1', not {brief(name)}")
    places = {name if role_of(name) != name else f"{name}_0": default for name, default in roles.items()}
    if len(places) < len(roles):
        raise ConfigError(f"{where}: a place has two names in roles=: {', '.join(roles)}")
    return places


def validate_rewards(rewards: Mapping[str, Reward | str], team_reward: TeamReward | str | None) -> None:
    """Reject rewards that cannot be called as they will be; those named by strings are not loaded."""
    if not isinstance(rewards, Mapping):
        raise ConfigError(f"rewards= is a mapping by role (team_reward= is for all), not {brief(rewards)}")
    for role, reward in rewards.items():
        if not isinstance(reward, str):
            validate_signature(reward, ("turn", "path", "problem"), f"the reward of {brief(role)}")
    if team_reward is not None and not isinstance(team_reward, str):
        validate_signature(team_reward, ("tree",), "the team reward")


def validate_roles(name: str, rewards: Iterable[str], agents: Iterable[str]) -> None:
    """Reject rewards of roles that a game does not have."""
    roles = {role_of(agent) for agent in agents}
    for role in sorted({*rewards} - roles):
        there = choices(role, sorted(roles))
        raise ConfigError(f"a reward is given for {role}, but the roles of {name!r} are {there}")
