"""The agents of a run: they use the model that is trained, or other models if the settings name them."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, Final

from mars_env.agents.registry import as_agent, make_agents
from mars_env.agents.roles import ROLES, RoleAgent
from mars_env.agents.thinking import THINKING_MODES
from mars_env.errors import ConfigError
from mars_env.lazy import import_object
from mars_env.trainers.openrlhf.settings import TeamSettings
from mars_env.types import Agent, Model, Sampling, role_of

POLICY: Final = "actor"
"""Name of the weights that are trained: OpenRLHF's actor."""


def make_team(
    settings: TeamSettings,
    names: Sequence[str],
    model: Model,
    sampling: Sampling,
    policy: str = POLICY,
    *,
    roles: Mapping[str, type[RoleAgent]] = ROLES,
) -> dict[str, Agent]:
    """The agents by name.

    Args:
        settings: Their `agents`, `others` and `thinking` are used.
        names: Names of the agents.
        model: The model that is trained.
        sampling: How it is sampled.
        policy: Name of its weights.
        roles: The agents that models become, by role: `mars_env.agents.registry.roles_of` the rules.

    Raises:
        ConfigError: An agent is missing, or the function that makes the team has an unknown parameter.

    Example:
        >>> from mars_env.models.scripted import ScriptedModel
        >>> settings = TeamSettings(env="aime-solve-verify-correct", others={"solver": "scripted:42"})
        >>> team = make_team(settings, ["solver_0", "verifier_0"], ScriptedModel(["Correct"]), Sampling())
        >>> [agent.policy for agent in team.values()]
        ['scripted', 'actor']
    """
    frozen = [name for name in names if name in settings.others or role_of(name) in settings.others]
    trained = [name for name in names if name not in frozen]
    if settings.agents is None:
        team = _of_roles(settings, trained, _Named(model, policy), sampling, roles)
    else:
        team = _of_function(settings.agents, trained, model, sampling, policy)
    if missing := [name for name in trained if name not in team]:
        raise ConfigError(f"{settings.agents} makes no agent for {', '.join(missing)}")
    team |= make_agents(settings.others, frozen, sampling=sampling, roles=roles) if frozen else {}
    return {name: team[name] for name in names}


def _of_roles(
    settings: TeamSettings,
    names: Sequence[str],
    model: Model,
    sampling: Sampling,
    roles: Mapping[str, type[RoleAgent]],
) -> dict[str, Agent]:
    thinking = THINKING_MODES[settings.thinking]
    return {name: as_agent(model, name, sampling=sampling, thinking=thinking, roles=roles) for name in names}


def _of_function(
    agents: str, names: Sequence[str], model: Model, sampling: Sampling, policy: str
) -> dict[str, Agent]:
    given = {
        "model": model,
        "names": tuple(names),
        "sampling": sampling,
        "temperature": sampling.temperature,
        "max_tokens": sampling.max_tokens,
        "policy": policy,
    }
    function: Any = import_object(agents)
    parameters = inspect.signature(function).parameters
    optional = {name for name, p in parameters.items() if p.default is not p.empty}
    if unknown := set(parameters) - given.keys() - optional:
        raise ConfigError(f"{agents} asks for {', '.join(sorted(unknown))}, but there is {', '.join(given)}")
    made: Mapping[str, Agent] = function(**{name: given[name] for name in parameters if name in given})
    return {name: made[name] for name in names if name in made}


class _Named:
    """The model with its policy's name, which agents use as their own."""

    def __init__(self, model: Model, policy: str) -> None:
        self.name = policy
        self.model = model
        self.complete = model.complete
        self.context, self.encode = getattr(model, "context", None), getattr(model, "encode", None)
