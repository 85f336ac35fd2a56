"""A single agent: it solves, and may then revise its own solution.

With no revisions this is the single-agent baseline; with some, sequential self-refinement.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from gymnasium import Space
from gymnasium.spaces import Discrete

from mars_env.checks import valid_count
from mars_env.envs.solve_verify_correct import SOLVER
from mars_env.envs.spaces import UnicodeText
from mars_env.errors import ConfigError
from mars_env.types import Action, Grade, Observation, Problem

MOST_REVISIONS = 1000
"""Each revision is a call of the model."""


@dataclass(frozen=True, slots=True)
class State:
    """The problem, the last solution, whether it was cut off, and how many were written."""

    problem: Problem
    solution: str = ""
    truncated: bool = False
    written: int = 0


@dataclass(frozen=True, slots=True)
class Solve:
    """The Solver writes, then revises its own last solution `revisions` times; the last one counts.

    Example:
        >>> rules = Solve(revisions=1)
        >>> state = rules.apply(rules.start(Problem("p", "2 + 2?", "4")), Action("5"), None)
        >>> rules.current_agent(state), rules.observe(state, "solver_0")["solution"]
        ('solver_0', '5')
    """

    revisions: int = 0
    possible_agents: ClassVar[tuple[str, ...]] = (SOLVER,)

    def __post_init__(self) -> None:
        try:
            valid_count(self.revisions, MOST_REVISIONS)
        except ValueError as error:
            raise ConfigError(
                f"revisions must be a whole number from 0 to {MOST_REVISIONS}: {error}"
            ) from None

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

    def start(self, problem: Problem) -> State:
        """Nothing has been written yet."""
        return State(problem)

    def current_agent(self, state: State) -> str | None:
        """The Solver's, until the last revision is written."""
        return SOLVER if state.written <= self.revisions else None

    def observe(self, state: State, agent: str) -> Observation:
        """The problem; with revisions, the last solution (an empty text before the first)."""
        observation: dict[str, str | int] = {"problem": state.problem.statement}
        if self.revisions:
            observation |= {"solution": state.solution, "truncated": int(state.truncated)}
            observation["round"] = state.written
        return observation

    def submission(self, state: State, action: Action) -> str | None:
        """Every solution is graded."""
        return action.text

    def note(self, state: State, action: Action) -> Mapping[str, Any]:
        """The round, and whether the text was cut off."""
        return {"round": state.written, "truncated": action.truncated}

    def apply(self, state: State, action: Action, grade: Grade | None) -> State:
        """The new solution takes the place of the old one."""
        return replace(state, solution=action.text, truncated=action.truncated, written=state.written + 1)

    def final(self, state: State) -> int | None:
        """The last solution."""
        return state.written - 1 if state.written else None


def self_refine(revisions: int = 1) -> Solve:
    """Sequential self-refinement: `Solve` with one revision unless another number is given."""
    return Solve(revisions)
