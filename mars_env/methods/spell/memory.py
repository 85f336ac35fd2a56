"""SPELL's memory of solvable questions. It stands beside the rules, which stay pure. No torch in here."""

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np

from mars_env.methods.spell.rewards import outcomes
from mars_env.methods.spell.rules import documents_of
from mars_env.rollout import Job
from mars_env.seeds import derive_seed
from mars_env.types import Problem, Tree

FRESH = "fresh"
"""In a played cluster's metadata: the documents that the Questioner sees for the first time."""


@dataclass(frozen=True, slots=True)
class Remembered:
    """A question that some answers solved, and not all, with its reference; `documents` were fresh then."""

    cluster: str
    question: str
    answer: str
    documents: tuple[int, ...]

    @property
    def key(self) -> tuple[str, ...]:
        """What makes two questions of a cluster the same: their words and numbers in their order."""
        return tuple(re.findall(r"-?\w+", unicodedata.normalize("NFKC", self.question).casefold()))


@dataclass(frozen=True, slots=True)
class QuestionMemory:
    """All remembered questions by cluster, oldest first. A value: `updated` gives a new one."""

    questions: Mapping[str, tuple[Remembered, ...]] = field(default_factory=lambda: MappingProxyType({}))

    def __len__(self) -> int:
        return sum(map(len, self.questions.values()))

    def last(self, cluster: str, n: int) -> tuple[Remembered, ...]:
        """The last n questions of a cluster."""
        return self.questions.get(cluster, ())[-n:] if n else ()

    def plus(self, some: Iterable[Remembered]) -> "tuple[QuestionMemory, list[Remembered]]":
        """The memory with those of some questions that it does not have, and these: it compares with all."""
        questions, new = dict(self.questions), list[Remembered]()
        for each in some:
            there = questions.get(each.cluster, ())
            if all(each.key != old.key for old in there):
                questions[each.cluster] = (*there, each)
                new.append(each)
        return QuestionMemory(MappingProxyType(questions)), new

    def updated(self, trees: Sequence[Tree]) -> "tuple[QuestionMemory, list[Remembered]]":
        """The memory after a batch of trees, whatever their order, and what is new in it.

        A question is admitted if its Questioner has a reward above 0 and some answers, not all, solve it.
        """
        return self.plus(
            Remembered(
                tree.problem.id,
                outcome.turn.info["question"],
                outcome.turn.info["answer"],
                tuple(tree.problem.metadata.get(FRESH, ())),
            )
            for tree in sorted(trees, key=_order)
            for outcome in outcomes(tree)
            if outcome.kind == "some" and (outcome.turn.reward or 0.0) > 0
        )


def question_job(
    cluster: Problem,
    memory: QuestionMemory,
    fresh: int,
    last: int,
    seed: int,
    sample: int,
    progress: float | None = None,
) -> Job:
    """The tree in which a new question about a cluster is made.

    The Questioner sees the last questions of the cluster with their answers and documents, and `fresh`
    documents that were not shown before, as far as there are any: 5 documents, then 10, 15, 20 with SPELL's
    numbers.

    Example:
        >>> from mars_env.methods.spell.rules import cluster
        >>> memory, _ = QuestionMemory().plus([Remembered("c", "Which profit?", "17", (0, 3))])
        >>> documents = cluster("c", "Ask.", list("abcdef"))
        >>> job = question_job(documents, memory, fresh=2, last=3, seed=0, sample=1)
        >>> sorted({0, 3} | set(job.problem.metadata["fresh"])) == job.problem.metadata["shown"]
        True
        >>> len(job.problem.metadata["shown"]), job.problem.metadata["examples"]
        (4, [{'question': 'Which profit?', 'answer': '17'}])
    """
    number, examples = len(documents_of(cluster)), memory.last(cluster.id, last)
    old = {document for each in examples for document in each.documents if document < number}
    unseen = [document for document in range(number) if document not in old] or list(range(number))
    rng = np.random.default_rng(derive_seed(seed, "fresh documents", cluster.id, sample))
    drawn = sorted(int(d) for d in rng.choice(unseen, min(fresh, len(unseen)), replace=False))
    metadata = {
        **cluster.metadata,
        FRESH: drawn,
        "shown": sorted(old.union(drawn)),
        "examples": [{"question": each.question, "answer": each.answer} for each in examples],
    }
    return Job(Problem(cluster.id, cluster.statement, None, "open", metadata), sample, progress)


def _order(tree: Tree) -> tuple[str, int]:
    problem, _, sample = tree.id.rpartition("#")
    return problem, int(sample)
