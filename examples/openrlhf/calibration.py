"""A custom environment with its own agents and rewards, trained without changes to the library.

The Solver answers; the Assessor reads the answer and says how likely it is to be right. The Assessor is
rewarded by the Brier score, which is highest for honest estimates, and the Solver for right
answers. Importing this file registers the rules, so they can be played on any problem set: the id
``calibration:gsm8k-assessed`` imports it. `custom_environment.toml` trains the two with one shared policy.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gymnasium import Space

import mars_env
from mars_env.agents import Solver
from mars_env.agents.roles import RoleAgent
from mars_env.envs.rewards import judged_turn, outcome
from mars_env.envs.spaces import UnicodeText
from mars_env.models import HTTPModel
from mars_env.types import Action, Agent, Grade, Model, Observation, Problem, Sampling, Turn, role_of

PERCENT = re.compile(r"Probability:\s*(\d{1,3})(?:\.\d*)?\s*%")


def stated_probability(text: str) -> float | None:
    """The last probability that a text states, in [0, 1]; None if it states none.

    Example:
        >>> stated_probability("Probability: 30 %. No: Probability: 85%"), stated_probability("I am sure.")
        (0.85, None)
    """
    found = [int(percent) for percent in PERCENT.findall(text)]
    return found[-1] / 100 if found and found[-1] <= 100 else None


def brier(turn: Turn, path: Sequence[Turn], problem: Problem) -> float | None:
    """``1 - (p - grade)^2``; 0 for a text without a probability, None if the grade is unknown."""
    judged = judged_turn(path)
    if judged is None or judged.grade is None or judged.grade.score is None:
        return None
    stated = turn.info["probability"]
    return 0.0 if stated is None else 1.0 - (stated - judged.grade.score) ** 2


@dataclass(frozen=True, slots=True)
class State:
    """The problem, the solution, and how many turns have been taken."""

    problem: Problem
    solution: str = ""
    turns: int = 0


@dataclass(frozen=True, slots=True)
class SolveThenAssess:
    """One solution, then one assessment of it; the solution is the team's answer."""

    possible_agents: tuple[str, ...] = ("solver_0", "assessor_0")
    max_turns: int = 2

    def fields(self, agent: str) -> Mapping[str, Space[Any]]:
        """The Solver sees the problem; the Assessor sees the problem and the solution."""
        fields: dict[str, Space[Any]] = {"problem": UnicodeText()}
        return fields if agent == "solver_0" else fields | {"solution": UnicodeText()}

    def start(self, problem: Problem) -> State:
        """Nothing has been written."""
        return State(problem)

    def current_agent(self, state: State) -> str | None:
        """First the Solver, then the Assessor, then nobody."""
        return self.possible_agents[state.turns] if state.turns < self.max_turns else None

    def observe(self, state: State, agent: str) -> Observation:
        """The fields that `fields` names."""
        observation = {"problem": state.problem.statement}
        return observation if agent == "solver_0" else observation | {"solution": state.solution}

    def submission(self, state: State, action: Action) -> str | None:
        """Submit solutions to the grader, but not assessments."""
        return action.text if state.turns == 0 else None

    def note(self, state: State, action: Action) -> Mapping[str, Any]:
        """The probability that the Assessor states."""
        return {"probability": stated_probability(action.text)} if state.turns else {}

    def apply(self, state: State, action: Action, grade: Grade | None) -> State:
        """Keep the solution, and pass the turn on."""
        solution = action.text if state.turns == 0 else state.solution
        return replace(state, solution=solution, turns=state.turns + 1)

    def final(self, state: State) -> int | None:
        """The only solution."""
        return 0 if state.turns else None


class Assessor(RoleAgent):
    """Says how likely a solution is to be right. Observation: ``{"problem", "solution"}``."""

    role = "assessor"
    system = (
        "You estimate how likely solutions are to be right. You say what you believe, neither more nor less."
    )
    template = """\
<problem>
{{ problem }}
</problem>

<solution>
{{ solution }}
</solution>

How likely is it that the final answer of this solution is right? Think about it, \
then end with a line of the form
Probability: 70%"""


AGENTS: Mapping[str, type[RoleAgent]] = {"solver": Solver, "assessor": Assessor}


def team(model: Model, names: Sequence[str], sampling: Sampling | None = None) -> Mapping[str, Agent]:
    """The agents by name, for ``--mars.agents calibration:team``; one model plays them all."""
    return {name: AGENTS[role_of(name)](model, sampling=sampling) for name in names}


def served(role: str) -> Agent:
    """The same agents on a vLLM server, for `mars-env evaluate --agents calibration:served`.

    The environment variables SERVER and MODEL name the server (``http://127.0.0.1:8000/v1``) and its model.
    """
    return AGENTS[role](HTTPModel(os.environ["SERVER"], os.environ["MODEL"]))


mars_env.register_rules("assessed", SolveThenAssess, rewards={"solver": outcome, "assessor": brier})
