"""`ProblemSet`: an immutable, possibly endless sequence of problems that records where it comes from."""

import copy
import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, InitVar, dataclass, field
from itertools import chain
from typing import Any, Protocol, overload, runtime_checkable

import numpy as np

from mars_env.errors import ConfigError, ProblemError
from mars_env.text import brief, counted
from mars_env.types import Problem

ENDLESS = 10**9
"""Length of a set that is generated on demand: more than anyone plays, small enough to index."""

_CONTENT = ("rubric", "documents", "other_documents")  # metadata that are part of a problem's content
_RULES = ("ordered", "integer")  # metadata that say how a problem's answers are judged
HASHED = 1000
"""How many problems of a generated set its content hash reads; the same code generates the others."""


@runtime_checkable
class Source(Protocol):
    """Where a set's problems come from: a list in memory, or a generator by index."""

    def __len__(self) -> int:
        """The number of problems."""

    def __getitem__(self, index: int, /) -> Problem:
        """The problem at an index from 0 to ``len - 1``."""

    def index_of(self, problem_id: str) -> int:
        """The index of an id; raises KeyError if there is none."""

    def place(self, index: int) -> str:
        """Where the problem was read, for error messages: ``"p.jsonl, line 3"``."""


class Listed:
    """Problems in memory, of different ids (else a `ProblemError`), and where each was read, or nothing."""

    def __init__(self, problems: Iterable[Problem], places: Sequence[str] = ()) -> None:
        self._problems = _checked(problems)
        self._places = tuple(places)
        self._index: dict[str, int] = {}
        for index, problem in enumerate(self._problems):
            first = self._index.setdefault(problem.id, index)
            if first != index:
                taken = f"the id {problem.id!r} was already used in {self.place(first)}"
                raise ProblemError(f"{self.place(index)}: {taken}; give every problem its own id")

    def __len__(self) -> int:
        return len(self._problems)

    def __getitem__(self, index: int) -> Problem:
        return self._problems[index]

    def index_of(self, problem_id: str) -> int:
        """See `Source`."""
        return self._index[problem_id]

    def place(self, index: int) -> str:
        """See `Source`."""
        return self._places[index] if self._places else f"problem {index} ({self._problems[index].id!r})"


def _checked(problems: object) -> tuple[Problem, ...]:
    if isinstance(problems, str | Mapping) or not isinstance(problems, Iterable):
        raise ConfigError(f"problems are a list of Problem values, not {brief(problems)}")
    listed = tuple(problems)
    for index, each in enumerate(listed):
        if not isinstance(each, Problem):
            advice = "make it one, Problem(id, statement, reference), or load a file of rows by load_problems"
            raise ConfigError(f"problem {index} is {brief(each)}, not a Problem: {advice}")
    return listed


