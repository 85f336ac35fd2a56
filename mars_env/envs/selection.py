"""The final choice of a search: which of its best nodes is the team's answer.

A choice sees the statement and the candidates' texts, but no grades, references or private tests. The
candidates are the nodes with the highest search score: those that pass the public tests, if any do.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from mars_env.checks import finite, valid_count
from mars_env.errors import ConfigError, ModelError, SandboxError
from mars_env.grading.code.extract import extract_program
from mars_env.grading.math.extract import extract_answer
from mars_env.grading.math.parser import read_integer
from mars_env.sync import awaitable
from mars_env.text import shown
from mars_env.types import Problem, Ratings, RewardModel, Turn

VOTED = ("math", "code")
"""The kinds of problems whose answers can be counted in a vote."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Which turn is the answer, None if none is; and the tokens that choosing took."""

    turn: str | None
    tokens: int = 0


class Selection(Protocol):
    """Makes the final choice of a search."""

    async def choose(self, problem: Problem, candidates: Sequence[Turn], seed: int) -> Choice:
        """Choose one of the candidates, of which there is at least one.

        Args:
            problem: Without its reference.
            candidates: In the order in which the search asked for them.
            seed: The only source of randomness.
        """
        ...


def candidates(turns: Sequence[Turn]) -> list[Turn]:
    """The turns with the highest search score, in the order of asking; those without a score are none.

    Example:
        >>> from mars_env.types import Action
        >>> def turn(i, score):
        ...     note = {"call": i}
        ...     return Turn("p#0", str(i), None, "", "a_0", "", "p", Action(""), None, score, None, note)
        >>> [each.id for each in candidates([turn(2, 0.5), turn(1, 0.5), turn(0, None), turn(3, 0.0)])]
        ['1', '2']
    """
    known = [turn for turn in turns if turn.search_score is not None]
    top = max((turn.search_score or 0.0 for turn in known), default=0.0)
    best = [turn for turn in known if turn.search_score == top]
    return sorted(best, key=lambda turn: int(turn.info.get("call", 0)))


@dataclass(frozen=True, slots=True)
class First:
    """The candidate that was asked for first."""

    async def choose(self, problem: Problem, candidates: Sequence[Turn], seed: int) -> Choice:
        """The first one."""
        return Choice(candidates[0].id)


@dataclass(frozen=True, slots=True)
class Vote:
    r"""The answer that most candidates give, the earliest of equals.

    Mathematics votes by the final answer. Programs vote by their outputs on the inputs of the public tests;
    among programs with the same outputs, and where the problem shows no inputs, by their text with white
    space normalized. Candidates without an answer, or whose program fails, have no vote.

    Attributes:
        by_text: Compare programs by their text only, and run none.

    Example:
        >>> from mars_env.sync import run_sync
        >>> from mars_env.types import Action
        >>> said = [r"\boxed{5}", r"so \boxed{04}", r"\boxed{4}"]
        >>> turns = [Turn("p#0", str(i), None, "", "a_0", "", "p", Action(t)) for i, t in enumerate(said)]
        >>> run_sync(Vote().choose(Problem("p", "2 + 2?", None), turns, seed=0)).turn
        '1'
    """

    by_text: bool = False

    async def choose(self, problem: Problem, candidates: Sequence[Turn], seed: int) -> Choice:
        """The first candidate that gives the most frequent answer; without any answer, the first.

        Raises:
            ModelError: The programs could not be run. The tree has a fault; a resumed run plays it again.
        """
        texts = [turn.text for turn in candidates]
        by_text = self.by_text and problem.kind == "code"
        votes = [answer_key("code", t) for t in texts] if by_text else await answers(problem, texts)
        ranked = _most_frequent(range(len(votes)), votes)
        if ranked and problem.kind == "code":
            ranked = _most_frequent(ranked, [answer_key("code", text) for text in texts]) or ranked
        return Choice(candidates[ranked[0] if ranked else 0].id)


def _most_frequent(places: Sequence[int], votes: Sequence[Hashable | None]) -> list[int]:
    """Those of some places whose vote is the most frequent among them, the first seen of equals."""
    counts = Counter(votes[place] for place in places if votes[place] is not None)
    if not counts:
        return []
    winner = max(counts, key=lambda vote: counts[vote])  # counters keep the order of first sight
    return [place for place in places if votes[place] == winner]


