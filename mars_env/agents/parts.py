"""The parts of a game that a spec names: users give names, rules take objects and do not import agents."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from mars_env.agents.registry import as_agent
from mars_env.agents.reward_model import make_reward_model
from mars_env.envs.registry import rules_spec
from mars_env.envs.specs import EnvSpec, Part
from mars_env.lazy import resolve


def with_parts(env_spec: EnvSpec) -> EnvSpec:
    r"""The spec with its agents, reward models and graders in place of their names.

    Example:
        >>> from mars_env.envs.registry import spec
        >>> named = spec("arithmetic-tree-search", verifier="scripted:Correctness\: Wrong")
        >>> type(with_parts(named).settings["verifier"]).__name__
        'Verifier'
    """
    parts = rules_spec(env_spec.rules).parts
    made = {
        name: _MAKERS[parts[name]](value)
        for name, value in env_spec.settings.items()
        if name in parts and value is not None
    }
    return replace(env_spec, settings={**env_spec.settings, **made}) if made else env_spec


def _grader(value: Any) -> Any:
    found = resolve(value) if isinstance(value, str) else value
    return found() if isinstance(found, type) else found


_MAKERS: Mapping[Part, Callable[[Any], Any]] = {
    "agent": lambda value: as_agent(value, "verifier_0"),
    "reward model": lambda value: make_reward_model(value) if isinstance(value, str) else value,
    "grader": _grader,
}
