"""Solver, Verifier and Corrector for the miniature, in this process or behind a server of its checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final, Literal

from mars_env.errors import ConfigError
from mars_env.trainers.miniature import protocol
from mars_env.types import Action, Model, Observation, Sampling

LIMITS: Final[Mapping[str, int]] = {
    "solver": protocol.SOLUTION_TOKENS,
    "verifier": protocol.REPORT_TOKENS,
    "corrector": protocol.SOLUTION_TOKENS,
}
"""Hard limits of one completion by role, in tokens."""


def prompt(role: str, observation: Observation) -> str:
    """The stream that a role reads on an observation of solve-verify-correct.

    Any text may stand in the solution and the report: what is not in the miniature's language is
    left out, and no more is kept than a completion can hold.

    Raises:
        ConfigError: For another role, or a problem that is not of the set ``arithmetic``.

    Example:
        >>> prompt("solver", {"problem": "Work modulo 1000. Start with a = 882. Then b = a - 27. What is b?"})
        'a:288b: - 72<|solve|>'
    """
    problem = str(observation["problem"])
    if role == "solver":
        return protocol.solver_prompt(problem)
    if role == "verifier":
        return protocol.verifier_prompt(problem, str(observation["solution"]))
    if role == "corrector":
        return protocol.corrector_prompt(problem, str(observation["solution"]), str(observation["report"]))
    raise ConfigError(f"the miniature plays {', '.join(LIMITS)}, not {role!r}")


class MiniatureAgent:
    """One role of the miniature team.

    Args:
        role: ``"solver"``, ``"verifier"`` or ``"corrector"``.
        model: A model of the miniature's checkpoint.
        policy: Name of the weights.
        temperature: Of the sampling.
        max_tokens: Hard limit of one completion; by default the role's own (`LIMITS`).
        overflow: As of `Sampling`: what happens where the model's context is too small.

    Raises:
        ConfigError: For another role.
    """

    def __init__(
        self,
        role: str,
        model: Model,
        *,
        policy: str = "miniature",
        temperature: float = 1.0,
        max_tokens: int | None = None,
        overflow: Literal["check", "unknown", "refuse"] = "check",
    ) -> None:
        if role not in LIMITS:
            raise ConfigError(f"the miniature plays {', '.join(LIMITS)}, not {role!r}")
        self.role = role
        self.policy = policy
        self.model = model
        limit = LIMITS[role] if max_tokens is None else max_tokens
        self.sampling = Sampling(temperature=temperature, max_tokens=limit, overflow=overflow)

    def __repr__(self) -> str:
        return f"MiniatureAgent({self.role!r}, policy={self.policy!r})"

    def prompt(self, observation: Observation) -> str:
        """The prompt of a turn.

        Raises:
            ConfigError: The problem is not of the set ``arithmetic``.
        """
        return prompt(self.role, observation)

    async def act(self, observation: Observation, n: int, seed: int) -> list[Action]:
        """Sample n actions; their texts have numbers the ordinary way round.

        Raises:
            ConfigError: The problem is not of the set ``arithmetic``.
            mars_env.errors.ModelError: The model could not answer.
        """
        sampling = replace(self.sampling, seed=seed)
        completions = await self.model.complete(self.prompt(observation), n, sampling)
        return [Action(protocol.flip(completion.text), (completion,)) for completion in completions]


def team(model: Model, *, policy: str = "miniature", temperature: float = 1.0) -> dict[str, MiniatureAgent]:
    """Solver, Verifier and Corrector on one model, by the names that solve-verify-correct gives them."""
    return {
        f"{role}_0": MiniatureAgent(role, model, policy=policy, temperature=temperature) for role in LIMITS
    }
