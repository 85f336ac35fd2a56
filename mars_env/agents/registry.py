"""Specifications of agents as strings, for the command line and for configuration files."""

import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from typing import Any, Literal
from urllib.parse import parse_qsl, quote

from pydantic import Json, TypeAdapter, ValidationError

from mars_env.agents.roles import ROLES, RoleAgent
from mars_env.agents.thinking import THINKING, THINKING_MODES, Thinking
from mars_env.agents.tools import Tool, Toolbox, make_tools
from mars_env.envs.rules import Rules
from mars_env.errors import ConfigError, explained
from mars_env.identity import identity_of
from mars_env.lazy import declared, import_object, is_object_name
from mars_env.models.scripted import ScriptedModel
from mars_env.models.secrets import api_key
from mars_env.players import FunctionAgent, Player, by_name, lacking
from mars_env.problems import ProblemSet
from mars_env.text import brief
from mars_env.types import Agent, Model, Sampling, role_of

ENTRY_POINTS = "mars_env.agents"
"""Group of the entry points that name agents; each has the form of ``module:object`` below."""

_Types = Mapping[str, Any]

_NAMED = re.compile(r"[A-Za-z_]\w*=")
_NEXT_ROLE = re.compile(r",(?=[A-Za-z_]\w*=)")
_NEXT_AGENT = re.compile(r",(?=(?:https?://|[A-Za-z_][\w.]*:[^\s/]))")

_KEEPS_TOOLS = re.compile(r"^(?:\w+=)?scripted:|[?&]tools=")

_TEAM = "team:"
_MODELS = ("http", "https", "hf", "vllm", "scripted", "classifier")
"""What a specification of a model begins with."""

_FORMS = "http://host:8000/v1#model, hf:path, vllm:path, team:folder, scripted:text or my_module:object"

_COMMON: _Types = {
    "tools": str,
    "max_calls": int,
    "tool_seconds": float,
    "calls": str,
    "temperature": float,
    "top_p": float,
    "top_k": int,
    "max_tokens": int,
    "thinking": Literal["tags", "opened", "off"],
    "overflow": Literal["check", "unknown", "refuse"],
}
_OF_TOOLS = ("max_calls", "tool_seconds", "calls")
_HEADER = "header."

_ADDRESS = re.compile(r"https?://[^#,\s]*(?=#)")
_TRANSPORT = re.compile(r"(?<=[?&])(concurrency|attempts|timeout|api_key_env)=[^&,]*&?")

_SECRET = re.compile(r"auth|key|token|secret|cookie", re.I)
"""Headers whose values do not belong in a string that is stored and shown."""

_HTTP: _Types = {
    "api": str, "api_key_env": str, "concurrency": int, "attempts": int, "patience": float, "timeout": float,
    "exact": bool, "logprobs": str, "samples_per_call": int, "limit_field": str, "name": str,
    "tokenizer": str, "reasoning_effort": str, "extra_body": Json[dict[str, Any]], f"{_HEADER}NAME": str,
}  # fmt: skip
_HF: _Types = {
    "device": str, "dtype": str, "context": int, "max_batch_rows": int, "max_batch_tokens": int, "name": str
}  # fmt: skip
_VLLM: _Types = {"engine": str, "dtype": str, "eager": bool, "name": str}


def make_agents(
    spec: Player | Model | Mapping[str, Player | Model | str] | Sequence[Player | Model | str] | str,
    possible_agents: Iterable[str],
    *,
    sampling: Sampling | None = None,
    roles: Mapping[str, type[RoleAgent]] = ROLES,
    problems: ProblemSet | None = None,
) -> dict[str, Agent]:
    r"""Agents for all places of a team.

    docs/agents.md lists the specifications (``http://host:8000/v1#model``, ``hf:path``, ``vllm:path``,
    ``team:folder``, ``scripted:text``, ``my_module:object``, or a name of the entry-point group
    ``mars_env.agents``) and their options: ``hf:path?temperature=0.6&max_tokens=4096``. One string names one
    agent, for the whole team. A team is named by role, ``solver=...,verifier=...``, or by place,
    ``coder_0=...,coder_1=...``. A specification loads one model, however many agents use it.

    Args:
        spec: A string as above; or an agent, a model or a function for the whole team; or a mapping by agent
            (``"coder_1"``) or role of any of these, or a list with one of them for each place.
        possible_agents: Names of the places, e.g. ``env.possible_agents``.
        sampling: How models are sampled where the specification does not say.
        roles: The agents that models become, by role; those of a game are `roles_of`.
        problems: Whose public tests the tool ``public_tests`` runs.

    Raises:
        ConfigError: A string cannot be understood, or a place is left out.

    Example:
        >>> team = make_agents(r"solver=scripted:\boxed{4},verifier=scripted:Correctness: Correct",
        ...                    ["solver_0", "verifier_0"])
        >>> [type(agent).__name__ for agent in team.values()]
        ['Solver', 'Verifier']
    """
    names = list(possible_agents)
    if isinstance(spec, list | tuple):
        if len(spec) != len(names):
            raise ConfigError(f"{len(spec)} agents are given for {len(names)} places: {', '.join(names)}")
        spec = dict(zip(names, spec, strict=True))
    team = _by_role(spec) if isinstance(spec, str) else spec
    players: Mapping[str, Any] = (
        by_name(team, names) if isinstance(team, Mapping) else dict.fromkeys(names, team)
    )
    trained = cache(partial(_trained, problems=problems))
    loaded = cache(partial(_load, sampling=sampling, problems=problems))
    agents = {}
    for name, player in players.items():
        if not isinstance(player, str):
            agents[name] = as_agent(player, name, sampling=sampling, roles=roles)
        elif player.startswith(_TEAM):
            agents[name] = trained(player).agent(name, roles)
        else:
            value_of, settings = loaded(player)
            value = value_of(role_of(name))
            if "?" in player and (isinstance(value, Agent) or not isinstance(value, Model)):
                raise ConfigError(f"{brief(player)} is an agent of your own: options are for models")
            agents[name] = as_agent(value, name, roles=roles, **settings)
    return agents


