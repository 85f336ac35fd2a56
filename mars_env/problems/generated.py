"""Endless sets made from a seed: problem i depends only on the set, the split, the seed and i.

They draw with `random.Random`, whose streams stay the same across versions of Python and NumPy.
"""

import hashlib
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from numbers import Integral
from typing import Any, Final, Literal

from mars_env.errors import ConfigError, ProblemError
from mars_env.problems.problem_set import ENDLESS, ProblemSet
from mars_env.seeds import derive_seed
from mars_env.text import brief
from mars_env.types import Problem

Split = Literal["train", "test"]

_VERSION: Final = 1  # increased when the problems that a seed gives change
LICENCE: Final = "Apache-2.0"
MADE: Final = {"source": "mars_env generated", "licence": LICENCE, "generated": True}

_ATTEMPTS = 2000  # far more draws than any set needs


@dataclass(frozen=True, slots=True)
class Draft:
    """A problem before it has an id; `key` decides its split (the statement, unless given)."""

    statement: str
    reference: Any
    metadata: Mapping[str, Any]
    kind: Literal["math", "code", "open"] = "math"
    key: str = ""


Maker = Callable[[random.Random], Iterator[Draft | None]]
"""Draws one problem again and again; None stands for a draw that is not suitable. A module-level generator
function, or a partial of one: worker processes import it."""


@dataclass(frozen=True, slots=True)
class _Generated:
    label: str
    split: Split
    seed: int
    make: Maker

    def __len__(self) -> int:
        return ENDLESS

    def __getitem__(self, index: int) -> Problem:
        drafts = self.make(random.Random(derive_seed(self.label, self.split, self.seed, index)))
        place = self.place(index)
        for draft in islice(drafts, _ATTEMPTS):
            if draft is not None and split_of(draft.key or draft.statement) == self.split:
                return Problem(place, draft.statement, draft.reference, draft.kind, draft.metadata)
        raise ProblemError(f"{place}: no suitable problem in {_ATTEMPTS} draws; widen the set's options")

    def index_of(self, problem_id: str) -> int:
        prefix, _, number = problem_id.rpartition("/")
        canonical = number.isdecimal() and number.isascii() and str(int(number)) == number
        if prefix != self.place(0).removesuffix("/0") or not canonical or int(number) >= ENDLESS:
            raise KeyError(problem_id)
        return int(number)

    def place(self, index: int) -> str:
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
    """An endless embedded set, whose splits ``"train"`` (also for None) and ``"test"`` share no statement.

    The label is the first part of every id: the name (by default), and the options that change the problems.
    A `ConfigError` if the split is unknown, or the seed is not an integer.
    """
    if split not in (None, "train", "test"):
        raise ConfigError(f"the problem set {name!r} has the splits 'train' and 'test', not {split!r}")
    value: object = seed
    if type(value) is bool or not isinstance(value, Integral):  # "1" would give other problems than 1
        raise ConfigError(f"the seed of a set must be an integer, got {brief(value)}")
    chosen: Split = "test" if split == "test" else "train"
    label, seed = label or name, int(value)
    return ProblemSet(
        name,
        _Generated(label, chosen, seed, make),
        revision=f"version {_VERSION}, {label}, split {chosen}, seed {seed}",
        licence=LICENCE,
        generated=True,
        notes=notes,
        reference_field=reference_field,
    )


def split_of(statement: str) -> Split:
    """The split that a statement belongs to, whatever the seed: for about one in four, ``"test"``."""
    first_byte = hashlib.blake2b(statement.encode(), digest_size=1).digest()[0]
    return "test" if first_byte % 4 == 0 else "train"
