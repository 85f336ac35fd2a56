"""SPELL's rewards: all three roles are rewarded by the whole tree of a question (arXiv 2509.23863)."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from mars_env.errors import ConfigError
from mars_env.evaluation.trees import children_of, is_right
from mars_env.methods.spell.answers import read_answer
from mars_env.methods.spell.rules import Vote
from mars_env.text import brief, choices
from mars_env.types import Tree, Turn


def majority_vote(votes: Sequence[Vote]) -> bool | None:
    """Whether more than half of all votes say yes; None if the unknown votes could change the result.

    SPELL: ``v_i = 1[sum_j v_ij > G / 2]``. In its release an unreadable output is a third vote, and can win.

    Example:
        >>> majority_vote(["yes", "yes", "no"]), majority_vote(["yes", "no"])
        (True, False)
        >>> majority_vote(["yes", "yes", "unknown"]), majority_vote(["yes", "no", "unknown"])
        (True, None)
    """
    half = len(votes) / 2
    if votes.count("yes") > half:
        return True
    return False if votes and votes.count("no") >= half else None


def gaussian(solved: float) -> float:
    """``exp(-(m - 0.5)^2 / (2 s^2))``, m being the solved share and s = 0.5 / 3 (SPELL)."""
    return math.exp(-((solved - 0.5) ** 2) / (2 * (0.5 / 3) ** 2))


DIFFICULTY: Final[Mapping[str, Callable[[float], float]]] = MappingProxyType(
    {
        "gaussian": gaussian,
        "unsolved": lambda solved: 1 - solved,
        "tent": lambda solved: 1 - 2 * abs(solved - 0.5),
    }
)
"""From the solved share to the Questioner's reward, for shares between 0 and 1: SPELL's; ``1 - m``, as in
Absolute Zero; ``1 - 2 |m - 0.5|``, as in R-Zero. At 0 and 1 the reward is 0."""


@dataclass(frozen=True, slots=True)
class QuestionOutcome:
    """What became of one question.

    Attributes:
        turn: The Questioner's turn.
        kind: ``malformed``; ``long`` (dropped); ``ungrounded`` (answered from another cluster's documents);
            ``unknown`` (the machinery failed, or too few answers could be judged); ``unsolved``; ``all``
            (solved by all answers); ``some``.
        solved: The mean reward of the answers.
        answers: The Responder's turns on its own documents, each with its reward and the majority.
    """

    turn: Turn
    kind: str
    solved: float | None = None
    answers: tuple[tuple[Turn, float | None, bool | None], ...] = ()


def outcomes(tree: Tree) -> list[QuestionOutcome]:
    """What became of the questions of a tree, in the order of their ids.

    An answer is worth ``max(rule, majority)``: the rule is its grade. It is unknown where neither is 1 and
    one of them is unknown. Without a short answer there is no vote, and it is worth 0. A question's solved
    share is unknown if more than half of its answers are.
    """
    below = children_of(tree)
    return [_outcome(turn, below, bool(tree.fault)) for turn in below.get(None, ())]


def _outcome(question: Turn, below: Mapping[str | None, Sequence[Turn]], lost: bool) -> QuestionOutcome:
    if lost or question.action.interrupted:
        return QuestionOutcome(question, "unknown")
    if question.info["fault"]:
        return QuestionOutcome(question, question.info["fault"])
    answers = below.get(question.id, ())
    if answers and answers[0].info["probe"]:
        rule = is_right(answers[0])
        if rule is not False:
            return QuestionOutcome(question, "unknown" if rule is None else "ungrounded")
        answers = below.get(answers[0].id, ())
    judged = []
    for answer in answers:
        votes = votes_of(below.get(answer.id, ()))
        vote = majority_vote(votes) if read_answer(answer.action.text) else False
        judged.append((answer, _value(is_right(answer), vote), vote))
    values = [value for _, value, _ in judged if value is not None]
    if 2 * len(values) < max(1, len(judged)):
        return QuestionOutcome(question, "unknown", None, tuple(judged))
    solved = sum(values) / len(values)
    kind = "unsolved" if solved == 0 else "all" if solved == 1 else "some"
    return QuestionOutcome(question, kind, solved, tuple(judged))


def votes_of(turns: Sequence[Turn]) -> list[Vote]:
    """The votes of some Verifiers; one that the set-up has cut off is unknown."""
    return ["unknown" if turn.action.interrupted else turn.info["vote"] for turn in turns]


def _value(rule: bool | None, vote: bool | None) -> float | None:
    """``max(rule, majority)``, as far as it is known."""
    if rule or vote:
        return 1.0
    return None if rule is None or vote is None else 0.0


@dataclass(frozen=True)
class SpellReward:
    """The rewards of a tree: a team reward (`mars_env.envs.Game.team_reward`).

    - Verifier: 1 if its vote is the majority's, else 0; unknown where there is no majority; 0 if unreadable.
    - Responder: ``max(rule, majority)``. From another cluster's documents: none, it is not trained.
    - Questioner: `DIFFICULTY` of the solved share, 0 where none or all solve it, and where it is answered
      from another cluster's documents; -1 if malformed; none where the reference was too long.
    """

    difficulty: str = "gaussian"
    malformed: float = -1.0

    def __post_init__(self) -> None:
        if self.difficulty not in DIFFICULTY:
            there = choices(self.difficulty, DIFFICULTY)
            raise ConfigError(f"there is no difficulty {brief(self.difficulty)}; there are {there}")

    def __call__(self, tree: Tree) -> dict[str, float | None]:
        """The rewards of all turns, by turn id."""
        rewards: dict[str, float | None] = {turn.id: None for turn in tree.turns}
        below = children_of(tree)
        for outcome in outcomes(tree):
            rewards[outcome.turn.id] = self.of_question(outcome)
            for answer, value, vote in outcome.answers:
                rewards[answer.id] = value
                rewards |= {turn.id: _agreement(turn, vote) for turn in below.get(answer.id, ())}
        return rewards

    def of_question(self, outcome: QuestionOutcome) -> float | None:
        """The Questioner's reward; None where the outcome is unknown, or the question was dropped."""
        if outcome.kind == "some":
            assert outcome.solved is not None
            return DIFFICULTY[self.difficulty](outcome.solved)
        others = {"malformed": self.malformed, "ungrounded": 0.0, "unsolved": 0.0, "all": 0.0}
        return others.get(outcome.kind)


def _agreement(turn: Turn, vote: bool | None) -> float | None:
    if turn.action.interrupted:
        return None
    if turn.info["vote"] == "unknown":
        return 0.0
    return None if vote is None else float((turn.info["vote"] == "yes") == vote)


EPISODE_REWARD = SpellReward()
"""The team reward of the rules by their name, which play an episode: one question, one answer, one vote."""