def with_tools(spec: str, tools: str | None) -> str:
    """A team's specification in which all agents but scripts have these tools, where it names no others.

    Example:
        >>> with_tools("solver=hf:a?max_tokens=9,verifier=hf:b?tools=my:check", "python")
        'solver=hf:a?max_tokens=9&tools=python,verifier=hf:b?tools=my:check'
    """
    if not tools:
        return spec
    option = f"tools={quote(tools, safe=':')}"
    return ",".join(
        agent if _KEEPS_TOOLS.search(agent) else f"{agent}{'&' if '?' in agent else '?'}{option}"
        for agent in (_NEXT_ROLE.split(spec) if _NAMED.match(spec) else [spec])
    )


def team_size(spec: object) -> int | None:
    """How many places are listed or named in a team's specification; None if it does not say."""
    if isinstance(spec, list | tuple):
        return len(spec)
    named = _by_role(spec) if isinstance(spec, str) else spec
    if not isinstance(named, Mapping):
        return None
    return sum(isinstance(name, str) and role_of(name) != name for name in named) or None


def make_model(spec: str) -> tuple[Any, Sampling | None]:
    """The object that a specification names, and the sampling that it asks for."""
    value_of, settings = _load(spec)
    return value_of("judge"), settings["sampling"]


def team_identity(
    agents: str | Mapping[str, Agent],
    possible_agents: Sequence[str],
    roles: Mapping[str, type[RoleAgent]] = ROLES,
) -> dict[str, Any]:
    """What identifies the agents of a team, by name; agents that a string names are not made for it."""
    if not isinstance(agents, str):
        return {name: identity_of(agent) for name, agent in agents.items()}
    team = _by_role(agents)
    specs = by_name(team, possible_agents) if isinstance(team, Mapping) else None
    identities: dict[str, Any] = {}
    for name in possible_agents:
        identities[name] = {"agent": named_identity(agents.strip() if specs is None else specs[name])}
        if (role := roles.get(role_of(name))) is not None:
            identities[name] |= {
                "role": identity_of(role),
                "system": role.system_at(_place(name)),
                "prompt": role.template,
            }
    return identities


def named_identity(value: Any) -> Any:
    """What identifies a value, or the object that a string ``module:object`` names."""
    if not isinstance(value, str):
        return identity_of(value)
    target = value.partition("?")[0]
    if target.partition(":")[0] not in _MODELS and (":" in target or target in declared(ENTRY_POINTS)):
        with suppress(ConfigError):  # whoever makes it says what is wrong with it
            return {"text": value, "object": identity_of(_find(target))}
    return _without_transport(value)


def _without_transport(spec: str) -> str:
    """An agent's specification without where and how its model is reached.

    Example:
        >>> _without_transport("solver=http://a:8000/v1#m?concurrency=8&top_k=5,verifier=http://b/v1#n?timeout=3")
        'solver=#m?top_k=5,verifier=#n'
    """
    return _TRANSPORT.sub("", _ADDRESS.sub("", spec)).replace("?,", ",").rstrip("?&")


