"""What may be seen of a submission beside its grade: the second of a search's two scores, and feedback.

The *grade* of a node is the truth: all tests, the reference. Its *search score* is what policy,
feedback, early stop and final choice may see. In training both are one. In an evaluation the search
score comes from public tests, a verifier, a reward model, or from nothing but the answers themselves
(a vote); a search that sees the grade is an oracle, and is refused unless one asks for it.

Where nothing is searched, evidence is feedback alone: what agents may read of a submission.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Literal

from mars_env.envs.selection import First, Selection, answer_key, rated
from mars_env.envs.verdicts import bug_report, read_judgement
from mars_env.errors import ConfigError
from mars_env.seeds import derive_seed
from mars_env.types import Agent, Grade, Grader, Problem, RewardModel

Sees = Literal["grade", "public", "grader", "verifier", "reward-model", "answers"]

_NAMES: Mapping[str, str] = {
    "grade": "the grade itself",
    "public": "the public tests",
    "grader": "a grader of its own",
    "verifier": "a verifier's verdicts",
    "reward-model": "a reward model's ratings",
    "answers": "whether an answer can be read",
}


@dataclass(frozen=True, slots=True)
class Evidence:
    """Where a search's scores and feedback come from, and how it makes its final choice.

    Attributes:
        sees: What kind of evidence it is.
        grader: What gives it; None where it is the grade itself.
        selection: The final choice among the nodes with the highest search score; None where nothing is
            searched, and the evidence is feedback for agents alone.
        oracle: Whether an evaluation may see the grade.

    Example:
        >>> Evidence("answers", AnswerGrader()).shown(Problem("p", "2 + 2?", "4")).reference is None
        True
    """

    sees: Sees
    grader: Grader | None = None
    selection: Selection | None = field(default_factory=First)
    oracle: bool = False

    @property
    def searched(self) -> bool:
        """Whether it is a search that sees it."""
        return self.selection is not None

    def shown(self, problem: Problem, truncated: bool = False) -> Problem:
        """The problem as a search may know it: of its reference, the public tests alone.

        So permuting references or private tests cannot change what a search does: it never gets them. What
        is known of the submission beside its text, whether its length limit cut it off, is in the metadata.
        """
        known: dict[str, bool] = {"truncated": True} if truncated else {}
        return Problem(problem.id, problem.statement, public_reference(problem), problem.kind, known)

    def refuse_unfit(self, problems: Iterable[Problem]) -> None:
        """Refuse problems on which agents would see the truth, or have nothing to see.

        Raises:
            ConfigError: Says what to do instead.
        """
        if self.sees == "grade" and not self.oracle:
            raise ConfigError(
                "this search sees the grade of its nodes, which is right for training and no evaluation: "
                "leave out schedule='training', or ask for it with oracle=True, which the report then says"
            )
        if self.sees == "answers" and isinstance(self.selection, First):
            raise ConfigError(
                "nothing tells this search how good an answer is: give it final='vote', verifier=, "
                "reward_model= or search_grader=, or oracle=True, which the report then says"
            )
        if self.sees != "public":
            return
        bare = [problem.id for problem in problems if not public_tests(problem)]
        if bare and not self.searched:
            raise ConfigError(
                f"agents are to read what came of public tests, and {len(bare)} problems have none, such as "
                f"{bare[0]!r}: leave out public_feedback, or choose problems with public tests"
            )
        if bare:
            raise ConfigError(
                f"a search may see public tests alone, and {len(bare)} problems have none, such as "
                f"{bare[0]!r}: give it sees='verifier' or 'reward-model', or oracle=True, which the report "
                "then says"
            )

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of a report must know."""
        if self.sees == "grade":
            return ("ORACLE: the search saw the grades of its nodes; this is no result at test time",)
        if not self.searched:
            return (f"The agents read what came of {_NAMES[self.sees]}; grades only score it",)
        final = type(self.selection).__name__.lower()
        return (f"The search saw {_NAMES[self.sees]}; final choice: {final}; grades only score it",)


def public_tests(problem: Problem) -> list[Mapping[str, object]]:
    """The public tests of a code problem.

    Example:
        >>> tests = [{"input": "1", "public": True}, {"input": "2", "public": False}]
        >>> len(public_tests(Problem("p", "...", {"tests": tests}, "code")))
        1
    """
    reference = problem.reference
    tests = reference.get("tests") if problem.kind == "code" and isinstance(reference, Mapping) else None
    if not isinstance(tests, list | tuple):
        return []
    return [test for test in tests if isinstance(test, Mapping) and test.get("public")]


