"""Grading that keeps synchronous training reproducible. No torch in here."""

from __future__ import annotations

from dataclasses import dataclass, replace

from mars_env.agents.batching import in_step
from mars_env.envs import Game
from mars_env.types import Grade, Grader, Problem


@dataclass(frozen=True, slots=True)
class InStep:
    """A grader whose duration decides nothing: models in this process batch alike in every run.

    Graders work in processes of their own, and take now more, now less time. Which requests share a batch
    would depend on it, and so would the last bits of their log-probabilities.
    """

    grader: Grader

    async def grade(self, problem: Problem, text: str) -> Grade:
        """The grade, once all gradings that were begun beside it have ended."""
        async with in_step():
            return await self.grader.grade(problem, text)


def graded_in_step(game: Game) -> Game:
    """The same game, graded `InStep`: what is rolled out is then bitwise the same in every run on a CPU."""
    visibility = game.visibility
    if visibility is not None and visibility.grader is not None:
        visibility = replace(visibility, grader=InStep(visibility.grader))
    return replace(game, grader=InStep(game.grader), visibility=visibility)
