"""References for made problems: by vote, or by tests that a model writes. UNKNOWN where voters disagree."""

import asyncio
import json
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from mars_env.envs.selection import answer_key
from mars_env.errors import ConfigError
from mars_env.grading import check_reference
from mars_env.grading.json_reply import parse_json_object
from mars_env.grading.math.extract import extract_answer
from mars_env.problems.code import code_problem_from_row
from mars_env.problems.written import PROVENANCE
from mars_env.seeds import derive_seed
from mars_env.sync import gather_all
from mars_env.types import Agent, Message, Model, Problem, Sampling


@dataclass(frozen=True, slots=True)
class Reference:
    """What voters say the answer is (None: UNKNOWN), the share that gave the most frequent one, and how."""

    value: Any
    agreement: float
    made: Mapping[str, Any] = field(default_factory=dict)
    kind: Literal["math", "code"] = "math"


def plurality(votes: Sequence[Hashable | None], threshold: float) -> tuple[Hashable | None, float]:
    """The answer that most voters gave, and their share of all voters.

    There is no answer where two have the same number of votes, or the share is below the threshold. A voter
    without an answer counts in the denominator alone.

    Example:
        >>> plurality([7, 7, 7, None], 0.5), plurality([7, 7, 3, None], 0.75), plurality([7, 3], 0.5)
        ((7, 0.75), (None, 0.5), (None, 0.5))
    """
    counts = Counter(vote for vote in votes if vote is not None).most_common(2)
    if not counts:
        return None, 0.0
    share = counts[0][1] / len(votes)
    tied = len(counts) > 1 and counts[1][1] == counts[0][1]
    return (None if tied or share < threshold else counts[0][0]), share


@dataclass(frozen=True, slots=True)
class Majority:
    """A reference by majority vote: the boxed answer that most of some solutions give.

    Only boxed answers count: where voters say "I do not know", that must not become the reference. An answer
    that the grader could not compare with is none either. The `threshold` is the least share that makes a
    reference; PromptCoT 2.0 has 8 votes and none.
    """

    voter: Agent
    voters: int = 8
    threshold: float = 0.5

    def __post_init__(self) -> None:
        _check(self.voters, self.threshold)

    async def __call__(self, statement: str, seed: int) -> Reference:
        """The reference of a statement. Solutions that were cut off have no answer."""
        actions = await self.voter.act({"problem": statement}, self.voters, seed)
        answers = [None if a.truncated or a.interrupted else _boxed(a.text) for a in actions]
        votes = [None if answer is None else answer[0] for answer in answers]
        written = dict(answer for answer in reversed(answers) if answer is not None)  # as its first voter did
        value, share = plurality(votes, self.threshold)
        text = None if value is None else written[value]
        fault = text and await asyncio.to_thread(check_reference, Problem("made", statement, text))
        voters = len(votes)
        origin = {"by": "majority", "voter": self.voter.policy, "voters": voters, "threshold": self.threshold}
        counts = Counter(vote for vote in votes if vote is not None).most_common()
        origin |= {"votes": {written[vote]: count for vote, count in counts}, "agreement": share}
        origin |= {"fault": fault} if fault else {}
        return Reference(None if fault else text, share, origin)


