"""The embedded `arithmetic` set: chained additions and subtractions modulo 1000, with written steps."""

import random
import string
from collections.abc import Iterator, Sequence
from functools import partial

from mars_env.checks import require_integer
from mars_env.errors import ConfigError
from mars_env.problems.generated import MADE, Draft, generated_set
from mars_env.problems.problem_set import ProblemSet
from mars_env.types import Problem

_MODULUS = 1000
_LARGEST_TERM = 99


def arithmetic_problems(
    *, seed: int = 0, split: str | None = None, min_terms: int = 1, max_terms: int = 6
) -> ProblemSet:
    """The endless set of chained arithmetic; a `ConfigError` for invalid limits or an unknown split.

    The start is uniform in 0 to 999, the number of terms uniform between its limits (at most 25), each term's
    sign uniform and its size uniform in 0 to 99. Metadata: ``start``; ``terms``, the signed integers;
    ``signs``, 1 or -1 for each term (to distinguish "+ 0" from "- 0"); ``level``, the number of terms. No
    statement is in both splits, ``"train"`` (the default) and ``"test"``.

    Example:
        >>> problem = arithmetic_problems(seed=0)[0]
        >>> problem.id, problem.reference == str(values(problem)[-1])
        ('arithmetic/train/0/0', True)
    """
    min_terms = require_integer(min_terms, "min_terms", 0)
    max_terms = require_integer(max_terms, "max_terms", 0)
    if not 1 <= min_terms <= max_terms <= len(string.ascii_lowercase) - 1:
        got = f"min_terms={min_terms}, max_terms={max_terms}"
        raise ConfigError(f"arithmetic needs 1 <= min_terms <= max_terms <= 25, got {got}")
    name = "arithmetic"
    usual = (min_terms, max_terms) == (1, 6)
    label = name if usual else f"{name}-{min_terms}to{max_terms}"
    return generated_set(name, partial(_make, min_terms, max_terms), seed=seed, split=split, label=label)


def arithmetic_statement(start: int, terms: Sequence[int], signs: Sequence[int]) -> str:
    """The text of a problem."""
    letters = string.ascii_lowercase
    chain = ", ".join(
        f"{letters[i + 1]} = {letters[i]} {_operator(sign)} {abs(term)}"
        for i, (term, sign) in enumerate(zip(terms, signs, strict=True))
    )
    return f"Work modulo {_MODULUS}. Start with a = {start}. Then {chain}. What is {letters[len(terms)]}?"


def values(problem: Problem) -> tuple[int, ...]:
    """The value of every letter, starting with the start value; each is in 0 to 999."""
    totals = [int(problem.metadata["start"])]
    for term in problem.metadata["terms"]:
        totals.append((totals[-1] + term) % _MODULUS)
    return tuple(totals)


def written_steps(problem: Problem) -> tuple[str, ...]:
    """The solution, one line per letter: ``b = 20 - 27 = 993``."""
    letters, totals = string.ascii_lowercase, values(problem)
    steps = [f"a = {totals[0]}"]
    for i, (term, sign) in enumerate(zip(problem.metadata["terms"], problem.metadata["signs"], strict=True)):
        steps.append(f"{letters[i + 1]} = {totals[i]} {_operator(sign)} {abs(term)} = {totals[i + 1]}")
    return tuple(steps)


def _operator(sign: int) -> str:
    return "+" if sign > 0 else "-"


def _make(min_terms: int, max_terms: int, rng: random.Random) -> Iterator[Draft]:
    count = rng.randint(min_terms, max_terms)
    while True:
        start = rng.randrange(_MODULUS)
        signs = [rng.choice((1, -1)) for _ in range(count)]
        terms = [sign * rng.randint(0, _LARGEST_TERM) for sign in signs]
        metadata = {**MADE, "integer": True, "level": count, "start": start, "terms": terms, "signs": signs}
        reference = str((start + sum(terms)) % _MODULUS)
        yield Draft(arithmetic_statement(start, terms, signs), reference, metadata)
