"""Solver, Verifier and Corrector for `subset-sum` on a miniature."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from mars_env.envs.rewards import agreement, judged_turn
from mars_env.types import Action, Model, Observation, Problem, Sampling, Turn
from studies.sums import protocol

LIMITS: Final[Mapping[str, int]] = {
    "solver": protocol.ANSWER_TOKENS,
    "verifier": protocol.REPORT_TOKENS,
    "corrector": protocol.ANSWER_TOKENS,
}
"""Limits of one completion by role, in tokens; no right text reaches them."""


class SumsAgent:
    """One role on a model of this language."""

    def __init__(self, role: str, model: Model, *, policy: str = "sums") -> None:
        self.role, self.model, self.policy = role, model, policy
        self.sampling = Sampling(temperature=1.0, max_tokens=LIMITS[role])

    def __repr__(self) -> str:
        return f"SumsAgent({self.role!r}, policy={self.policy!r})"

    async def act(self, observation: Observation, n: int, seed: int) -> list[Action]:
        """Sample n actions."""
        sampling = replace(self.sampling, seed=seed)
        read = protocol.prompt(self.role, observation)
        completions = await self.model.complete(read, n, sampling)
        texts = [c.text if self.role == "verifier" else protocol.shown(c.text) for c in completions]
        return [Action(text, (found,)) for text, found in zip(texts, completions, strict=True)]


def team(model: Model) -> dict[str, SumsAgent]:
    """The three roles on one model."""
    return {f"{role}_0": SumsAgent(role, model) for role in LIMITS}


def honest_report(turn: Turn, path: Sequence[Turn], problem: Problem) -> float | None:
    """The Verifier's reward: 1 if its verdict and the difference that it states are both right."""
    judged = judged_turn(path)
    if judged is None or agreement(turn, path, problem) is None:
        return None
    honest = protocol.honest(problem.statement, judged.text)
    return float(protocol.ending(turn.text) == protocol.ending(honest))
