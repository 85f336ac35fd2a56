"""Problems from concepts by way of a rationale: what two models are asked, and how their output is read.

PromptCoT 2.0 (arXiv 2509.19894): ``p(x|c) = sum_z p(x|z,c) p(z|c)``. The *problem model* p writes a rationale
z, from the concepts c to a problem, then the problem x. The *rationale model* is q(z|c,x).
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final, Protocol

from mars_env.errors import ContextError
from mars_env.grading.thinking import after_thinking
from mars_env.sync import gather_all
from mars_env.types import Message, Model, Prompt, Sampling, ScoringModel


@dataclass(frozen=True, slots=True)
class Design:
    """A problem with its concepts, and the rationale from them to it; empty if it is not written."""

    concepts: tuple[str, ...]
    problem: str
    rationale: str = ""


class Writing(Protocol):
    """The prompts of both models, and the form of what they write; `ChatWriting` is for chat models."""

    def from_concepts(self, concepts: Sequence[str]) -> Prompt:
        """What the problem model reads."""

    def from_problem(self, concepts: Sequence[str], problem: str) -> Prompt:
        """What the rationale model reads."""

    def parts(self, design: Design) -> tuple[str, str]:
        """What the problem model writes: as far as the rationale goes, and the rest, which is the problem."""

    def read(self, text: str) -> tuple[str, str] | None:
        """Rationale and problem in what the problem model wrote; None if it cannot be read."""


class ChatWriting:
    """The writing of chat models: messages, and two headings.

    Example:
        >>> writing = ChatWriting()
        >>> design = Design(("primes",), "Which primes are even?", "Ask for an exception.")
        >>> writing.read("".join(writing.parts(design)))
        ('Ask for an exception.', 'Which primes are even?')
    """

    rationale_heading: Final = "### Rationale\n"
    problem_heading: Final = "\n### Problem\n"

    def from_concepts(self, concepts: Sequence[str]) -> list[Message]:
        """Asks for a rationale and a problem."""
        listed = "\n".join(f"- {concept}" for concept in concepts)
        text = (
            f"Design a hard problem that needs all of these concepts together:\n{listed}\n\n"
            'Write first, under the heading "### Rationale", how you come from the concepts to the problem, '
            'step by step. Write then, under the heading "### Problem", the problem alone, complete and '
            "without its solution."
        )
        return [{"role": "user", "content": text}]

    def from_problem(self, concepts: Sequence[str], problem: str) -> list[Message]:
        """Asks for the rationale of a problem."""
        listed = "\n".join(f"- {concept}" for concept in concepts)
        text = (
            f"Concepts:\n{listed}\n\nProblem:\n{problem}\n\n"
            "Write the design steps by which an author comes from these concepts to a problem. The steps "
            "must be so precise that they lead to this very problem, and natural for somebody who knows the "
            "concepts and the level only. Write the steps alone."
        )
        return [{"role": "user", "content": text}]

    def parts(self, design: Design) -> tuple[str, str]:
        """Rationale and problem, each under its heading, without white space around them."""
        rationale, problem = design.rationale.strip(), design.problem.strip()
        return self.rationale_heading + rationale, self.problem_heading + problem

    def read(self, text: str) -> tuple[str, str] | None:
        """Both, if each heading is there once, in this order, and neither is empty."""
        before, heading, rest = text.partition(self.rationale_heading)
        rationale, second, problem = rest.partition(self.problem_heading)
        again = self.rationale_heading in rest or self.problem_heading.strip() in rationale + problem
        if before.strip() or not (heading and second) or again:
            return None
        rationale, problem = rationale.strip(), problem.strip()
        return (rationale, problem) if rationale and problem else None


@dataclass(frozen=True, slots=True)
class Scored:
    """How probable a design is under the problem model: ``log p(z|c)`` and ``log p(x|z,c)``, in nats."""

    rationale: float
    problem: float

    @property
    def joint(self) -> float:
        """``log p(x|z,c) + log p(z|c)``: the reward R of PromptCoT 2.0's E-step."""
        return self.rationale + self.problem


def is_readable(writing: Writing, design: Design) -> bool:
    r"""Whether a design is read as that design: a rationale may hold a heading, or be empty.

    Example:
        >>> is_readable(ChatWriting(), Design(("c",), "Why?", "First\n### Problem\nWhat?"))
        False
    """
    read = writing.read("".join(writing.parts(design)))
    return read is not None and [*map(str.strip, read)] == [design.rationale.strip(), design.problem.strip()]


async def score_design(model: ScoringModel, writing: Writing, design: Design) -> Scored:
    """Score rationale and problem of a design in one pass, exactly as the problem model would write them."""
    prompt, (head, tail) = writing.from_concepts(design.concepts), writing.parts(design)
    logprobs = (await model.score(prompt, head, tail)).logprobs
    tokens = len(model.written(prompt, head, end=False).token_ids)
    return Scored(sum(logprobs[:tokens]), sum(logprobs[tokens:]))


async def rationales(
    model: Model, writing: Writing, design: Design, n: int, sampling: Sampling
) -> list[Design]:
    """The design with each of n rationales that the rationale model writes; cut, unreadable ones left out."""
    prompt = writing.from_problem(design.concepts, design.problem)
    completions = await model.complete(prompt, n, sampling)
    texts = [None if c.cut else after_thinking(c.text) for c in completions]
    designs = [replace(design, rationale=text.strip()) for text in texts if text is not None]
    return [each for each in designs if is_readable(writing, each)]


async def best_rationale(
    problem_model: ScoringModel, writing: Writing, candidates: Sequence[Design]
) -> tuple[Design, list[float]] | None:
    """The candidate with the largest R, the first of equals, and all R of those that fit into the context."""

    async def scored(candidate: Design) -> float | None:
        with suppress(ContextError):
            return (await score_design(problem_model, writing, candidate)).joint
        return None

    every = await gather_all(map(scored, candidates))
    joint = {place: value for place, value in enumerate(every) if value is not None}
    if not joint:
        return None
    return candidates[max(joint, key=lambda place: joint[place])], list(joint.values())


async def write_design(
    model: Model, writing: Writing, concepts: Sequence[str], sampling: Sampling
) -> Design | None:
    """A new design from concepts; None if the output, after its thinking, cannot be read or was cut off."""
    [completion] = await model.complete(writing.from_concepts(concepts), 1, sampling)
    text = None if completion.cut else after_thinking(completion.text)
    read = None if text is None else writing.read(text)
    return None if read is None else Design(tuple(concepts), read[1], read[0])
