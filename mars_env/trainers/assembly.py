"""What a run file names, as objects: games, problems, and who acts with which weights. No torch in here."""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from mars_env.agents.registry import as_agent, make_agents, roles_of
from mars_env.agents.roles import RoleAgent
from mars_env.agents.thinking import THINKING_MODES
from mars_env.agents.tools import make_tools
from mars_env.api import load_problems
from mars_env.envs import EnvSpec, Game, GroupedSettings, make_game, spec
from mars_env.envs.registry import find_game, with_team_size
from mars_env.envs.rules import Rules
from mars_env.errors import ConfigError
from mars_env.grading import check_reference
from mars_env.lazy import import_object
from mars_env.players import by_name
from mars_env.problems import ProblemSet
from mars_env.problems.registry import held_out_by_default, kind_of_set
from mars_env.text import brief
from mars_env.trainers.recipes import RunSettings
from mars_env.trainers.tables import EnvironmentSettings, TeamSettings
from mars_env.types import Agent, Model, Sampling, role_of

POLICY: Final = "policy"
"""Name of the weights that all agents share."""


def environment_of(settings: RunSettings) -> EnvironmentSettings:
    """The environment's table; a `ConfigError` without one."""
    if settings.environment is None:
        raise ConfigError("the settings name no environment: set environment.id")
    return settings.environment


def training_spec(settings: RunSettings) -> EnvSpec:
    """The environment with what its game sets for training, and with the file's settings."""
    return _spec(settings, environment_of(settings).settings, training=True)


def _training_set(settings: RunSettings) -> str:
    table = environment_of(settings)
    return table.problems or spec(table.id).problems


def training_problems(settings: RunSettings) -> ProblemSet:
    """The training problems; a `ConfigError` if the set would give another split, and none is named."""
    table, name = environment_of(settings), _training_set(settings)
    if "split" not in table.problem_options and (held_out := held_out_by_default(name)):
        raise ConfigError(
            f"{name} gives its split {held_out!r}, which training would spoil for evaluations: set "
            "environment.problem_options.split to 'train'"
        )
    return load_problems(name, check=check_reference, **table.problem_options)[: table.limit]


def training_game(settings: RunSettings) -> Game:
    """The game in training; a `ConfigError` if another function trains it."""
    env_spec = training_spec(settings)
    if function := find_game(env_spec.game).options.trained_by:
        raise ConfigError(f"{function.replace(':', '.')} trains {env_spec.game_name!r}, not mars-env train")
    kind = kind_of_set(_training_set(settings)) or training_problems(settings)[0].kind
    return make_game(env_spec, kind=kind)


def evaluation_game(settings: RunSettings) -> Game:
    """The game in evaluation: with the settings of training, unless it has its own."""
    table = settings.evaluation.settings
    env_spec = training_spec(settings) if table is None else _spec(settings, table, training=False)
    name = settings.evaluation.problems or _training_set(settings)
    return make_game(env_spec, kind=kind_of_set(name) or evaluation_problems(settings)[0].kind)


def evaluation_problems(settings: RunSettings) -> ProblemSet:
    """The evaluation problems; empty without evaluation."""
    table = settings.evaluation
    if not table.every:
        return ProblemSet("none", [])
    name = table.problems or _training_set(settings)
    return load_problems(name, check=check_reference, **table.problem_options)[: table.limit]


def evaluation_sampling(settings: RunSettings) -> Sampling:
    """How the team samples in an evaluation during training."""
    sampling, table = settings.sampling, settings.evaluation
    limit = min(sampling.max_tokens, table.max_tokens or sampling.max_tokens)
    temperature = sampling.temperature if table.temperature is None else table.temperature
    return replace(sampling, temperature=temperature, max_tokens=limit)


def rows_per_tree(game: Game, rollouts: GroupedSettings | None) -> int:
    """The most turns of one tree: of grouped rollouts, or of the game's own growth."""
    turns = game.rules.max_turns
    return turns if rollouts is None else rollouts.group * (1 + rollouts.branches * (turns - 1))


def most_rows(settings: RunSettings) -> int:
    """Most samples of one update; more only where groups would become too old."""
    groups, rollouts = settings.pipeline.groups_per_update, settings.rollouts
    if groups is None or rollouts is None:
        return settings.problems_per_step * rows_per_tree(training_game(settings), rollouts)
    return groups * rollouts.group


def is_frozen(team: TeamSettings, agent: str) -> bool:
    """Whether another model than the trained ones plays this agent."""
    return agent in team.others or role_of(agent) in team.others