def as_agent(
    value: Player | Model | str,
    agent: str = "solver_0",
    *,
    sampling: Sampling | None = None,
    thinking: Thinking | None = THINKING,
    roles: Mapping[str, type[RoleAgent]] = ROLES,
    tools: Toolbox | Sequence[Tool] = (),
) -> Agent:
    """An agent for one place of a team, made from whatever the user has; a `ConfigError` from anything else.

    An agent stays as it is; a function becomes a `FunctionAgent`; a string is a specification (see
    `make_agents`). A model becomes the agent of the role, with its own prompt. ``coder_0``, ``coder_1`` ...
    of a search differ in their system messages (see `RoleAgent.system_at`).

    Example:
        >>> as_agent(ScriptedModel(["Correctness: Wrong"]), "verifier_0")
        Verifier(policy='scripted', model=ScriptedModel(name='scripted'))
    """
    if isinstance(value, str):
        return make_agents(value, [agent], sampling=sampling, roles=roles)[agent]
    if isinstance(value, type):
        raise ConfigError(f"{value.__name__} is a class: give an instance of it")
    if isinstance(value, Agent):
        return value
    if isinstance(value, Model):
        if (kind := roles.get(role_of(agent))) is None:
            words = f"{role_of(agent)!r}, only for {', '.join(roles)}"
            advice = "give an agent instead of a model, or name a RoleAgent in roles= of the game"
            raise ConfigError(f"there is no built-in prompt for the role {words}: {advice}")
        system = kind.system_at(_place(agent))
        return kind(value, sampling=sampling, thinking=thinking, system=system, tools=tools)
    if not callable(value):
        raise ConfigError(f"{agent} is an agent, a model, a function or a string, not {lacking(value)}")
    return FunctionAgent(value)


def make_verifier(value: Player | Model | str) -> Agent:
    """The agent that verifies for a search, made as by `as_agent`."""
    return as_agent(value, "verifier_0")


def roles_of(rules: Rules) -> dict[str, type[RoleAgent]]:
    """The agents that models become in a game, by role: the game's, else the library's."""
    roles = dict(ROLES)
    for agent in rules.possible_agents:
        default = rules.default_agent(agent)
        if default is None:
            continue
        if not isinstance(default, type) or not issubclass(default, RoleAgent):
            raise ConfigError(f"the game {rules.name}: {brief(default)}, in roles=, is no class of RoleAgent")
        roles[role_of(agent)] = default
    return roles


def _place(agent: str) -> int:
    role = role_of(agent)
    return int(agent.removeprefix(f"{role}_")) if agent != role else 0


def _by_role(spec: str) -> Mapping[str, str] | str:
    if not _NAMED.match(spec):
        return spec.strip()
    specs: dict[str, str] = {}
    for assignment in _NEXT_ROLE.split(spec):
        name, _, value = assignment.partition("=")
        if name in specs:
            raise ConfigError(f"{name!r} is given twice in {spec!r}")
        specs[name] = value.strip()
    return specs


def _load(
    spec: str, sampling: Sampling | None = None, problems: ProblemSet | None = None
) -> tuple[Callable[[str], Any], dict[str, Any]]:
    """What gives the object that a specification names, for a role, and how it is used (for `as_agent`)."""
    kind, colon, rest = spec.partition(":")
    if colon and kind == "scripted":
        return _always(ScriptedModel([rest])), {"sampling": sampling}
    if _NEXT_AGENT.search(spec):
        advice = "name the places, such as coder_0=...,coder_1=..., or give a list of strings"
        raise ConfigError(f"one text names one agent, and {brief(spec)} seems to name several: {advice}")
    types, make = _MAKERS.get(kind if colon else "", ({}, None))
    target, options = _options(spec, types)
    settings = _agent_settings(sampling, options, problems)
    return _always(make(target, options)) if make else _made(_find(target)), settings


def _always(value: Any) -> Callable[[str], Any]:
    return lambda role: value


def _trained(spec: str, problems: ProblemSet | None) -> Any:
    """The team of a training run: a `TrainedTeam`, which is made above this layer."""
    folder, options = _options(
        spec.removeprefix(_TEAM), {"device": str, "dtype": str, "context": int, "function": str}
    )
    names = set(options) & set(_COMMON) - {"thinking", "tools", *_OF_TOOLS}
    changes = {name: options.pop(name) for name in names}
    settings, function = _agent_settings(None, options, problems), options.pop("function", None)
    settings |= {"function": function, "changes": changes, "model": options, "problems": problems}
    del settings["sampling"]
    return import_object("mars_env.trainers.trained:TrainedTeam")(folder, **settings)


def _hf(target: str, options: dict[str, Any]) -> Model:
    from mars_env.models.batching import BatchLimits
    from mars_env.models.hf import HFModel  # brings torch

    limits = {"max_batch_rows": "rows", "max_batch_tokens": "tokens"}
    batch = {field: options.pop(name) for name, field in limits.items() if name in options}
    return HFModel(target.removeprefix("hf:"), batch=BatchLimits(**batch), **options)


def _vllm(target: str, options: dict[str, Any]) -> Model:
    from mars_env.models.vllm import VLLMModel  # brings vLLM

    engine = {name: options.pop(name) for name in ("dtype",) if name in options}
    return VLLMModel(target.removeprefix("vllm:"), options=engine, **options)


