"""What a run must have in common with the one that it continues, besides its settings: as plain data."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from typing import Any

from mars_env.envs import Game
from mars_env.identity import identity_of
from mars_env.trainers.local import Policy
from mars_env.types import Agent, TrainingAgent

_HEAD = 64
"""Values of each parameter that a fingerprint reads."""

_OF_MODELS = ("context", "template_options", "model")


def described_game(game: Game) -> dict[str, Any]:
    """What identifies the parts of a game.

    Example:
        >>> import mars_env
        >>> told = described_game(mars_env.make("arithmetic-solve-verify-correct", rounds=3).game)
        >>> told["rules"]["schedule"]["rounds"], told["grader"]["class"], told["rewards"]["solver"]
        (3, 'mars_env.grading.math.grader.MathGrader', 'mars_env.envs.rewards.outcome')
    """
    names = ("rules", "grader", "rewards", "team_reward")
    return {name: identity_of(getattr(game, name)) for name in names}


def described_team(agents: Mapping[str, Agent], trained: Collection[str]) -> dict[str, Any]:
    """What identifies the agents of a run that trains.

    Args:
        agents: By name.
        trained: Policies whose weights the run has itself. Of the models that sample them only the context
            and the options of the chat template count: a continued run may have another engine.

    Example:
        >>> from mars_env.players import FunctionAgent
        >>> told = described_team({"solver_0": FunctionAgent(lambda observation: "4", policy="mine")}, ())
        >>> told["solver_0"]["policy"]
        'mine'
    """
    identities = {name: identity_of(agent) for name, agent in agents.items()}
    return {
        name: _asked(each) if agents[name].policy in trained else each for name, each in identities.items()
    }


def _asked(identity: Any, at: str = "") -> Any:
    """An identity without what its models are, at any depth."""
    if not isinstance(identity, Mapping):
        return identity
    if at.lstrip("_") == "model":
        identity = {
            name: identity[name] for name in _OF_MODELS if not isinstance(identity.get(name, ""), str)
        }
    return {name: _asked(value, name) for name, value in identity.items()}


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
