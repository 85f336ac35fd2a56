"""Environment ids ``[module:]<problem set>-<game>``: any problem set with any game."""

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from typing import TYPE_CHECKING, Any

from mars_env.envs.game_function import BUILT_IN, GAMES, GameFunction
from mars_env.errors import ConfigError
from mars_env.lazy import declared, import_object, imported
from mars_env.problems.problem_set import ProblemSet
from mars_env.problems.registry import WITH_DOCUMENTS, Loader, list_problem_sets, register_problem_set
from mars_env.text import brief, choices, suggestion
from mars_env.types import Grader, Reward, TeamReward

if TYPE_CHECKING:
    from mars_env.envs.growers import MakeGrower

ENTRY_POINTS = "mars_env.games"
"""Group of the entry points that offer games by name."""

_ON_DOCUMENTS = frozenset({"spell"})
"""Games of these that are played on documents, and on nothing else."""

_IDS: dict[str, tuple[str, str | GameFunction]] = {}
"""Registered whole ids: their problem set and their game."""


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
    grower: "MakeGrower | str | None" = None
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


def register(env_id: str, *, problems: str | ProblemSet | Loader, game: str | GameFunction) -> None:
    """Register an environment under your own id, here, with PettingZoo and with Gymnasium.

    `mars_env.game` and `mars_env.problems.register_problem_set` register its parts, to combine with others.
    A `ConfigError` if a name is malformed or taken.

    Example:
        >>> from mars_env.envs import solve
        >>> register("sums-alone", problems="arithmetic", game=solve)
        >>> spec("sums-alone").problems
        'arithmetic'
    """
    if not isinstance(problems, str | ProblemSet) and not callable(problems):
        raise ConfigError(f"problems= is the name of a set, a set, or a loader of one, not {brief(problems)}")
    if not isinstance(env_id, str) or not env_id or any(mark in env_id for mark in ":/ "):
        raise ConfigError(f"an id is a word without ':', '/' or spaces, got {brief(env_id)}")
    chosen = find_game(game)
    if env_id not in _IDS and env_id in list_envs():
        registered = spec(env_id)
        if registered.problems != problems or find_game(registered.game) is not chosen:
            raise ConfigError(
                f"the id {env_id!r} is taken by the game {registered.game_name} on {registered.problems}"
            )
    if not isinstance(problems, str):
        register_problem_set(env_id, problems)
        problems = env_id
    _IDS[env_id] = (problems, game)
    if "pettingzoo" in sys.modules:  # otherwise all ids are registered once it is imported
        register_with_pettingzoo([env_id])
    if "gymnasium" in sys.modules:
        register_with_gymnasium([env_id])


def register_with_pettingzoo(env_ids: Iterable[str] = ()) -> None:
    """Make ids, by default all, known to PettingZoo: ``pettingzoo.make("aec", "mars_env/<id>-v0")``."""
    import pettingzoo
    from pettingzoo.env_registry.registration import aec_registry

    for env_id in env_ids or list_envs():
        name = f"mars_env/{env_id}-v0"
        aec_registry.pop(name, None)  # a reloaded module registers again
        pettingzoo.register("aec", name, "mars_env:make", kwargs={"env_id": env_id})


def register_with_gymnasium(env_ids: Iterable[str] = ()) -> None:
    """Likewise to Gymnasium: ``gymnasium.make("mars_env/<id>-v0", learner=..., partners=...)``."""
    import gymnasium

    for env_id in env_ids or list_envs():
        name = f"mars_env/{env_id}-v0"
        gymnasium.registry.pop(name, None)
        gymnasium.register(name, "mars_env.api:make_gymnasium", kwargs={"env_id": env_id})


def game_names() -> list[str]:
    """All games by name, built in, registered and declared."""
    return sorted({*BUILT_IN, *GAMES, *declared(ENTRY_POINTS)})


def find_game(game: object) -> GameFunction:
    """A game from itself or its name; a `ConfigError` if there is none."""
    candidate: object = game
    if isinstance(game, str):
        if game in GAMES:
            return GAMES[game]
        if game not in game_names():
            raise ConfigError(f"there is no game {brief(game)}; known are {choices(game, game_names())}")
        candidate = import_object(BUILT_IN[game]) if game in BUILT_IN else declared(ENTRY_POINTS)[game].load()
    if not isinstance(candidate, GameFunction):
        raise ConfigError(f"a game is a function with the decorator mars_env.game, not {brief(candidate)}")
    return candidate


def with_team_size(env_spec: EnvSpec, size: int | None) -> EnvSpec:
    """The spec with so many agents, if its game leaves their number open and the spec does not say it."""
    number = find_game(env_spec.game).options.team_size
    if number is None or not size:
        return env_spec
    return replace(env_spec, settings={number: size, **env_spec.settings})


def spec(
    env_id: str | GameFunction | EnvSpec, /, settings: Mapping[str, Any] | None = None, **more: Any
) -> EnvSpec:
    """The spec of an environment, with settings of its game: as a mapping, or as keywords.

    The id is ``"<problem set>-<game>"``; or a game, its name or ``"my_module:my_game"``, which is then played
    on problems from elsewhere. A `ConfigError` if no game ends it, or its module cannot be imported.

    Example:
        >>> spec("aime-solve-verify-correct").game
        'solve-verify-correct'
    """
    settings = {**(settings or {}), **more}
    if isinstance(env_id, EnvSpec):
        return replace(env_id, settings={**env_id.settings, **settings})
    if not isinstance(env_id, str):
        return EnvSpec("", find_game(env_id), settings=settings)
    module, _, name = env_id.rpartition(":")
    if module and isinstance(named := getattr(imported(module, env_id), name, None), GameFunction):
        return EnvSpec("", named, module, settings)
    if name in _IDS:
        problems, chosen = _IDS[name]
        return EnvSpec(problems, chosen, module, settings)
    if name in game_names():
        return EnvSpec("", name, module, settings)
    endings = [game for game in game_names() if name.endswith(f"-{game}")]
    if not endings:
        games = f"known games are {', '.join(game_names())}{_hint(name)}"
        raise ConfigError(f"the id {brief(env_id)} is not of the form <problem set>-<game>; {games}")
    ending = max(endings, key=len)
    return EnvSpec(name[: -len(ending) - 1], ending, module, settings)


def _hint(name: str) -> str:  # an id that has the name as its half, else the closest one
    ids = list_envs()
    halves = [env_id for env_id in ids if env_id.endswith(f"-{name}") or env_id.startswith(f"{name}-")]
    return f"; for example {min(halves, key=len)!r}" if halves else suggestion(name, ids)


def list_envs() -> list[str]:
    """All ids that `make` knows before the user imports anything: each set with all games that fit it.

    Example:
        >>> ids = list_envs()
        >>> "aime-solve-verify-correct" in ids, "reports-spell" in ids, "aime-spell" in ids
        (True, True, False)
    """
    pairs = (pair for pair in product(list_problem_sets(), game_names()) if not {*pair} & _IDS.keys())
    fitting = (pair for pair in pairs if (pair[0] in WITH_DOCUMENTS) == (pair[1] in _ON_DOCUMENTS))
    return sorted([*_IDS, *map("-".join, fitting)])
