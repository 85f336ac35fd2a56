"""A single agent: it solves, and may then revise its own solution (sequential self-refinement)."""

from pydantic import NonNegativeInt

from mars_env.envs.game_function import game
from mars_env.envs.rules import Play, ask
from mars_env.types import Problem

SOLVER = {"solver": "mars_env.agents:Solver"}


@game(max_turns=1, roles=SOLVER, fields={"solver": ["problem"]})
def solve(problem: Problem) -> Play:
    """The Solver writes a solution."""
    return (yield ask("solver", problem=problem.statement))


@game(
    max_turns=lambda settings: 1 + settings.revisions,
    roles=SOLVER,
    fields={"solver": ["problem", "solution", "truncated"]},
)
def self_refine(problem: Problem, *, revisions: NonNegativeInt = 1) -> Play:
    """The Solver writes a solution, then revises its own last one; the last one counts."""
    last = yield ask("solver", problem=problem.statement)
    for _ in range(revisions):
        last = yield ask("solver", problem=problem.statement, solution=last.text, truncated=last.truncated)
    return last
