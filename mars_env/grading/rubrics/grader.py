"""`RubricGrader`: judges a response by the criteria of a rubric, with any model as judge."""

import asyncio
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

from mars_env.checks import finite
from mars_env.errors import ConfigError
from mars_env.grading.rubrics.aggregators import Aggregator, WeightedSum
from mars_env.grading.rubrics.checks import CHECKS, Check
from mars_env.grading.rubrics.judging import SYSTEM, TEMPLATE, judge_messages, read_verdict
from mars_env.grading.rubrics.rubric import Criterion, Rubric
from mars_env.grading.thinking import after_thinking
from mars_env.seeds import derive_seed
from mars_env.sync import Gate, maybe_await
from mars_env.text import brief, describe_error
from mars_env.types import INTERRUPTIONS, Grade, Model, Problem, Prompt, Sampling

VOTES = "votes"
"""Key of a grade's details: by criterion, the fraction that each repeat gave, None where it gave none."""
FRACTIONS = "fractions"
"""Key of a grade's details: by criterion, the verdict of all repeats together; None is UNKNOWN."""


@dataclass(frozen=True, slots=True)
class _Vote:
    """One judgement of one criterion: a fraction or None, its tokens, and why it failed."""

    fraction: float | None
    tokens: int = 0
    why: str = ""


@dataclass(frozen=True, slots=True)
class _Judged:
    """All votes on one criterion, tokens spent beside them, and whether only the response made them fail."""

    criterion: Criterion
    votes: Sequence[_Vote]
    more_tokens: int = 0
    control_works: bool = False

    @property
    def fraction(self) -> float | None:
        return _decided(self.votes, bool(self.criterion.tiers))

    @property
    def tokens(self) -> int:
        return self.more_tokens + sum(vote.tokens for vote in self.votes)

    @property
    def why(self) -> str:
        return next((vote.why for vote in self.votes if vote.why), "the repeats have no majority")


