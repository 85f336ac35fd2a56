"""Endless sets made from a seed: problem i depends only on the set, the split, the seed and i.

They draw with `random.Random`, whose streams stay the same across versions of Python and NumPy.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Final, Literal, get_args

from mars_env.errors import ConfigError, ProblemError
from mars_env.problems.problem_set import ENDLESS, ProblemSet
from mars_env.seeds import derive_seed
from mars_env.text import shown
from mars_env.types import Problem

Split = Literal["train", "test"]

VERSION: Final = 1
"""Increase this when the problems that a seed gives change."""

LICENCE: Final = "Apache-2.0"

MADE: Final = {"source": "mars_env generated", "licence": LICENCE, "generated": True}
"""The first entries of every made problem's metadata."""

ATTEMPTS = 2000
"""How many draws a generator may try; far more than any template needs."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A problem before it has an id."""

    statement: str
    reference: Any
    metadata: Mapping[str, Any]
    kind: Literal["math", "code", "open"] = "math"


Accept = Callable[[str], bool]
"""Whether a statement belongs to the split that is being drawn."""

Maker = Callable[[random.Random, Accept], Draft]
"""Draws one problem; use module-level functions (or partials of them): worker processes can import them."""


@dataclass(frozen=True, slots=True)
class Generated:
    """A lazy source of problems for a `ProblemSet`.

    Args:
        label: The first part of every id; names the set and the options that change its problems.
        split: ``"train"`` or ``"test"``; no statement is in both, whatever the seeds.
        seed: The set's seed.
        make: Draws one problem.

    Example:
        >>> def make(rng, accept):
        ...     return first_accepted(lambda: Draft(f"What is {rng.randrange(10**6)} + 0?", "?", {}), accept)
        >>> source = Generated("sums", "test", 0, make)
        >>> source[5].id, source[5] == source[5], source.index_of("sums/test/0/5")
        ('sums/test/0/5', True, 5)

    Raises:
        ConfigError: The seed is no whole number. "1" would give other problems than 1, with the same ids.
    """

    label: str
    split: Split
    seed: int
    make: Maker

    def __post_init__(self) -> None:
        seed: object = self.seed
        if type(seed) is bool or not isinstance(seed, Integral):
            raise ConfigError(f"the seed of a set must be a whole number, got {shown(seed)}")
        object.__setattr__(self, "seed", int(seed))

    def __len__(self) -> int:
        return ENDLESS

    def __getitem__(self, index: int) -> Problem:
        rng = random.Random(derive_seed(self.label, self.split, self.seed, index))
        draft = self.make(rng, lambda statement: split_of(statement) == self.split)
        return Problem(self.place(index), draft.statement, draft.reference, draft.kind, draft.metadata)

    def index_of(self, problem_id: str) -> int:
        """The index that an id names; raises KeyError for an id of another set."""
        prefix, _, number = problem_id.rpartition("/")
        canonical = number.isdecimal() and number.isascii() and str(int(number)) == number
        if prefix != self.place(0).removesuffix("/0") or not canonical or int(number) >= ENDLESS:
            raise KeyError(problem_id)
        return int(number)

    def place(self, index: int) -> str:
        """The place is the id."""
        return f"{self.label}/{self.split}/{self.seed}/{index}"


def generated_set(
    name: str,
    make: Maker,
    *,
    seed: int,
    split: str | None,
    label: str = "",
    notes: str = "",
    reference_field: str = "answer",
) -> ProblemSet:
    """An endless embedded set.

    Args:
        name: The set's name.
        make: Draws one problem.
        seed: The set's seed.
        split: ``"train"`` (also for None) or ``"test"``.
        label: The first part of every id: the name (by default), and the options that change the problems.
        notes: As in `ProblemSet`.
        reference_field: As in `ProblemSet`.

    Raises:
        ConfigError: The split is unknown, or the seed is not an integer.

    Example:
        >>> sums = generated_set("sums", lambda rng, accept: Draft("1 + 1?", "2", {}), seed=0, split=None)
        >>> sums[3].id, sums.revision
        ('sums/train/0/3', 'version 1, sums, split train, seed 0')
    """
    label, chosen = label or name, checked_split(name, split)
    return ProblemSet(
        name,
        Generated(label, chosen, seed, make),
        revision=f"version {VERSION}, {label}, split {chosen}, seed {seed}",
        licence=LICENCE,
        generated=True,
        notes=notes,
        reference_field=reference_field,
    )


def split_of(statement: str) -> Split:
    """The split that a statement belongs to: about one in four is held out for ``"test"``.

    It depends only on the text, so the splits are disjoint for all seeds.

    Example:
        >>> split_of("What is 1 + 1?") in ("train", "test")
        True
    """
    first_byte = hashlib.blake2b(statement.encode(), digest_size=1).digest()[0]
    return "test" if first_byte % 4 == 0 else "train"


def checked_split(name: str, split: str | None) -> Split:
    """The split's name, ``"train"`` if none is given.

    Raises:
        ConfigError: It is neither ``"train"`` nor ``"test"``.

    Example:
        >>> checked_split("aime", None), checked_split("aime", "test")
        ('train', 'test')
    """
    chosen: Any = "train" if split is None else split
    if chosen not in get_args(Split):
        raise ConfigError(f"the problem set {name!r} has the splits 'train' and 'test', not {split!r}")
    result: Split = chosen
    return result


def first_accepted(draw: Callable[[], Draft | None], accept: Accept, what: str = "the generator") -> Draft:
    """Draw until a draft is suitable (not None) and belongs to the split.

    Raises:
        ProblemError: None of `ATTEMPTS` draws was suitable.

    Example:
        >>> numbers = iter(range(10))
        >>> first_accepted(lambda: Draft(str(next(numbers)), "0", {}), lambda text: text == "3").statement
        '3'
    """
    for _ in range(ATTEMPTS):
        draft = draw()
        if draft is not None and accept(draft.statement):
            return draft
    raise ProblemError(f"{what} gave no suitable problem in {ATTEMPTS} draws; widen its parameters")