def public_reference(problem: Problem) -> object:
    """The part of a reference that a search may know: a code problem's public tests, else None."""
    tests = public_tests(problem)
    return {**problem.reference, "tests": tests, "solutions": []} if tests else None


@cache
def public_grader(score: Literal["all", "fraction"]) -> Grader:
    """The shared grader by public tests; ``"fraction"`` scores the share of them that pass."""
    from mars_env.grading.code.grader import CodeGrader  # brings the sandbox

    return CodeGrader(tests="public", score=score)


@dataclass(frozen=True, slots=True)
class AnswerGrader:
    """Scores 0.5 for a solution that holds an answer and 0 for one that does not: all that is known.

    Example:
        >>> from mars_env.sync import run_sync
        >>> run_sync(AnswerGrader().grade(Problem("p", "2 + 2?", None), "It is 5. The answer is 5.")).score
        0.5
    """

    async def grade(self, problem: Problem, text: str) -> Grade:
        """WRONG in any case: nothing here can tell that an answer is right."""
        if answer_key(problem.kind, text) is None:
            return Grade.wrong("no answer was found", feedback="No final answer could be read.")
        return Grade.wrong("nothing is known of the answer", score=0.5)


@dataclass(frozen=True, slots=True)
class VerifierGrader:
    r"""Scores a solution by the share of an agent's verdicts that pass; feedback is a report that failed it.

    Attributes:
        verifier: Sees ``{"problem", "solution", "truncated", "round"}``, as a Verifier of MarsRL does.
        verdicts: How many verdicts it gives on each solution.
        seed: With the solution, the only source of its randomness: equal texts are judged alike.

    Example:
        >>> from mars_env.players import FunctionAgent
        >>> from mars_env.sync import run_sync
        >>> verifier = FunctionAgent(lambda seen: "2 + 2 is 4.\nCorrectness: Wrong")
        >>> grade = run_sync(VerifierGrader(verifier, 3).grade(Problem("p", "2 + 2?", None), "5"))
        >>> grade.score, grade.feedback.splitlines()[0]
        (0.0, '2 + 2 is 4.')
    """

    verifier: Agent
    verdicts: int = 1
    seed: int = 0

    async def grade(self, problem: Problem, text: str) -> Grade:
        """The share of passes; CORRECT if all pass. UNKNOWN if the set-up has cut every report off."""
        seen: dict[str, str | int] = {"problem": problem.statement, "solution": text}
        seed = derive_seed(self.seed, problem.id, text)
        seen["truncated"] = int(bool(problem.metadata.get("truncated")))  # see `Evidence.shown`
        reports = await self.verifier.act({**seen, "round": 0}, self.verdicts, seed)
        tokens = sum(c.completion_tokens or len(c.token_ids) for r in reports for c in r.completions)
        cut = next((report.interrupted for report in reports if report.interrupted), "")
        reports = [report for report in reports if not report.interrupted]
        if cut and not reports:
            return Grade.unknown(
                f"the verifier's report was cut off: {cut}", tokens=tokens, backend="verifier"
            )
        passed = [read_judgement(report.text).passed for report in reports]
        if passed and all(passed):
            return Grade.correct(tokens=tokens, backend="verifier")
        failed = next((r.text for r, ok in zip(reports, passed, strict=True) if not ok), "")
        return Grade.wrong(
            f"{sum(passed)} of {len(passed)} verdicts passed",
            score=sum(passed) / max(1, len(passed)),
            feedback=bug_report(failed),
            tokens=tokens,
            backend="verifier",
        )


@dataclass(frozen=True, slots=True)
class RewardModelGrader:
    """Scores a solution by a reward model's rating; there is no feedback in it.

    Example:
        >>> from mars_env.types import Ratings
        >>> from mars_env.sync import run_sync
        >>> class Brief:
        ...     async def rate(self, statement, texts, seed):
        ...         return Ratings(tuple(1 / (1 + len(text)) for text in texts))
        >>> run_sync(RewardModelGrader(Brief()).grade(Problem("p", "2 + 2?", None), "4")).score
        0.5
    """

    model: RewardModel
    seed: int = 0

    async def grade(self, problem: Problem, text: str) -> Grade:
        """The rating as a score; UNKNOWN where the model could not say."""
        seed = derive_seed(self.seed, problem.id, text)
        ratings = await rated(self.model, problem.statement, [text], seed)
        (score,) = ratings.scores
        if score is None:
            return Grade.unknown("the reward model could not rate it", tokens=ratings.tokens)
        return Grade.wrong("a rating is no proof", score=score, tokens=ratings.tokens, backend="reward model")
