"""`Solution`: a team's answer to a question, how sure the team is of it, and what it cost."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mars_env.envs.selection import answer_key
from mars_env.envs.visibility import EXAMPLES, Visibility
from mars_env.evaluation.trees import judging_tokens, prompt_tokens, sampled_tokens
from mars_env.grading.code.extract import asked_names, extract_program
from mars_env.grading.math.extract import extract_answer
from mars_env.text import counted
from mars_env.types import Tree, Turn


@dataclass(frozen=True, slots=True)
class Solution:
    """A team's answer to a question. Nothing in it is graded: the right answer is unknown.

    Attributes:
        text: The whole text of the turn that is the answer.
        answer: The final answer in mathematics, the program in code; None if there is none to be read.
        confidence: The share, in [0, 1], of what speaks for the answer: of the Verifier's verdicts on it, of
            the public tests, of the nodes of a search that give the same answer. No probability: a Verifier
            may be wrong every time. None if nothing judged the answer.
        grounds: What the confidence is made of: ``"4 of 4 verdicts accept it"``.
    """

    text: str
    answer: str | None
    confidence: float | None
    grounds: str
    tree: Tree

    @property
    def final(self) -> Turn:
        """The turn that is the answer."""
        return next(turn for turn in self.tree.turns if turn.id == self.tree.final)

    @property
    def tokens(self) -> int:
        """Tokens sampled: by all turns, and for a search's scores and its choice."""
        return sum(map(sampled_tokens, self.tree.turns)) + judging_tokens(self.tree)

    @property
    def prompt_tokens(self) -> int:
        """Tokens that models read in all turns."""
        return sum(map(prompt_tokens, self.tree.turns))

    def __str__(self) -> str:
        sure = "" if self.confidence is None else f"confidence {self.confidence:.2f} ({self.grounds}), "
        turns = counted(len(self.tree.turns), "turn")
        return f"{self.answer or self.text}\n[{sure}{self.tokens:,} tokens in {turns}]"

    def as_dict(self) -> dict[str, Any]:
        """Plain data without the tree."""
        return {
            "text": self.text,
            "answer": self.answer,
            "confidence": self.confidence,
            "grounds": self.grounds,
            "tree": self.tree.id,
            "turns": len(self.tree.turns),
            "tokens": self.tokens,
            "prompt_tokens": self.prompt_tokens,
        }


def solution_of(tree: Tree, visibility: Visibility | None = None) -> Solution:
    """The solution that a finished tree without a fault ends with, by the game's `visibility`."""
    final = next(turn for turn in tree.turns if turn.id == tree.final)
    if tree.problem.kind == "code":
        answer, _ = extract_program(final.text, *asked_names(tree.problem.metadata.get(EXAMPLES)))
    else:
        answer = extract_answer(final.text).answer
    return Solution(final.text, answer, *_confidence(tree, final, visibility), tree)


def progress(turn: Turn) -> str:
    """A turn as one line of progress: who, what came out, how many tokens."""
    done = "writes"
    if turn.accepts is not None:
        done = f"judges it {str(turn.info['verdict']).lower()}"
    if turn.search_score is not None:
        done = f"writes, score {turn.search_score:.2f}"
    return f"{turn.agent} (turn {turn.id}): {done}, {sampled_tokens(turn):,} tokens"


def _confidence(tree: Tree, final: Turn, visibility: Visibility | None) -> tuple[float | None, str]:
    by_id = {turn.id: turn for turn in tree.turns}
    verdicts = [
        turn.accepts
        for turn in tree.turns
        if turn.accepts is not None and not turn.action.interrupted and _judged(turn, by_id) is final
    ]
    if verdicts:
        return sum(verdicts) / len(verdicts), f"{sum(verdicts)} of {len(verdicts)} verdicts accept it"
    if final.search_score is None or visibility is None:
        return None, ""
    if visibility.sees == "answers":
        kind = tree.problem.kind
        answer = answer_key(kind, final.text)
        if answer is None:
            return 0.0, "no answer can be read in it"
        same = sum(answer_key(kind, turn.text) == answer for turn in tree.turns)
        return same / len(tree.turns), f"{same} of {len(tree.turns)} nodes give this answer"
    return final.search_score, f"its score by {visibility.named}"


def _judged(turn: Turn, by_id: Mapping[str, Turn]) -> Turn | None:
    """The nearest turn above that is not itself a verdict: what the verdict judges."""
    above = by_id.get(turn.parent_id or "")
    while above is not None and above.accepts is not None:
        above = by_id.get(above.parent_id or "")
    return above
