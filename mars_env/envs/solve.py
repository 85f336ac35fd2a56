"""A single agent: it solves, and may then revise its own solution (sequential self-refinement)."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from gymnasium import Space
from gymnasium.spaces import Discrete

from mars_env.checks import valid_count
from mars_env.envs.solve_verify_correct import SOLVER
from mars_env.envs.spaces import UnicodeText
from mars_env.errors import ConfigError, explained
from mars_env.types import Action, Grade, Observation, Problem

_REVISIONS = 1000
"""The most; each is a call of the model."""


@dataclass(frozen=True, slots=True)
class Written:
    """The problem; the last of `depth` solutions, whether it was cut off, and the feedback on it, if any."""

    problem: Problem
    solution: str = ""
    truncated: bool = False
    feedback: str = ""
    depth: int = 0


@dataclass(frozen=True, slots=True)
class Solve:
    """The Solver writes, then revises its own last solution `revisions` times; the last one counts."""

    revisions: int = 0
    possible_agents: ClassVar[tuple[str, ...]] = (SOLVER,)

    def __post_init__(self) -> None:
        with explained(ConfigError, f"revisions must be an integer from 0 to {_REVISIONS}", ValueError):
            valid_count(self.revisions, _REVISIONS)

    @property
    def max_turns(self) -> int:
        """The solution and its revisions."""
        return 1 + self.revisions

    def fields(self, agent: str) -> Mapping[str, Space[Any]]:
        """The problem; with revisions, the solution so far as well."""
        fields: dict[str, Space[Any]] = {"problem": UnicodeText()}
        if self.revisions:
            fields |= {"solution": UnicodeText(), "truncated": Discrete(2)}
            fields["round"] = Discrete(self.revisions + 2)
        return fields

    def start(self, problem: Problem) -> Written:
        """Nothing has been written yet."""
        return Written(problem)

    def current_agent(self, state: Written) -> str | None:
        """The Solver's, until the last revision is written."""
        return SOLVER if state.depth <= self.revisions else None

    def observe(self, state: Written, agent: str) -> Observation:
        """The problem; with revisions, the last solution (empty before the first)."""
        observation: dict[str, str | int] = {"problem": state.problem.statement}
        if self.revisions:
            observation |= {"solution": state.solution, "truncated": int(state.truncated)}
            observation["round"] = state.depth
        return observation

    def submission(self, state: Written, action: Action) -> str | None:
        """Every solution is graded."""
        return action.text

    def note(self, state: Written, action: Action) -> Mapping[str, Any]:
        """The round, and whether the text was cut off."""
        return {"round": state.depth, "truncated": action.truncated}

    def apply(self, state: Written, action: Action, grade: Grade | None) -> Written:
        """The new solution takes the place of the old one."""
        return replace(state, solution=action.text, truncated=action.truncated, depth=state.depth + 1)

    def final(self, state: Written) -> int | None:
        """The last solution."""
        return state.depth - 1 if state.depth else None


def self_refine(revisions: int = 1) -> Solve:
    """Sequential self-refinement: `Solve` with one revision unless another number is given."""
    return Solve(revisions)
