"""The agents of a run: they use the policies that are trained, or other models if the settings name them."""

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, Final

from mars_env.agents.registry import as_agent, make_agents
from mars_env.agents.roles import ROLES, RoleAgent
from mars_env.agents.thinking import THINKING_MODES
from mars_env.agents.tools import make_tools
from mars_env.errors import ConfigError, explained
from mars_env.lazy import import_object
from mars_env.players import by_name
from mars_env.trainers.openrlhf.settings import TeamSettings
from mars_env.types import Agent, Model, Sampling

POLICY: Final = "actor"
"""Name of the weights that are trained where the settings name none: OpenRLHF's actor."""


def policy_by_agent(settings: TeamSettings, names: Sequence[str]) -> dict[str, str]:
    """Which policy each agent acts with; agents that other models play are left out.

    Without ``plays`` all agents have the only policy, or as many agents as policies are paired in order. An
    agent without a policy raises ConfigError, and so does a policy without an agent, or an unknown name.

    Example:
        >>> settings = TeamSettings(env="aime-solve", policies={"s": "base", "c": "base"},
        ...                         plays={"solver": "s", "verifier": "c", "corrector": "c"})
        >>> policy_by_agent(settings, ["solver_0", "verifier_0", "corrector_0"])
        {'solver_0': 's', 'verifier_0': 'c', 'corrector_0': 'c'}
    """
    policies, plays = list(settings.policies) or [POLICY], settings.plays
    names = [name for name in names if not settings.is_frozen(name)]
    if not plays and len(policies) == 1:
        plays = dict.fromkeys(names, policies[0])
    if not plays and len(names) == len(policies):
        plays = dict(zip(names, policies, strict=True))
    with explained(ConfigError, "--mars.plays", ConfigError):
        found = by_name(plays, names)
    if wrong := [policy for policy in found.values() if policy not in policies]:
        raise ConfigError(f"--mars.plays names the policy {wrong[0]!r}, but there are {', '.join(policies)}")
    if idle := [policy for policy in policies if policy not in found.values()]:
        raise ConfigError(f"no agent acts with the policy {', '.join(idle)}: see --mars.plays")
    return found


def agents_by_name(
    settings: TeamSettings,
    names: Sequence[str],
    models: Mapping[str, Model],
    sampling: Sampling,
    *,
    roles: Mapping[str, type[RoleAgent]] = ROLES,
) -> dict[str, Agent]:
    """The agents of these names, of models by policy; `roles` are those of the rules (`roles_of`).

    Raises:
        ConfigError: An agent is missing, or the function that makes the team has an unknown parameter.

    Example:
        >>> from mars_env.models.scripted import ScriptedModel
        >>> settings = TeamSettings(env="aime-solve-verify-correct", others={"solver": "scripted:42"})
        >>> models = {POLICY: ScriptedModel(["Correct"], name=POLICY)}
        >>> agents = agents_by_name(settings, ["solver_0", "verifier_0"], models, Sampling())
        >>> [agent.policy for agent in agents.values()]
        ['scripted', 'actor']
    """
    policies = policy_by_agent(settings, names)
    agents: dict[str, Agent] = {}
    for policy in dict.fromkeys(policies.values()):
        mine = [name for name in names if policies.get(name) == policy]
        if settings.agents is None:
            thinking, tools = THINKING_MODES[settings.thinking], make_tools(settings.tools)
            for name in mine:
                agents[name] = as_agent(
                    models[policy], name, sampling=sampling, thinking=thinking, roles=roles, tools=tools
                )
        else:
            agents |= _of_function(settings.agents, mine, models[policy], sampling, policy)
    frozen = [name for name in names if name not in policies]
    if frozen:
        agents |= make_agents(settings.others, frozen, sampling=sampling, roles=roles)
    return {name: agents[name] for name in names}


def _of_function(
    function_name: str, names: Sequence[str], model: Model, sampling: Sampling, policy: str
) -> dict[str, Agent]:
    given = {
        "model": model,
        "names": tuple(names),
        "sampling": sampling,
        "temperature": sampling.temperature,
        "max_tokens": sampling.max_tokens,
        "policy": policy,
    }
    function: Any = import_object(function_name)
    takes = inspect.signature(function).parameters
    if unknown := [name for name in takes if name not in given and takes[name].default is takes[name].empty]:
        raise ConfigError(f"{function_name} asks for {', '.join(unknown)}, but there is {', '.join(given)}")
    made: Mapping[str, Agent] = function(**{name: given[name] for name in takes if name in given})
    if missing := [name for name in names if name not in made]:
        raise ConfigError(f"{function_name} makes no agent for {', '.join(missing)}")
    return {name: made[name] for name in names}
