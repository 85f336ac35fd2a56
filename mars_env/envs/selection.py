"""The final choice of a search: which of the nodes with the highest search score is the team's answer."""

import asyncio
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from mars_env.checks import finite, valid_count
from mars_env.errors import ConfigError, ModelError, SandboxError, explained
from mars_env.grading.code.extract import asked_names, extract_program
from mars_env.grading.math.extract import extract_answer
from mars_env.grading.math.parser import read_integer
from mars_env.sync import awaitable
from mars_env.text import brief
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
        """One of the candidates, at least one, in the order of asking; of a problem without its reference."""


def candidates(turns: Sequence[Turn]) -> list[Turn]:
    """The turns with the highest search score, in the order of asking; those without a score are none."""
    scores = [turn.search_score for turn in turns if turn.search_score is not None]
    top = max(scores, default=1.0)
    best = [turn for turn in turns if turn.search_score == top]
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

    Example:
        >>> from mars_env.sync import run_sync
        >>> from mars_env.types import Action
        >>> said = [r"\boxed{5}", r"so \boxed{04}", r"\boxed{4}"]
        >>> turns = [Turn("p#0", str(i), None, "", "a_0", "", "p", Action(t)) for i, t in enumerate(said)]
        >>> run_sync(Vote().choose(Problem("p", "2 + 2?", None), turns, seed=0)).turn
        '1'
    """

    async def choose(self, problem: Problem, candidates: Sequence[Turn], seed: int) -> Choice:
        """The first candidate that gives the most frequent answer; without any answer, the first."""
        texts = [turn.text for turn in candidates]
        names = asked_names(problem.reference)
        programs = [answer_key("code", text, *names) for text in texts] if problem.kind == "code" else []
        cast = await cast_votes(problem, texts)
        ranked = _most_frequent(range(len(cast)), cast)
        if ranked and programs:
            ranked = _most_frequent(ranked, programs) or ranked
        return Choice(candidates[ranked[0] if ranked else 0].id)


def _most_frequent(indices: Sequence[int], votes: Sequence[Hashable | None]) -> list[int]:
    """Those of some indices whose vote is the most frequent among them, the first seen of equals."""
    counts = Counter(votes[i] for i in indices if votes[i] is not None).most_common(1)
    return [i for i in indices if counts and votes[i] == counts[0][0]]


async def cast_votes(problem: Problem, texts: Sequence[str]) -> list[Hashable | None]:
    """What solutions of a problem vote for: see `Vote`. A ModelError if programs could not be run."""
    if problem.kind not in VOTED:
        raise ConfigError(f"problems of the kind {brief(problem.kind)} have no answers to count in a vote")
    from mars_env.grading import grader_for  # brings the sandbox
    from mars_env.grading.code.grader import CodeGrader, has_inputs

    grader = grader_for(problem.kind)
    if not (isinstance(grader, CodeGrader) and has_inputs(problem)):
        names = asked_names(problem.reference)
        return [answer_key(problem.kind, text, *names) for text in texts]
    distinct = list(dict.fromkeys(texts))
    with explained(ModelError, "the programs could not be run for a vote", SandboxError):
        outputs = await asyncio.gather(*(grader.outputs(problem, text) for text in distinct))
    votes = dict(zip(distinct, outputs, strict=True))
    return [votes[text] for text in texts]


@dataclass(frozen=True, slots=True)
class Highest:
    """The candidate that a reward model rates highest, the earliest of equals (MARS2-T+)."""

    model: RewardModel

    async def choose(self, problem: Problem, candidates: Sequence[Turn], seed: int) -> Choice:
        """The candidate with the highest rating; one that could not be rated comes last."""
        if len(candidates) == 1:
            return Choice(candidates[0].id)
        texts = list(dict.fromkeys(turn.text for turn in candidates))
        ratings = await rated(self.model, problem.statement, texts, seed)
        scores = dict(zip(texts, ratings.scores, strict=True))
        best = max(candidates, key=lambda turn: -1.0 if (s := scores[turn.text]) is None else s)
        return Choice(best.id, ratings.tokens)


async def rated(model: RewardModel, statement: str, texts: Sequence[str], seed: int) -> Ratings:
    """Ask a reward model, and check its answer; a ModelError if that does not fit the protocol."""
    answer = model.rate(statement, texts, seed)  # a user's may return anything
    ratings: Any = await awaitable(answer, f"{type(model).__name__}.rate()")
    if not isinstance(ratings, Ratings):
        raise ModelError(f"a reward model gives Ratings, but gave {brief(ratings)}")
    if len(ratings.scores) != len(texts):
        raise ModelError(f"the reward model gave {len(ratings.scores)} ratings of {len(texts)} texts")
    with explained(ModelError, "a reward model rates in [0, 1] and counts its tokens", ValueError):
        scores = tuple(None if score is None else finite(score) for score in ratings.scores)
        tokens = valid_count(ratings.tokens)
    if outside := [score for score in scores if score is not None and not 0.0 <= score <= 1.0]:
        raise ModelError(f"a reward model rates in [0, 1], but gave {outside[0]!r}")
    return Ratings(scores, tokens)


def answer_key(kind: str, text: str, *names: str) -> Hashable | None:
    r"""What a solution votes for; None where it holds no answer.

    Integers vote as numbers, other answers as texts without white space, programs line by line. The names
    that its tests ask for help to find a program among several blocks.

    Example:
        >>> answer_key("math", r"\boxed{025}"), answer_key("math", "I do not know, sorry.")
        (25, None)
    """
    if kind == "code":
        program, _ = extract_program(text, *names)
        lines = [line.rstrip() for line in (program or "").splitlines()]
        return "\n".join(line for line in lines if line) or None
    answer = extract_answer(text).answer
    if answer is None:
        return None
    number = read_integer(answer)
    return "".join(answer.split()) or None if number is None else number
