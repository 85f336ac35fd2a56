"""What a run must have in common with the one that it continues, besides its settings: as plain data."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import partial
from typing import Any

from pydantic import BaseModel

from mars_env.envs import Game
from mars_env.trainers.local import Policy
from mars_env.types import Agent, TrainingAgent

_HEAD = 64
"""Values of each parameter that a fingerprint reads."""


def described_game(game: Game) -> dict[str, Any]:
    """The parts of a game by name, and the settings of its rules that are not the default.

    A setting that is added to rules later does not change what is described with its default.

    Example:
        >>> import mars_env
        >>> told = described_game(mars_env.make("arithmetic-solve-verify-correct", rounds=3).game)
        >>> told["rules"]
        {'mars_env.envs.solve_verify_correct.SolveVerifyCorrect': {'schedule': {'rounds': 3}}}
        >>> told["grader"], told["rewards"]["solver"]
        ('mars_env.grading.math.grader.MathGrader', 'mars_env.envs.rewards.outcome')
    """
    return {
        "rules": {_name(game.rules): _changed(game.rules)},
        "grader": _name(game.grader),
        "rewards": {role: _name(reward) for role, reward in game.rewards.items()},
        "team_reward": None if game.team_reward is None else _name(game.team_reward),
    }


def described_length(agents: Mapping[str, Agent], steps: int) -> dict[str, int]:
    """The number of steps, if agents act by how much of the run is done: then a longer run is another run.

    Example:
        >>> from mars_env.players import FunctionAgent
        >>> described_length({"solver_0": FunctionAgent(lambda observation: "4")}, 100)
        {}
    """
    return {"steps": steps} if any(isinstance(agent, TrainingAgent) for agent in agents.values()) else {}


def fingerprints(policies: Mapping[str, Policy]) -> dict[str, str]:
    """Of the weights that a run needs and its checkpoints do not hold: references, and bases of adapters.

    They are of the first values of each parameter, so that a run does not read all of them.
    """
    frozen = {name: getattr(policy.model, "base", policy.reference) for name, policy in policies.items()}
    return {name: _fingerprint(model) for name, model in frozen.items() if model is not None}


def _fingerprint(model: Any) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for name, parameter in model.named_parameters():
        if ".lora_" in name:  # the base of adapters has theirs in it, which are trained
            continue
        head = parameter.detach().flatten()[:_HEAD].float().cpu()
        digest.update(f"{name} {tuple(parameter.shape)} {head.tolist()}".encode())
    return digest.hexdigest()


def _name(part: Any) -> str:
    """The full name of a function, or of an object's class."""
    while isinstance(part, partial):
        part = part.func
    named = part if hasattr(part, "__qualname__") else type(part)
    return f"{named.__module__}.{named.__qualname__}"


def _changed(settings: Any) -> Any:
    """Settings as plain data, without those that have their default; other objects by name."""
    if isinstance(settings, BaseModel):
        declared = type(settings).model_fields.items()
        known = {name: each.get_default(call_default_factory=True) for name, each in declared}
    elif is_dataclass(settings):
        known = {each.name: _default(each) for each in fields(settings)}
    elif settings is None or isinstance(settings, str | int | float):
        return settings
    elif isinstance(settings, Mapping):
        return {str(name): _changed(value) for name, value in settings.items()}
    elif isinstance(settings, list | tuple):
        return [_changed(value) for value in settings]
    else:
        return _name(settings)
    found = {name: getattr(settings, name) for name in known}
    return {name: _changed(value) for name, value in found.items() if value != known[name]}


def _default(field: Any) -> Any:
    return field.default_factory() if field.default_factory is not MISSING else field.default
