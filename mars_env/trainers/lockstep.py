"""Grading that keeps synchronous training reproducible. No torch in here."""

from __future__ import annotations

from dataclasses import dataclass, replace

from mars_env.envs import Game
from mars_env.models.batching import hold_waves
from mars_env.types import Grade, Grader, Problem


@dataclass(frozen=True, slots=True)
class LockstepGrader:
    """A grader whose duration has no effect: models in this process batch in the same way in every run.

    Graders run in processes of their own and do not always take the same time. Without lockstep, grading
    times would decide which requests share a batch, and so the last bits of their log-probabilities.
    """

    grader: Grader

    async def grade(self, problem: Problem, text: str) -> Grade:
        """The grade, when all gradings that started with it have ended."""
        async with hold_waves():
            return await self.grader.grade(problem, text)


def graded_in_lockstep(game: Game) -> Game:
    """The same game with a `LockstepGrader`: on a CPU its rollouts are then bitwise the same in every run."""
    visibility = game.visibility
    if visibility is not None and visibility.grader is not None:
        visibility = replace(visibility, grader=LockstepGrader(visibility.grader))
    return replace(game, grader=LockstepGrader(game.grader), visibility=visibility)
