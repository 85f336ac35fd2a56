"""Solver, Verifier and Corrector for the miniature, in this process or behind a server of its checkpoint."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, Literal

from mars_env.errors import ConfigError
from mars_env.miniature import protocol
from mars_env.types import Action, Model, Observation, Sampling

LIMITS: Final[Mapping[str, int]] = {
    "solver": protocol.SOLUTION_TOKENS,
    "verifier": protocol.REPORT_TOKENS,
    "corrector": protocol.SOLUTION_TOKENS,
}
"""Hard limits of one completion by role, in tokens."""


def prompt(role: str, observation: Observation) -> str:
    """The stream that a role reads on an observation of solve-verify-correct.

    Of solution and report, which may be any strings, only the miniature's language is kept, as far as it
    fits. A problem that is not of the set ``arithmetic`` raises ConfigError.

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
    """One role of the miniature team; `max_tokens` is by default that of `LIMITS`.

    Every completion starts with the piece `forced`, which is not sampled, but counts towards the limit.
    """

    def __init__(
        self,
        role: str,
        model: Model,
        *,
        policy: str = "",
        temperature: float = 1.0,
        max_tokens: int | None = None,
        overflow: Literal["check", "unknown", "refuse"] = "check",
        forced: str = "",
    ) -> None:
        if role not in LIMITS:
            raise ConfigError(f"the miniature plays {', '.join(LIMITS)}, not {role!r}")
        if forced and forced not in protocol.PIECES:
            raise ConfigError(f"{forced!r} is not a piece of the miniature's language")
        self.role = role
        self.policy = policy or getattr(model, "name", "") or "miniature"
        self.model = model
        self._forced = forced
        limit = (LIMITS[role] if max_tokens is None else max_tokens) - bool(forced)
        self.sampling = Sampling(temperature=temperature, max_tokens=limit, overflow=overflow)

    def __repr__(self) -> str:
        return f"MiniatureAgent({self.role!r}, policy={self.policy!r})"

    def identity(self) -> dict[str, Any]:
        """What identifies it: its role and model, and how the model is asked."""
        return {
            "role": self.role,
            "policy": self.policy,
            "forced": self._forced,
            "sampling": self.sampling,
            "model": self.model,
        }

    def prompt(self, observation: Observation) -> str:
        """The stream of a turn, with the forced piece at its end."""
        return prompt(self.role, observation) + self._forced

    async def act(self, observation: Observation, n: int, seed: int) -> list[Action]:
        """Sample n actions; in their texts numbers are written in the ordinary order."""
        sampling = replace(self.sampling, seed=seed)
        completions = await self.model.complete(self.prompt(observation), n, sampling)
        return [Action(protocol.flip(self._forced + sample.text), (sample,)) for sample in completions]


def team(model: Model, *, policy: str = "", temperature: float = 1.0) -> dict[str, MiniatureAgent]:
    """Solver, Verifier and Corrector on one model, by their names in solve-verify-correct."""
    return {
        f"{role}_0": MiniatureAgent(role, model, policy=policy, temperature=temperature) for role in LIMITS
    }