def _http(target: str, options: dict[str, Any]) -> Model:
    from mars_env.models.http import HTTPModel

    urls, _, model = target.partition("#")
    if not model:
        raise ConfigError(f"name the model after a #: http://host:8000/v1#model, got {target!r}")
    body = options.pop("extra_body", {})
    if effort := options.pop("reasoning_effort", None):
        body = {"reasoning_effort": effort, **body}
    names = {name: name.removeprefix(_HEADER) for name in options if name.startswith(_HEADER)}
    headers = {header: _header(header, options.pop(name)) for name, header in names.items()}
    options |= {"extra_body": body, "headers": headers}
    return HTTPModel(re.split(r"\+(?=https?://)", urls), model, **options)


_MAKERS: Mapping[str, tuple[_Types, Callable[[str, dict[str, Any]], Model]]] = {
    "http": (_HTTP, _http), "https": (_HTTP, _http), "hf": (_HF, _hf), "vllm": (_VLLM, _vllm)
}  # fmt: skip
"""What a specification of a model may say, and what makes the model."""


def _header(name: str, value: str) -> str:
    """The value of a header; ``env:NAME`` is that of an environment variable. Secrets must be given so."""
    if value.startswith("env:"):
        return api_key(value.removeprefix("env:"), f"the header {name}")
    if _SECRET.search(name):
        raise ConfigError(f"the header {name} may be a secret: give header.{name}=env:VARIABLE")
    return value


def _options(text: str, types: _Types) -> tuple[str, dict[str, Any]]:
    target, mark, query = text.rpartition("?")
    if not mark:
        return text, {}
    options: dict[str, Any] = {}
    for key, value in parse_qsl(query, keep_blank_values=True):
        kind = {**types, **_COMMON}.get(f"{_HEADER}NAME" if key.startswith(_HEADER) else key)
        if kind is None:
            names = ", ".join(sorted({*types, *_COMMON}))
            raise ConfigError(f"{target} has no option {key!r}; it has {names}")
        if key in options:
            raise ConfigError(f"{target}: the option {key} is given twice")
        with explained(ConfigError, f"{target}: the option {key} cannot be {value!r}", ValidationError):
            options[key] = TypeAdapter(kind).validate_python(value)
    return target, options


def _agent_settings(
    sampling: Sampling | None, options: dict[str, Any], problems: ProblemSet | None
) -> dict[str, Any]:
    """The arguments of `as_agent` that the options say; removes these from the options."""
    thinking, tools = THINKING_MODES[options.pop("thinking", "tags")], options.pop("tools", "")
    limits = {name: options.pop(name) for name in _OF_TOOLS if name in options}
    if limits and not tools:
        raise ConfigError(f"{' and '.join(sorted(limits))} are for agents with tools=")
    changes = {name: options.pop(name) for name in set(options) & set(_COMMON)}
    sampling = replace(sampling or Sampling(), **changes) if changes else sampling
    toolbox = Toolbox(make_tools(tools, problems), **limits) if tools else ()
    return {"sampling": sampling, "thinking": thinking, "tools": toolbox}


def _find(target: str) -> Any:
    """The object that ``module:object``, or the name of an entry point, stands for."""
    if is_object_name(target):
        return import_object(target)
    if ":" in target:  # an address without http://, say
        raise ConfigError(f"{brief(target)} names no agents; give {_FORMS}")
    entries = declared(ENTRY_POINTS)
    if target not in entries:
        names = ", ".join(sorted(entries)) or "none"
        raise ConfigError(f"no agents are called {target!r} (installed: {names}); give {_FORMS}")
    return entries[target].load()


def _member(team: Mapping[str, Any], role: str) -> Any:
    if role not in team:
        raise ConfigError(f"the team has nothing for {role}, only for {', '.join(map(str, team))}")
    return team[role]


def _made(value: Any) -> Callable[[str], Any]:
    """What gives the object itself, or what it makes if it is a factory: for each role, or one for all."""
    if not isinstance(value, type) and isinstance(value, Agent | Model):
        return _always(value)
    if isinstance(value, Mapping):
        return partial(_member, value)
    if not callable(value):
        raise ConfigError(f"an agent, a model, a function or a factory is expected, got {lacking(value)}")
    parameters = inspect.signature(value).parameters.values()
    extra = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    needed = {p.name for p in parameters if p.default is p.empty and p.kind not in extra} - {"role"}
    if needed and isinstance(value, type):
        names = ", ".join(sorted(needed))
        raise ConfigError(f"{value.__name__} cannot be made without {names}: name a factory instead")
    if needed:
        return _always(value)  # a function of an observation
    if any(p.name == "role" for p in parameters):
        return cache(lambda role: value(role=role))
    return _always(value())