def checkpoints_of(team: TeamSettings, names: Sequence[str]) -> dict[str, tuple[str, str]]:
    """The policy's name and the checkpoint of each trained agent; a ConfigError if one has none.

    Example:
        >>> several = TeamSettings(model={"solver": "one", "verifier,corrector": "two"})
        >>> checkpoints_of(several, ["solver_0", "verifier_0", "corrector_0"])["corrector_0"]
        ('verifier-corrector', 'two')
    """
    names, model = [name for name in names if not is_frozen(team, name)], team.model
    if not model:
        raise ConfigError("say what is trained: team.model, the path or the name of a checkpoint")
    if isinstance(model, Mapping):
        return _by_names(model, names)
    listed = [model] if isinstance(model, str) else list(model)
    if len(listed) == 1 and (team.lora is None or len(names) == 1):
        return dict.fromkeys(names, (POLICY, listed[0]))
    if len(listed) == 1:  # an adapter for each agent
        listed *= len(names)
    if len(listed) != len(names):
        raise ConfigError(
            f"{len(names)} agents ({', '.join(names)}) take one team.model, one for each, or a table; "
            f"got {len(listed)}"
        )
    return {name: (name, path) for name, path in zip(names, listed, strict=True)}


def _by_names(model: Mapping[str, str], names: Sequence[str]) -> dict[str, tuple[str, str]]:
    assigned: dict[str, tuple[str, str]] = {}
    for key, path in model.items():
        names_of_key = [part.strip() for part in key.split(",")]
        if repeated := assigned.keys() & set(names_of_key):
            raise ConfigError(f"team.model names {min(repeated)} twice: give each agent one checkpoint")
        assigned |= {part: ("-".join(names_of_key), path) for part in names_of_key}
    by_agent = by_name(assigned, names)
    if idle := {name for name, _ in assigned.values()} - {name for name, _ in by_agent.values()}:
        raise ConfigError(f"no agent acts with the policy {brief(min(idle))} of team.model")
    return by_agent


def agents_by_name(
    settings: RunSettings, rules: Rules, models: Mapping[str, Any], problems: ProblemSet | None = None
) -> dict[str, Agent]:
    """The agents of a run: of the models that are trained, by policy, or of others that the settings name.

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
    agents: dict[str, Agent] = {}
    if team.agents is None:
        by_agent = {name: models[policy] for name, policy in policies.items()}
        agents |= library_agents(settings, by_agent, roles, problems)
    elif team.tools:
        raise ConfigError("team.tools are for the library's own agents: leave them out, or team.agents")
    else:
        for policy in dict.fromkeys(policies.values()):
            acting = [name for name in names if policies.get(name) == policy]
            agents |= agents_of_function(team.agents, acting, models[policy], sampling, policy)
    if frozen := [name for name in names if name not in policies]:
        agents |= make_agents(team.others, frozen, sampling=sampling, roles=roles)
    return {name: agents[name] for name in names}


def library_agents(
    settings: RunSettings,
    models: Mapping[str, Any],
    roles: Mapping[str, type[RoleAgent]],
    problems: ProblemSet | None,
) -> dict[str, Agent]:
    """The library's own agents of models, by agent; `problems` are those of the tool ``public_tests``."""
    options: dict[str, Any] = {
        "sampling": settings.sampling,
        "roles": roles,
        "tools": make_tools(settings.team.tools, problems),
        "thinking": THINKING_MODES[settings.team.thinking],
    }
    return {name: as_agent(model, name, **options) for name, model in models.items()}


def agents_of_function(
    function_name: str, names: Sequence[str], model: Model, sampling: Sampling, policy: str
) -> dict[str, Agent]:
    """The agents that a function makes of one model, by name; a `ConfigError` if it lacks one."""
    arguments = {
        "model": model,
        "names": tuple(names),
        "sampling": sampling,
        "temperature": sampling.temperature,
        "max_tokens": sampling.max_tokens,
        "policy": policy,
    }
    function: Any = import_object(function_name)
    parameters = inspect.signature(function).parameters.values()
    if unknown := [p.name for p in parameters if p.name not in arguments and p.default is p.empty]:
        raise ConfigError(f"{function_name} asks for {', '.join(unknown)}; there is {', '.join(arguments)}")
    agents = function(**{p.name: arguments[p.name] for p in parameters if p.name in arguments})
    if missing := [name for name in names if name not in agents and role_of(name) not in agents]:
        raise ConfigError(f"{function_name} makes no agent for {', '.join(missing)}")
    return {name: agents[name] if name in agents else agents[role_of(name)] for name in names}


def _spec(settings: RunSettings, game_settings: Mapping[str, Any], *, training: bool) -> EnvSpec:
    table, model = environment_of(settings), settings.team.model
    env_spec = spec(table.id)
    game = find_game(env_spec.game)
    game.validate_names(game_settings, ())
    number = game.options.team_size
    size = {number: table.settings[number]} if number and number in table.settings else {}
    env_spec = replace(
        env_spec,
        settings={**(game.training if training else {}), **env_spec.settings, **size, **game_settings},
        rewards=table.rewards,
        team_reward=table.team_reward,
        grader=table.grader,
    )
    return with_team_size(env_spec, 1 if isinstance(model, str) or model is None else len(model))
