"""Graders of a search: each judges without the problem's secrets (see `mars_env.envs.visibility`)."""

from dataclasses import dataclass
from functools import cache
from typing import Literal

from mars_env.envs.selection import answer_key, rated
from mars_env.envs.verdicts import bug_report, read_judgement
from mars_env.errors import ModelError
from mars_env.seeds import derive_seed
from mars_env.types import Agent, Grade, Grader, Problem, RewardModel


@cache
def public_grader(score: Literal["all", "fraction"]) -> Grader:
    """The shared grader by public tests; ``"fraction"`` scores the share of them that pass."""
    from mars_env.grading.code.grader import CodeGrader  # brings the sandbox

    return CodeGrader(tests="public", score=score)


@dataclass(frozen=True, slots=True)
class AnswerGrader:
    """Scores 0.5 for a solution with an answer and 0 for one without: nothing more is known."""

    async def grade(self, problem: Problem, text: str) -> Grade:
        """Always WRONG: nothing here can tell that an answer is right."""
        if answer_key(problem.kind, text) is None:
            return Grade.wrong("no answer was found", feedback="No final answer could be read.")
        return Grade.wrong("nothing is known of the answer", score=0.5)


@dataclass(frozen=True, slots=True)
class VerifierGrader:
    """Scores a solution by the share of an agent's verdicts that pass; its feedback is a failing report.

    The verifier sees ``{"problem", "solution", "truncated"}``, as one of MarsRL does. Its randomness follows
    from the seed and the solution: equal solutions are judged alike.
    """

    verifier: Agent
    verdicts: int = 1
    seed: int = 0

    async def grade(self, problem: Problem, text: str) -> Grade:
        """The share of passes; CORRECT if all pass, UNKNOWN if the set-up cut off every report."""
        seen: dict[str, str | int] = {"problem": problem.statement, "solution": text}
        seen["truncated"] = int(bool(problem.metadata.get("truncated")))  # see `visibility.visible_problem`
        reports = await self.verifier.act(seen, self.verdicts, derive_seed(self.seed, problem.id, text))
        if len(reports) != self.verdicts:
            raise ModelError(f"the verifier gave {len(reports)} reports where {self.verdicts} were asked for")
        tokens = sum(c.sampled_tokens for r in reports for c in r.completions)
        cut = next((report.interrupted for report in reports if report.interrupted), "")
        reports = [report for report in reports if not report.interrupted]
        if cut and not reports:
            why = f"the verifier's report was cut off: {cut}"
            return Grade.unknown(why, tokens=tokens, backend="verifier")
        passed = [read_judgement(report.text).passed for report in reports]
        if passed and all(passed):
            return Grade.correct(tokens=tokens, backend="verifier")
        failed = next((r.text for r, ok in zip(reports, passed, strict=True) if not ok), "")
        why, score = f"{sum(passed)} of {len(passed)} verdicts passed", sum(passed) / len(passed)
        return Grade.wrong(why, score=score, feedback=bug_report(failed), tokens=tokens, backend="verifier")


@dataclass(frozen=True, slots=True)
class RewardModelGrader:
    """Scores a solution by a reward model's rating, without feedback."""

    model: RewardModel
    seed: int = 0

    async def grade(self, problem: Problem, text: str) -> Grade:
        """The rating as a score; UNKNOWN if the model could not rate it."""
        seed = derive_seed(self.seed, problem.id, text)
        ratings = await rated(self.model, problem.statement, [text], seed)
        (score,), tokens = ratings.scores, ratings.tokens
        if score is None:
            return Grade.unknown("the reward model could not rate it", tokens=tokens)
        return Grade.wrong("a rating is not a proof", score=score, tokens=tokens, backend="reward model")