@dataclass(frozen=True, eq=False, repr=False)
class ProblemSet(Sequence[Problem]):
    """An immutable sequence of problems of different ids (else a `ProblemError`), and where it is from.

    Slices, splits and filters are sets too and share the problems. A generated set is lazy:
    it makes a problem only when needed, and problem i is the same in every process.

    Args:
        name: Its name in reports.
        problems: In memory, or a `Source`.
        revision: The pinned revision of a real set; version, seed and split of a generated one.
        licence: SPDX identifier, or what is known about it.
        generated: Whether a program made the problems; reports say so.
        notes: What a reader of results should know (merged duplicates, for example).
        reference_field: Name of the field that references were read from, for error messages.

    Example:
        >>> problems = ProblemSet("mine", [Problem("p1", "What is 1 + 1?", "2"),
        ...                                Problem("p2", "What is 7 * 6?", "42")])
        >>> len(problems), problems[1].id, problems.by_id("p1").statement
        (2, 'p2', 'What is 1 + 1?')
    """

    name: str
    problems: InitVar[Iterable[Problem] | Source]
    _: KW_ONLY
    revision: str = ""
    licence: str = "unknown"
    generated: bool = False
    notes: str = ""
    reference_field: str = "answer"
    _source: Source = field(init=False)
    _indices: Sequence[int] = field(init=False)

    def __post_init__(self, problems: Iterable[Problem] | Source) -> None:
        source = problems if isinstance(problems, Source) else Listed(problems)
        object.__setattr__(self, "_source", source)
        object.__setattr__(self, "_indices", range(len(source)))

    @property
    def endless(self) -> bool:
        """Whether it must be cut (``problems[:1000]``) before all of it can be played."""
        return len(self._indices) >= ENDLESS // 2

    def __len__(self) -> int:
        return len(self._indices)

    @overload
    def __getitem__(self, key: int) -> Problem: ...
    @overload
    def __getitem__(self, key: slice) -> "ProblemSet": ...
    def __getitem__(self, key: int | slice) -> "Problem | ProblemSet":
        if isinstance(key, slice):
            return self._view(self._indices[key])
        return self._source[self._indices[key]]

    def __iter__(self) -> Iterator[Problem]:
        return (self._source[index] for index in self._indices)

    def __contains__(self, item: object) -> bool:
        with suppress(KeyError):
            return isinstance(item, Problem) and self.by_id(item.id) == item
        return False

    def __repr__(self) -> str:
        size = "endless" if self.endless else counted(len(self), "problem")
        return f"ProblemSet({self.name!r}, {size}, revision={self.revision!r}, licence={self.licence!r})"

    def by_id(self, problem_id: str) -> Problem:
        """The problem with this id, or a KeyError."""
        return self._source[self._index_of(problem_id)]

    def place(self, problem_id: str) -> str:
        """Where a problem was read (``"p.jsonl, line 3"``), for error messages; or a KeyError."""
        return self._source.place(self._index_of(problem_id))

    def split(self, sizes: float | Sequence[int], seed: int = 0) -> "tuple[ProblemSet, ...]":
        """Random parts without a statement in common, each in the order of this set.

        The sizes are a fraction in (0, 1), for two parts that make up the whole, or the number of problems in
        each part. As the copies of a statement stay together, the first part of a fraction may lack a few. A
        `ConfigError` if the sizes do not fit the set or its copies, or the set is endless.

        Example:
            >>> problems = ProblemSet("mine", [Problem(f"p{i}", f"What is {i} + 1?", "") for i in range(10)])
            >>> [len(part) for part in problems.split(0.8, seed=0)]
            [8, 2]
        """
        self._require_finite("split")
        whole = isinstance(sizes, (int, float))
        if isinstance(sizes, (int, float)):
            if not 0 < sizes < 1:
                raise ConfigError(f"a split fraction must be between 0 and 1, got {sizes!r}")
            first = round(sizes * len(self))
            sizes = [first, len(self) - first]
        counts = list(sizes)
        parted = f"cannot split the {len(self)} problems of {self.name!r} into parts of {counts}"
        if not counts or min(counts) < 1 or sum(counts) > len(self):
            raise ConfigError(f"{parted}: each needs a problem, and together they must not exceed the set")
        groups = self._copies(np.random.default_rng(seed).permutation(len(self)).tolist())
        parts = []
        for count in counts:
            part, groups = _filled(groups, count)
            parts.append(part)
        if whole:
            parts[-1] += chain.from_iterable(groups)
        lengths = [len(part) for part in parts]
        if not min(lengths) or (lengths != counts and not whole):
            why = f"the copies of a statement stay together, so the parts would hold {lengths}"
            raise ConfigError(f"{parted}: {why}; choose other sizes")
        return tuple(self._view(tuple(self._indices[i] for i in sorted(part))) for part in parts)

    def _copies(self, order: Iterable[int]) -> list[list[int]]:
        """The places of the problems in an order, those with the same statement and documents together."""
        groups: dict[str, list[int]] = {}
        for i in order:
            problem = self[i]
            question = [" ".join(problem.statement.split()), problem.metadata.get("documents")]
            groups.setdefault(json.dumps(question, default=str), []).append(i)
        return list(groups.values())

    def sample(self, rng: np.random.Generator, n: int = 1) -> tuple[Problem, ...]:
        """Draw n problems of different ids by `rng` alone; a `ConfigError` if the set has fewer."""
        if not 0 <= n <= len(self):
            raise ConfigError(f"cannot draw {n} different problems from the {len(self)} in {self.name!r}")
        return tuple(self[int(i)] for i in rng.choice(len(self), size=n, replace=False))

    def filter(self, predicate: Callable[[Problem], bool] | None = None, /, **metadata: Any) -> "ProblemSet":
        """The problems that pass a test, and whose metadata has each key's value, or one of a collection.

        A `ConfigError` if there is nothing to filter by, or the set is endless.

        Example:
            >>> levels = [Problem(f"p{i}", "How many?", "1", metadata={"level": i}) for i in range(5)]
            >>> problems = ProblemSet("mine", levels)
            >>> [p.id for p in problems.filter(lambda p: p.id != "p3", level=range(2, 5))]
            ['p2', 'p4']
        """
        if predicate is None and not metadata:
            raise ConfigError("filter needs a predicate or metadata, e.g. problems.filter(level=3)")
        self._require_finite("filter")

        def keep(problem: Problem) -> bool:
            fits = all(_matches(problem, key, value) for key, value in metadata.items())
            return fits and (predicate is None or bool(predicate(problem)))

        return self._view(tuple(index for index in self._indices if keep(self._source[index])))

    def content_hash(self) -> str:
        """A hash of ids, statements, references, kinds, rubrics, documents, ``ordered`` and ``integer``.

        For a set that is generated on demand it covers the revision, the size and the first problems: another
        seed or another version of the generator gives another hash, without making all the problems.
        """
        digest = hashlib.blake2b(digest_size=16)
        listed = isinstance(self._source, Listed)
        problems = self if listed or not self.generated else self[:HASHED]
        if self.generated:
            digest.update(json.dumps([self.revision, len(self)]).encode())
        for problem in problems:
            row = [problem.id, problem.kind, problem.statement, problem.reference]
            row += [problem.metadata[key] for key in _CONTENT if key in problem.metadata]
            if listed:  # the revision of others tells the rules
                row += [(key, problem.metadata[key]) for key in _RULES if key in problem.metadata]
            digest.update(json.dumps(row, sort_keys=True, default=str).encode() + b"\n")
        return digest.hexdigest()

    def manifest(self) -> dict[str, Any]:
        """Plain data that identifies the set in a run's manifest and in reports."""
        about = ("name", "revision", "licence", "generated", "notes")
        described = {name: getattr(self, name) for name in about}
        return described | {"problems": len(self), "content_hash": self.content_hash()}

    def _index_of(self, problem_id: str) -> int:
        try:
            index = self._source.index_of(problem_id)
        except KeyError:
            index = -1
        if index not in self._indices:
            raise KeyError(f"the problem set {self.name!r} has no problem {problem_id!r}")
        return index

    def _require_finite(self, what: str) -> None:
        if self.endless:
            advice = f"take a part first, e.g. problems[:1000].{what}(...)"
            raise ConfigError(f"cannot {what} the endless set {self.name!r}: {advice}")

    def _view(self, indices: Sequence[int]) -> "ProblemSet":
        view = copy.copy(self)
        object.__setattr__(view, "_indices", indices)
        return view


def _filled(groups: Iterable[list[int]], count: int) -> tuple[list[int], list[list[int]]]:
    """Whole groups, in order, of at most so many members together; and the other groups."""
    members: list[int] = []
    others = []
    for group in groups:
        if len(members) + len(group) <= count:
            members += group
        else:
            others.append(group)
    return members, others


def _matches(problem: Problem, key: str, accepted: Any) -> bool:
    if key not in problem.metadata:
        return False
    value = problem.metadata[key]
    several = isinstance(accepted, Collection) and not isinstance(accepted, (str, bytes))
    return bool(value == accepted) or (several and value in accepted)