@dataclass(frozen=True, slots=True)
class WrittenTests:
    """A reference of tests: an author writes an input a round, and the output is found by vote.

    With fewer than `least` tests on whose outputs enough answers agree the reference is UNKNOWN. The
    agreement is the lowest of its tests. (PromptCoT 2.0 has 3 to 4 tests by one model, one a round, with
    several seeds; the vote over seeds and the threshold are our reading.)
    """

    author: Model
    rounds: int = 4
    least: int = 3
    voters: int = 8
    threshold: float = 0.5
    sampling: Sampling = Sampling()  # noqa: RUF009 (frozen)

    def __post_init__(self) -> None:
        _check(self.voters, self.threshold)
        if not 1 <= self.least <= self.rounds:
            raise ConfigError(f"tests need 1 <= least <= rounds, got {self.least} and {self.rounds}")

    async def __call__(self, statement: str, seed: int) -> Reference:
        """The reference of a statement."""
        inputs: list[str] = []
        for number in range(self.rounds):
            input_seed = derive_seed(seed, "input", number)
            [stdin] = await self._answers(_ask_input(statement, inputs), 1, input_seed)
            if stdin is not None and stdin not in inputs:
                inputs.append(stdin)
        votes_by_input = await gather_all(
            self._answers(_ask_output(statement, text), self.voters, derive_seed(seed, "output", i), "output")
            for i, text in enumerate(inputs)
        )
        outputs = [[None if vote is None else vote.rstrip() for vote in votes] for votes in votes_by_input]
        results = [plurality(votes, self.threshold) for votes in outputs]
        agreed = [
            ({"input": text, "output": str(output)}, share)
            for text, (output, share) in zip(inputs, results, strict=True)
            if output is not None
        ]
        is_known = len(agreed) >= self.least
        shares = [share for _, share in agreed] if is_known else [share for _, share in results]
        agreement = min(shares, default=0.0)
        author = getattr(self.author, "name", "author")
        origin = {"by": "tests", "author": author, "voters": self.voters, "threshold": self.threshold}
        origin |= {"inputs": len(inputs), "kept": len(agreed), "agreement": agreement}
        if not is_known:
            return Reference(None, agreement, origin, "code")
        row = {"id": "made", "prompt": statement, "mode": "stdin", "tests": [test for test, _ in agreed]}
        return Reference(code_problem_from_row(row).reference, agreement, origin, "code")

    async def _answers(
        self, prompt: list[Message], n: int, seed: int, key: str = "input"
    ) -> list[str | None]:
        """The texts in n answers; None where there is none, or the answer was cut off."""
        completions = await self.author.complete(prompt, n, replace(self.sampling, seed=seed))
        return [None if c.cut else _text_in(c.text, key) for c in completions]


def with_reference(problem: Problem, reference: Reference) -> Problem:
    """The problem with a made reference, and how it was made in its metadata."""
    provenance = {**problem.metadata.get(PROVENANCE, {}), "reference": dict(reference.made)}
    metadata = {**problem.metadata, PROVENANCE: provenance}
    return replace(problem, reference=reference.value, kind=reference.kind, metadata=metadata)


def _boxed(text: str) -> tuple[Hashable, str] | None:
    r"""What the last box votes for (see `answer_key`), and its answer as a reference; None if there is none.

    White space makes no other vote, but stays in the reference, since it ends commands.

    Example:
        >>> _boxed(r"So \boxed{2\pi  r}."), _boxed(r"\boxed{07}")
        (('2\\pir', '2\\pi r'), (7, '7'))
    """
    answer = extract_answer(text, strict=True).answer
    vote = None if answer is None else answer_key("math", f"\\boxed{{{answer}}}")
    if answer is None or vote is None:
        return None
    return vote, str(vote) if isinstance(vote, int) else " ".join(answer.split())


def _check(voters: int, threshold: float) -> None:
    if voters < 1 or not 0 < threshold <= 1:
        raise ConfigError(f"a vote needs a voter and a threshold in (0, 1], got {voters} and {threshold}")


def _ask_input(statement: str, earlier: Sequence[str]) -> list[Message]:
    listed = "".join(f"\n{json.dumps(text)}" for text in earlier)
    text = (
        f"A program reads its input and prints its output. The task:\n\n{statement}\n\n"
        "Write one small input that tests the program in a way of its own. Answer with a JSON object alone: "
        '{"input": "..."}.'
    )
    return [{"role": "user", "content": text + (f"\nThere are already:{listed}" if listed else "")}]


def _ask_output(statement: str, stdin: str) -> list[Message]:
    text = (
        f"A program reads its input and prints its output. The task:\n\n{statement}\n\n"
        f"The input, as JSON: {json.dumps(stdin)}\n\n"
        "Work out step by step what the program must print. End with a line that is a JSON object alone: "
        '{"output": "..."}.'
    )
    return [{"role": "user", "content": text}]


def _text_in(text: str, key: str) -> str | None:
    """The text under a key of the JSON object in the last line; None if there is none."""
    *_, last = text.strip().splitlines() or [""]
    reply = parse_json_object(last) or {}
    value = reply.get(key) if len(reply) == 1 else None
    return value if isinstance(value, str) else None
