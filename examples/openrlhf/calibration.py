"""A custom environment with its own agents and rewards, trained without changes to the library.

The Solver answers; the Assessor reads the answer and says how likely it is to be right. The Assessor is
rewarded by the Brier score, which is highest for honest estimates, and the Solver for right
answers. Importing this file registers the game, so it can be played on any problem set: the id
``calibration:gsm8k-assessed`` imports it. `custom_environment.toml` trains the two with one shared policy.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from mars_env import ask, game
from mars_env.agents import Solver
from mars_env.agents.roles import RoleAgent
from mars_env.envs import Play
from mars_env.envs.rewards import judged_turn, outcome
from mars_env.models import HTTPModel
from mars_env.types import Agent, Model, Problem, Sampling, Turn, role_of

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


def parse_probability(text: str) -> dict[str, float | None]:
    """What an Assessor's turn records."""
    return {"probability": stated_probability(text)}


AGENTS: Mapping[str, type[RoleAgent]] = {"solver": Solver, "assessor": Assessor}


REWARDS = {"solver": outcome, "assessor": brier}


@game(max_turns=2, roles=AGENTS, fields={"solver": ["problem"]}, rewards=REWARDS)
def assessed(problem: Problem) -> Play:
    """One solution, then one assessment of it; the solution is the team's answer."""
    solution = yield ask("solver", problem=problem.statement)
    seen: dict[str, Any] = {"problem": problem.statement, "solution": solution.text}
    yield ask("assessor", **seen, graded=False, parse=parse_probability)
    return solution


def team(model: Model, names: Sequence[str], sampling: Sampling | None = None) -> Mapping[str, Agent]:
    """The agents by name, for ``team.agents = "calibration:team"``; one model plays them all."""
    return {name: AGENTS[role_of(name)](model, sampling=sampling) for name in names}


def served(role: str) -> Agent:
    """The same agents on a vLLM server, for `mars-env evaluate --agents calibration:served`.

    The environment variables SERVER and MODEL name the server (``http://127.0.0.1:8000/v1``) and its model.
    """
    return AGENTS[role](HTTPModel(os.environ["SERVER"], os.environ["MODEL"]))
