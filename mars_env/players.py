"""Players: functions as agents, and an agent for every name, from agents given by name or by role."""

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, TypeVar

from mars_env.checks import validate_signature
from mars_env.errors import ConfigError
from mars_env.seeds import derive_seed
from mars_env.sync import maybe_await
from mars_env.text import brief, suggestion
from mars_env.types import Action, Agent, Observation, TrainingAgent, role_of

T = TypeVar("T")

AgentFunction = Callable[..., str | Action | Awaitable[str | Action]]
"""``observation -> string`` (or an `Action`), sync or async; may take ``seed`` as a keyword, too."""

Player = Agent | AgentFunction


class FunctionAgent:
    """An agent that calls a function from an observation to a string or an `Action`, sync or async.

    Each of the n actions is a call, with a seed of its own if the function has a parameter ``seed``. A sync
    function blocks the event loop: write one that waits as async. Its turns cannot be trained on, unless it
    returns actions with completions. `policy` is its name in stored turns, by default the function's.

    Example:
        >>> from mars_env.sync import run_sync
        >>> agent = FunctionAgent(lambda observation: observation["problem"].upper())
        >>> run_sync(agent.act({"problem": "x"}, 2, seed=0))
        [Action(text='X', completions=(), calls=()), Action(text='X', completions=(), calls=())]
    """

    def __init__(self, function: AgentFunction, *, policy: str = "") -> None:
        self.function = function
        self.policy = policy or getattr(function, "__name__", type(function).__name__)
        self._seeded = takes(function, "seed")
        called = partial(function, seed=0) if self._seeded else function
        validate_signature(called, ("observation",), f"the agent {self.policy}")

    def __repr__(self) -> str:
        return f"FunctionAgent({self.policy!r})"

    def identity(self) -> dict[str, Any]:
        """See `mars_env.identity.identity_of`."""
        return {"policy": self.policy, "function": self.function}

    async def act(self, observation: Observation, n: int, seed: int) -> list[Action]:
        """Call the function n times; a `ConfigError` if it returns neither a string nor an `Action`."""
        actions = []
        for i in range(n):
            extra = {"seed": derive_seed(seed, i)} if self._seeded else {}
            value = await maybe_await(self.function(observation, **extra))
            if isinstance(value, str):
                value = Action(value)
            if not isinstance(value, Action):
                raise ConfigError(f"the agent {self.policy} returned {type(value).__name__}; return a string")
            actions.append(value)
        return actions


class _Team(Protocol):
    @property
    def possible_agents(self) -> Sequence[str]: ...


def assign_agents(team: _Team, players: Player | Mapping[str, Player]) -> dict[str, Agent]:
    """An agent for every name of a team, from one player for all, or players by agent or role.

    A `ConfigError` if a name has no player, a player no name, or a player is neither agent nor function.
    """
    names = team.possible_agents
    mapping = by_name(players, names) if isinstance(players, Mapping) else dict.fromkeys(names, players)
    return {name: _agent(player) for name, player in mapping.items()}


def validate_playable(agents: Mapping[str, Agent], where: str) -> None:
    """Reject agents that have help in training: elsewhere they would act as others than were trained."""
    for name, agent in agents.items():
        if isinstance(agent, TrainingAgent):
            raise ConfigError(f"{where} takes {name} without its help in training: give Scaffolded.agent")


def by_name(players: Mapping[str, T], names: Sequence[str]) -> dict[str, T]:
    """What is given for each agent, by its name or by its role; a `ConfigError` if names do not match."""
    known_names = {*names, *map(role_of, names)}
    for name in players:
        if name not in known_names:
            hint = suggestion(name, known_names)
            raise ConfigError(f"there is no agent {name!r}; the agents are {', '.join(names)}{hint}")
    for name in names:
        if name not in players and role_of(name) not in players:
            raise ConfigError(f"nothing is given for {name}: give it for {name!r} or {role_of(name)!r}")
    return {name: players[name] if name in players else players[role_of(name)] for name in names}


def _agent(player: Player) -> Agent:
    if isinstance(player, Agent):
        return player
    if callable(player):
        return FunctionAgent(player)
    raise ConfigError(f"an agent or a function of an observation is expected, got {lacking(player)}")


def lacking(value: object) -> str:
    """A value that is not an agent, as messages show it."""
    if hasattr(value, "act") and not hasattr(value, "policy"):
        return f"{brief(value)}, which has act() but no attribute policy, the name of its weights"
    return brief(value)


def takes(function: Callable[..., Any], parameter: str) -> bool:
    """Whether a function has a parameter of this name."""
    try:
        return parameter in inspect.signature(function).parameters
    except (TypeError, ValueError):  # builtins have no signature
        return False
