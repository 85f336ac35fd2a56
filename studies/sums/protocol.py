r"""The language of the miniature of `subset-sum`, one token a number and a few words, and its agents.

problem     2 5 7 9 10 12 15 -> 28
solution    3 9 15                                  for the grader: \boxed{3, 9, 15}
report      3 3 9 12 15 27 short 1 / Correctness: Wrong     each number, the running sum beside it
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from mars_env.envs.rewards import agreement, judged_turn
from mars_env.errors import ConfigError
from mars_env.miniature.protocol import CORRECT, RIGHT, SOLVE, SPECIAL, VERIFY, WRONG
from mars_env.types import Action, Model, Observation, Problem, Sampling, Turn

LARGEST: Final = 99
NUMBERS: Final = tuple(f" {number}" for number in range(LARGEST + 1))
ARROW, SHORT, OVER, EXACT, MISSING = " ->", " short", " over", " exact", " missing"
VOCABULARY: Final = (*SPECIAL, *NUMBERS, ARROW, SHORT, OVER, EXACT, MISSING, RIGHT, WRONG)
"""All tokens, in the order of their ids."""
PATTERN: Final = "|".join(map(re.escape, sorted((*VOCABULARY[len(SPECIAL) :],), key=lambda p: (-len(p), p))))

ANSWER_TOKENS: Final = 6
"""Limit of a solution: right ones have at most seven numbers, nearly all of them at most five."""
REPORT_TOKENS: Final = 2 * ANSWER_TOKENS + 4
"""Limit of a report. No limit binds on what is taught."""

_PIECE: Final = re.compile(PATTERN)
_STATEMENT: Final = re.compile(r"the numbers ([0-9, ]+), each .* add up to ([0-9]+)\.")


def read_statement(statement: str) -> tuple[tuple[int, ...], int]:
    """The numbers and the target of a problem of the set `subset-sum`."""
    found = _STATEMENT.search(statement)
    numbers = tuple(map(int, found[1].split(", "))) if found else ()
    if found is None or max(sum(numbers), int(found[2])) > LARGEST:
        raise ConfigError(
            f"this miniature reads problems of the set 'subset-sum' up to {LARGEST}, not {statement[:80]!r}"
        )
    return numbers, int(found[2])


def stream(numbers: Sequence[int]) -> str:
    """Numbers as the model reads and writes them."""
    return "".join(NUMBERS[number] for number in numbers)


def shown(sampled: str) -> str:
    r"""A sampled solution as a text for the grader; one with other pieces than numbers stays as it is."""
    numbers = _PIECE.findall(sampled)
    if not numbers or any(piece not in NUMBERS for piece in numbers):
        return sampled
    return rf"\boxed{{{', '.join(piece.strip() for piece in numbers)}}}"


def read(text: str, limit: int) -> str:
    r"""The stream of any text: its numbers and words in their order; whatever else it holds is left out."""
    spaced = re.sub(r"[^0-9A-Za-z:\n]+", " ", text)
    pieces = [f" {piece.strip()}" if "Correctness" not in piece else piece for piece in _WORD.findall(spaced)]
    return "".join(pieces[:limit])


_WORD: Final = re.compile(
    r"(?<![0-9])[0-9]{1,2}(?![0-9])|short|over|exact|missing|\nCorrectness: (?:Correct|Wrong)"
)


def prompt(role: str, observation: Observation) -> str:
    """What a role reads on an observation of solve-verify-correct."""
    numbers, target = read_statement(str(observation["problem"]))
    problem = f"{stream(numbers)}{ARROW}{NUMBERS[target]}{SOLVE}"
    if role == "solver":
        return problem
    judged = f"{problem}{read(str(observation['solution']), ANSWER_TOKENS)}{VERIFY}"
    if role == "verifier":
        return judged
    if role == "corrector":
        return f"{judged}{read(str(observation['report']), REPORT_TOKENS)}{CORRECT}"
    raise ConfigError(f"this miniature plays solver, verifier and corrector, not {role!r}")


def report(numbers: Sequence[int], target: int, answer: Sequence[int]) -> str:
    r"""The honest report on an answer."""
    written, total, left = "", 0, list(numbers)
    for number in answer:
        written += NUMBERS[number]
        if number not in left:
            return written + MISSING + WRONG
        left.remove(number)
        total += number
        written += NUMBERS[total]
    if total == target:
        return written + EXACT + RIGHT
    return written + (SHORT if total < target else OVER) + NUMBERS[abs(target - total)] + WRONG


def honest(statement: str, solution: str) -> str:
    """The honest report on a solution's text; one that is no list of numbers is missing."""
    answer = numbers_in(read(solution, ANSWER_TOKENS))
    return report(*read_statement(statement), answer) if answer else MISSING + WRONG


def numbers_in(written: str) -> list[int]:
    """The numbers of a written solution; none if it holds anything else."""
    pieces = written.split()
    return [int(piece) for piece in pieces] if all(piece.isdecimal() for piece in pieces) else []


def ending(text: str) -> str:
    r"""What a report concludes: from its last word on, the stated difference and the verdict."""
    start = max(text.rfind(word) for word in (SHORT, OVER, EXACT, MISSING))
    return text[start:] if start >= 0 else ""


LIMITS: Final[Mapping[str, int]] = {
    "solver": ANSWER_TOKENS,
    "verifier": REPORT_TOKENS,
    "corrector": ANSWER_TOKENS,
}
"""Limits of one completion by role, in tokens; no right text reaches them."""


class SumsAgent:
    """One role on a model of this language."""

    def __init__(self, role: str, model: Model, *, policy: str = "sums") -> None:
        self.role, self.model, self.policy = role, model, policy
        self.sampling = Sampling(temperature=1.0, max_tokens=LIMITS[role])

    def __repr__(self) -> str:
        return f"SumsAgent({self.role!r}, policy={self.policy!r})"

    async def act(self, observation: Observation, n: int, seed: int) -> list[Action]:
        """Sample n actions."""
        sampling = replace(self.sampling, seed=seed)
        found = await self.model.complete(prompt(self.role, observation), n, sampling)
        return [Action(c.text if self.role == "verifier" else shown(c.text), (c,)) for c in found]


def team(model: Model) -> dict[str, SumsAgent]:
    """The three roles on one model."""
    return {f"{role}_0": SumsAgent(role, model) for role in LIMITS}


def honest_report(turn: Turn, path: Sequence[Turn], problem: Problem) -> float | None:
    """The Verifier's reward: 1 if its verdict and the difference that it states are both right."""
    judged = judged_turn(path)
    if judged is None or agreement(turn, path, problem) is None:
        return None
    return float(ending(turn.text) == ending(honest(problem.statement, judged.text)))
