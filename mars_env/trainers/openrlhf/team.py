"""The agents of a run: they use the policies that are trained, or other models if the settings name them."""

from collections.abc import Mapping

from mars_env.agents.registry import as_agent, make_agents, roles_of
from mars_env.agents.thinking import THINKING_MODES
from mars_env.agents.tools import make_tools
from mars_env.envs.rules import Rules
from mars_env.trainers.assembly import agents_of_function, checkpoints_of
from mars_env.trainers.recipes import RunSettings
from mars_env.types import Agent, Model


def agents_by_name(settings: RunSettings, rules: Rules, models: Mapping[str, Model]) -> dict[str, Agent]:
    """The agents of a run's game, of models by policy.

    Raises:
        ConfigError: An agent is missing, or the function that makes the team has an unknown parameter.

    Example:
        >>> from mars_env.envs import solve_verify_correct
        >>> from mars_env.models.scripted import ScriptedModel
        >>> settings = RunSettings(team={"model": "base", "others": {"solver": "scripted:42"}})
        >>> models = {"policy": ScriptedModel(["Correct"], name="policy")}
        >>> agents = agents_by_name(settings, solve_verify_correct(), models)
        >>> agents["solver_0"].policy, agents["verifier_0"].policy
        ('scripted', 'policy')
    """
    team, sampling, names, roles = settings.team, settings.sampling, rules.possible_agents, roles_of(rules)
    policies = {name: policy for name, (policy, _) in checkpoints_of(team, names).items()}
    thinking, tools = THINKING_MODES[team.thinking], make_tools(team.tools)
    agents: dict[str, Agent] = {}
    for policy in dict.fromkeys(policies.values()):
        own, model = [name for name in names if policies.get(name) == policy], models[policy]
        if team.agents is not None:
            agents |= agents_of_function(team.agents, own, model, sampling, policy)
            continue
        for name in own:
            agents[name] = as_agent(
                model, name, sampling=sampling, thinking=thinking, roles=roles, tools=tools
            )
    if frozen := [name for name in names if name not in policies]:
        agents |= make_agents(team.others, frozen, sampling=sampling, roles=roles)
    return {name: agents[name] for name in names}