@dataclass(frozen=True, eq=False)
class RubricGrader:
    r"""Judges a response by a rubric: one question to the judge for each criterion and repeat.

    docs/rubrics.md says how. A judge that gives no readable verdict is asked about an empty response: if it
    fails on that, too, the criterion is UNKNOWN, and with it the grade; else the response gets the worst
    verdicts. The score is the aggregate's value, cut to [0, 1] (`mars_env.envs.rubric_rewards.RubricReward`
    gives the value itself); the verdict is CORRECT if the value is at least `passes_at`.

    Attributes:
        judge: Answers the questions; None if all criteria are decided by checks.
        rubric: For all problems; None: each problem has its own.
        tags: Only criteria with one of these tags are judged (those of a stage); empty: all.
        repeats: Judgements of each criterion, an odd number.
        tries: Requests for one judgement, as long as the answers cannot be read.
        timeout: Seconds that one request may take, without the wait for a judge with a `capacity`.
        passes_at: The least value that is CORRECT.
        checks: Programs by name, in addition to `mars_env.grading.rubrics.checks.CHECKS`.
        most_characters: A longer response gets the worst verdicts without being judged, as does one whose
            thinking is not closed.
        seed: With the texts, the only source of randomness: equal responses are judged alike.
        evaluation_judge: Judges in evaluations in place of `judge`; training may have learned to please that.

    Example:
        >>> from mars_env.models.scripted import ScriptedModel
        >>> from mars_env.sync import run_sync
        >>> rubric = Rubric.from_rows([{"text": "It is short.", "points": 1},
        ...                            {"text": "It says 4.", "points": 3, "check": {"contains": "4"}}])
        >>> grader = RubricGrader(ScriptedModel(['{"explanation": "It rambles.", "met": false}']), rubric)
        >>> grade = run_sync(grader.grade(Problem("p", "2 + 2?", None, "open"), "Well, it is 4."))
        >>> grade.score, grade.details["fractions"]
        (0.75, {'c1': 0.0, 'c2': 1.0})
    """

    judge: Model | None = None
    rubric: Rubric | None = None
    aggregate: Aggregator = field(default_factory=WeightedSum)
    tags: tuple[str, ...] = ()
    repeats: int = 1
    tries: int = 3
    timeout: float = 300.0
    passes_at: float = 1.0
    checks: Mapping[str, Check] = field(default_factory=dict)
    sampling: Sampling = field(default_factory=lambda: Sampling(max_tokens=1024))
    most_characters: int = 100_000
    seed: int = 0
    evaluation_judge: Model | None = None

    def __post_init__(self) -> None:
        tags: object = self.tags  # a user may give anything
        if isinstance(tags, str):
            raise ConfigError(f"tags are several names, such as ({tags!r},), not one string")
        if self.rubric is not None and not isinstance(self.rubric, Rubric):
            raise ConfigError(f"rubric is a Rubric (Rubric.from_rows reads rows), not {brief(self.rubric)}")
        if not isinstance(self.repeats, int) or self.repeats < 1 or self.repeats % 2 == 0:
            raise ConfigError(f"repeats must be an odd number, so that they can decide, got {self.repeats}")
        if self.tries < 1 or not self.timeout > 0 or self.most_characters < 1:
            settings = f"{self.tries}, {self.most_characters} and {self.timeout:g}"
            raise ConfigError(f"tries and most_characters are at least 1 and timeout above 0, got {settings}")

    @property
    def name(self) -> str:
        """Its name in stored runs, with that of the judge."""
        return f"rubric by {_name(self.judge)}"

    def identity(self) -> dict[str, Any]:
        """What identifies it: what judges are asked, and all fields but the time limit of a request."""
        names = [setting.name for setting in fields(self) if setting.name != "timeout"]
        return {"system": SYSTEM, "template": TEMPLATE, **{name: getattr(self, name) for name in names}}

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of a report must know."""
        return (f"Answers were judged as a {self.name}; a judge can be wrong, and a policy can learn how",)

    def for_evaluation(self) -> "RubricGrader":
        """The grader of an evaluation: with the other judge, if there is one."""
        if self.evaluation_judge is None:
            return self
        return replace(self, judge=self.evaluation_judge, evaluation_judge=None)

    async def grade(self, problem: Problem, text: str) -> Grade:
        """Judge all criteria; a problem without a rubric is UNKNOWN."""
        began = time.perf_counter()
        try:
            rubric = self._rubric_of(problem)
        except ConfigError as error:
            return Grade.unknown(str(error), backend=self.name)
        answer = after_thinking(text)
        worst = {c.id: float(c.points < 0) for c in rubric.criteria}
        if answer is None or len(answer) > self.most_characters:
            return self._graded(rubric, worst, {}, backend="thinking" if answer is None else "length")
        judged = await asyncio.gather(*(self._judged(c, problem, answer) for c in rubric.criteria))
        by_id = {c.id: each for c, each in zip(rubric.criteria, judged, strict=True)}
        stored = {id: [vote.fraction for vote in each.votes] for id, each in by_id.items()}
        tokens = sum(each.tokens for each in judged)
        spent = {"seconds": time.perf_counter() - began, "backend": self.name, "tokens": tokens}
        if any(each.control_works for each in judged):
            return self._graded(rubric, worst, stored, **spent)
        fractions = {id: each.fraction for id, each in by_id.items()}
        decided = {id: fraction for id, fraction in fractions.items() if fraction is not None}
        if len(decided) == len(fractions):
            return self._graded(rubric, decided, stored, **spent)
        why = next(each.why for each in judged if each.fraction is None)
        reason = f"{len(fractions) - len(decided)} of {len(fractions)} criteria are UNKNOWN: {why}"
        return Grade.unknown(reason, details={FRACTIONS: fractions, VOTES: stored}, **spent)

    async def require_room(self, problems: Sequence[Problem], tokens: int) -> None:
        """Raise a `ConfigError` if a judge's context is known, and cannot hold responses of so many tokens.

        Without a tokenizer, only the response and the judge's own limit are counted, not the question.
        """
        questions = [
            judge_messages(criterion, problem, "")
            for problem in problems
            if self.rubric or Rubric.of(problem)
            for criterion in self._rubric_of(problem).criteria
            if not criterion.check
        ]
        response = min(tokens, self.most_characters)  # a token has a character or more
        for judge in filter(None, (self.judge, self.evaluation_judge)):
            await _require_room(judge, questions, response, self.sampling.max_tokens)

    def _graded(
        self, rubric: Rubric, fractions: Mapping[str, float], votes: Mapping[str, Any], **spent: Any
    ) -> Grade:
        try:
            value = finite(self.aggregate(rubric, fractions))
        except Exception as error:  # a user's aggregator may raise anything
            return Grade.unknown(f"the aggregator failed: {describe_error(error)}", **spent)
        details = {"value": value, FRACTIONS: dict(fractions), VOTES: dict(votes)}
        score = min(1.0, max(0.0, value))
        if value >= self.passes_at:
            return replace(Grade.correct(details=details, **spent), score=score)
        failed = sum((fractions[c.id] < 1) == (c.points > 0) for c in rubric.criteria)
        reason = f"the value is {value:.3g}: {failed} of {len(rubric.criteria)} criteria failed"
        return Grade.wrong(reason, score=score, details=details, **spent)

    def _rubric_of(self, problem: Problem) -> Rubric:
        rubric = self.rubric or Rubric.of(problem)
        if rubric is None:
            raise ConfigError(f"problem {problem.id!r} has no rubric: give it one, or give the grader one")
        return rubric.tagged(self.tags) if self.tags else rubric

    async def _judged(self, criterion: Criterion, problem: Problem, text: str) -> "_Judged":
        """The verdict on a criterion; without one also whether the judge works on an empty response."""
        first = _Judged(criterion, await self._votes(criterion, problem, text))
        if first.fraction is not None:
            return first
        control = _Judged(criterion, await self._votes(criterion, problem, ""))
        tokens = first.tokens + control.tokens
        if control.fraction is None:
            return replace(first, more_tokens=control.tokens)
        again = _Judged(criterion, await self._votes(criterion, problem, text, self.repeats), tokens)
        return replace(again, control_works=again.fraction is None)

    async def _votes(
        self, criterion: Criterion, problem: Problem, text: str, first: int = 0
    ) -> Sequence[_Vote]:
        """The votes of all repeats, which are numbered from `first`, so that others are drawn."""
        if criterion.check:
            return [await self._checked(criterion, problem, text)]
        if self.judge is None:
            return [_Vote(None, why="no judge is given")]
        repeats = range(first, first + self.repeats)
        asking = (self._vote(self.judge, criterion, problem, text, repeat) for repeat in repeats)
        return await asyncio.gather(*asking)

    @cached_property
    def _gate(self) -> Gate:
        """Admits as many requests as the judge can work on, if it says how many."""
        capacity = getattr(self.judge, "capacity", None)
        return Gate(capacity if isinstance(capacity, int) and capacity > 0 else sys.maxsize)

    async def _checked(self, criterion: Criterion, problem: Problem, text: str) -> _Vote:
        check = self.checks.get(criterion.check) or CHECKS.get(criterion.check)
        if check is None:
            return _Vote(None, why=f"no check is called {criterion.check!r}")
        try:
            async with asyncio.timeout(self.timeout):
                value = await maybe_await(check(problem, text, criterion.value))
            return _Vote(value if value is None else _fraction(value), why="the check found nothing")
        except Exception as error:  # a user's check may raise anything
            return _Vote(None, why=f"the check failed: {describe_error(error)}")

    async def _vote(
        self, judge: Model, criterion: Criterion, problem: Problem, text: str, repeat: int
    ) -> _Vote:
        messages, tokens, why = judge_messages(criterion, problem, text), 0, ""
        for attempt in range(self.tries):
            seed = derive_seed(self.seed, problem.id, text, criterion.text, repeat, attempt)
            try:
                async with self._gate.semaphore(), asyncio.timeout(self.timeout):
                    [completion] = await judge.complete(messages, 1, replace(self.sampling, seed=seed))
            except Exception as error:  # a model has retried already; a user's may raise anything
                late = isinstance(error, TimeoutError)
                why = f"no answer within {self.timeout:g} s" if late else describe_error(error)
                return _Vote(None, tokens, f"the judge failed: {why}")
            tokens += completion.sampled_tokens
            fraction = None
            if completion.finish_reason not in INTERRUPTIONS and isinstance(completion.text, str):
                fraction = read_verdict(criterion, completion.text)
            if fraction is not None:
                return _Vote(fraction, tokens)
        return _Vote(None, tokens, f"no readable verdict in {self.tries} answers")


async def _require_room(judge: Any, questions: Sequence[Prompt], response: int, limit: int) -> None:
    if hasattr(judge, "learn_context"):
        await judge.learn_context()
    context, encode = getattr(judge, "context", None), getattr(judge, "encode", None)
    if not isinstance(context, int) or not questions:
        return
    question = max(len(encode(each)) for each in questions) if encode is not None else 0
    if question + response + limit > context:
        raise ConfigError(
            f"the judge {_name(judge)} reads a question of {question} tokens and a response of up to "
            f"{response}, and may write {limit}, where its context holds {context}: raise the context, or "
            "lower most_characters or the agents' max_tokens"
        )


def _decided(votes: Sequence[_Vote], tiers: bool) -> float | None:
    """The verdict of more than half of the repeats; for tiers, the median if so many are known."""
    levels = sorted(vote.fraction for vote in votes if vote.fraction is not None)
    if not tiers:
        return next((one for one in levels if 2 * levels.count(one) > len(votes)), None)
    if 2 * len(levels) <= len(votes):
        return None
    low, high = statistics.median_low(levels), statistics.median_high(levels)
    return low if low == high else None


def _fraction(value: float | bool) -> float:
    fraction = finite(value)
    if not 0 <= fraction <= 1:
        raise ValueError(f"a fraction is in [0, 1], got {fraction}")
    return fraction


def _name(judge: Model | None) -> str:
    return "checks" if judge is None else str(getattr(judge, "name", "") or type(judge).__name__)
