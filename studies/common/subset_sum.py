"""The endless set `subset-sum`: which of some numbers add up to a target?

Finding such numbers takes a search; checking them takes a few additions. There is often more than one right
answer; `GRADER` accepts each.
"""

import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

from mars_env.errors import ConfigError
from mars_env.grading.math.grader import MathGrader
from mars_env.problems.generated import MADE, Draft, generated_set
from mars_env.problems.problem_set import ProblemSet
from mars_env.types import Problem

_LONGEST: Final = 400
"""Longest list, in characters, that is read."""
_NOISE: Final = re.compile(r"\\[ ,;:!{}]|\\(?:text|mathrm|left|right)(?![A-Za-z])|[{}()\[\]$~]")
_LIST: Final = re.compile(
    r"\s*(\d{1,6}(?:(?:\s*(?:[,;+]|and)\s*)+\d{1,6})*)\s*(?:=\s*\d{1,9})?\s*\.?\s*", re.ASCII
)


def subset_sum_problems(
    *,
    seed: int = 0,
    split: str | None = None,
    count: int = 7,
    largest: int = 15,
    min_parts: int = 2,
    max_parts: int = 4,
) -> ProblemSet:
    """The endless set of small subset sums.

    `count` different numbers of 1 to `largest` are drawn; some of them, `min_parts` to `max_parts`, make the
    target. Metadata: ``numbers``, ascending; ``target``; ``level``, how many numbers made the target. The
    reference is what made the target, one right answer among others.

    Args:
        seed: The set's seed.
        split: ``"train"`` (the default) or ``"test"``; no statement is in both.
        count: How many numbers a problem shows.
        largest: The largest number that may be drawn.
        min_parts: Fewest numbers that make the target.
        max_parts: Most numbers that make the target.

    Raises:
        ConfigError: The limits are invalid, or the split is unknown.

    Example:
        >>> problem = subset_sum_problems(seed=0)[0]
        >>> sum(map(int, problem.reference.split(", "))) == problem.metadata["target"]
        True
    """
    if not (1 <= min_parts <= max_parts <= count <= largest <= 999_999):
        got = f"min_parts={min_parts}, max_parts={max_parts}, count={count}, largest={largest}"
        order = "1 <= min_parts <= max_parts <= count <= largest <= 999999"
        raise ConfigError(f"subset-sum needs {order}, got {got}")
    name = "subset-sum"
    usual = (count, largest, min_parts, max_parts) == (7, 15, 2, 4)
    label = name if usual else f"{name}-{count}of{largest}-{min_parts}to{max_parts}"
    return generated_set(
        name, partial(_make, count, largest, min_parts, max_parts), seed=seed, split=split, label=label
    )


def subset_sum_statement(numbers: Sequence[int], target: int) -> str:
    """The text of a problem.

    Example:
        >>> subset_sum_statement([2, 5, 12], 17)
        'Choose some of the numbers 2, 5, 12, each at most once, so that they add up to 17. Which ones?'
    """
    return (
        f"Choose some of the numbers {', '.join(map(str, numbers))}, each at most once, so that they add up "
        f"to {target}. Which ones?"
    )


def _make(count: int, largest: int, min_parts: int, max_parts: int, rng: random.Random) -> Iterator[Draft]:
    parts = rng.randint(min_parts, max_parts)
    while True:
        numbers = sorted(rng.sample(range(1, largest + 1), count))
        chosen = sorted(rng.sample(numbers, parts))
        statement, reference = subset_sum_statement(numbers, sum(chosen)), ", ".join(map(str, chosen))
        yield Draft(statement, reference, {**MADE, "level": parts, "numbers": numbers, "target": sum(chosen)})


def parse_numbers(answer: str) -> tuple[int, ...] | None:
    r"""The numbers of a list or sum, in their order; None if it is neither.

    Example:
        >>> parse_numbers(r"\{3,\, 9, 15\}"), parse_numbers("3 + 9 + 15 = 27"), parse_numbers("none of them")
        ((3, 9, 15), (3, 9, 15), None)
    """
    if len(answer) > _LONGEST:
        return None
    match = _LIST.fullmatch(_NOISE.sub(" ", answer))
    return tuple(int(number) for number in re.findall(r"[0-9]+", match[1])) if match else None


def subset_sum_fault(problem: Problem, answer: str) -> str:
    """Why an answer to a problem of this set is wrong; empty if it is right."""
    numbers, target = problem.metadata["numbers"], problem.metadata["target"]
    chosen = parse_numbers(answer)
    if chosen is None:
        return "the answer is not a list of numbers"
    extra = Counter(chosen) - Counter(numbers)
    if extra:
        number = next(iter(extra))
        return f"{number} is used too often" if number in numbers else f"{number} is not among the numbers"
    total = sum(chosen)
    return "" if total == target else f"the numbers add up to {total}, not to {target}"


GRADER: Final = MathGrader(check=subset_sum_fault)
"""Accepts each right answer."""