async def answers(problem: Problem, texts: Sequence[str]) -> list[Hashable | None]:
    """What solutions of a problem vote for: see `Vote`.

    Raises:
        ModelError: The programs could not be run.
        ConfigError: Problems of this kind have no answer that could be equal to another.
    """
    if problem.kind not in VOTED:
        raise ConfigError(f"problems of the kind {shown(problem.kind)} have no answers to count in a vote")
    from mars_env.grading import grader_for  # brings the sandbox
    from mars_env.grading.code.grader import CodeGrader, has_inputs

    grader = grader_for(problem.kind)
    if not (isinstance(grader, CodeGrader) and has_inputs(problem)):
        return [answer_key(problem.kind, text, problem.statement) for text in texts]
    distinct = list(dict.fromkeys(texts))
    try:
        outputs = await asyncio.gather(*(grader.outputs(problem, text) for text in distinct))
    except SandboxError as error:
        raise ModelError(f"the programs could not be run for a vote: {error}") from error
    votes = dict(zip(distinct, outputs, strict=True))
    return [votes[text] for text in texts]


@dataclass(frozen=True, slots=True)
class Highest:
    """The candidate that a reward model rates highest, the earliest of equals (MARS2-T+).

    Attributes:
        model: The reward model; equal texts are rated once.
    """

    model: RewardModel

    async def choose(self, problem: Problem, candidates: Sequence[Turn], seed: int) -> Choice:
        """The candidate with the highest rating; one that could not be rated comes last.

        Raises:
            ModelError: The reward model failed, or gave another number of ratings than there are texts.
        """
        if len(candidates) == 1:
            return Choice(candidates[0].id)
        texts = list(dict.fromkeys(turn.text for turn in candidates))
        ratings = await rated(self.model, problem.statement, texts, seed)
        scores = dict(zip(texts, ratings.scores, strict=True))
        best = max(candidates, key=lambda turn: _or_lowest(scores[turn.text]))
        return Choice(best.id, ratings.tokens)


async def rated(model: RewardModel, statement: str, texts: Sequence[str], seed: int) -> Ratings:
    """Ask a reward model, and check its answer.

    Raises:
        ModelError: It failed, or its answer does not fit the protocol.
    """
    asked = model.rate(statement, texts, seed)  # a user's may return anything
    ratings: Any = await awaitable(asked, f"{type(model).__name__}.rate()")
    if not isinstance(ratings, Ratings):
        raise ModelError(f"a reward model gives Ratings, but gave {shown(ratings)}")
    if len(ratings.scores) != len(texts):
        raise ModelError(f"the reward model gave {len(ratings.scores)} ratings of {len(texts)} texts")
    try:
        scores = tuple(None if score is None else finite(score) for score in ratings.scores)
        tokens = valid_count(ratings.tokens)
    except ValueError as error:
        raise ModelError(f"a reward model rates in [0, 1] and counts its tokens: {error}") from error
    if outside := [score for score in scores if score is not None and not 0.0 <= score <= 1.0]:
        raise ModelError(f"a reward model rates in [0, 1], but gave {outside[0]!r}")
    return Ratings(scores, tokens)


def answer_key(kind: str, text: str, statement: str = "") -> Hashable | None:
    r"""What a solution votes for; None where it holds no answer.

    Integers vote as numbers, other answers as texts without white space, programs line by line. The problem's
    statement helps to find an answer without a box (`mars_env.grading.math.extract`).

    Example:
        >>> answer_key("math", r"\boxed{025}"), answer_key("math", "I do not know, sorry.")
        (25, None)
        >>> answer_key("code", "```python\nprint( 1 )\n```") == answer_key("code", "print( 1 )  \n\n")
        True
    """
    if kind == "code":
        program, _ = extract_program(text)
        lines = [line.rstrip() for line in (program or "").splitlines()]
        return "\n".join(line for line in lines if line) or None
    answer = extract_answer(text, statement=statement).answer
    if answer is None:
        return None
    number = read_integer(answer)
    return "".join(answer.split()) or None if number is None else number


def _or_lowest(score: float | None) -> float:
    return -1.0 if score is None else score
