"""What all real sets share: they make a problem set from a split on the hub or from a local copy."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from mars_env.errors import ConfigError, MissingExtra, ProblemError
from mars_env.problems.files import files_of, read_rows
from mars_env.problems.problem_set import ProblemSet
from mars_env.problems.rows import Row, read_problems
from mars_env.types import Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteSet(ABC):
    """One real set.

    Attributes:
        name: The set's name in this library.
        repo: The dataset repository.
        licence: SPDX identifier, or what the data card says or leaves open.
        default: The split that is loaded by default.
        revision: The pinned commit; ``"main"`` if none could be verified.
        reference_field: The column that references are read from.
        duplicates: Whether rows with the same statement are merged (see `read_problems`).
    """

    name: str
    repo: str
    licence: str
    default: str
    revision: str = "main"
    reference_field: str = "answer"
    duplicates: Literal["refuse", "merge"] = "refuse"

    @property
    @abstractmethod
    def known_splits(self) -> Collection[str]:
        """Names of the splits."""

    @abstractmethod
    def download(self, split: str) -> Iterator[tuple[str, Row]]:
        """The rows of a split, each with its place, from the hub or its local cache."""

    @abstractmethod
    def problem(self, row: Row, index: int, split: str) -> Problem:
        """Convert a row into a problem; raises `BadField`."""

    def load(
        self, *, seed: int = 0, split: str | None = None, source: str | Path | None = None
    ) -> ProblemSet:
        """Load the set from the hub (or its local cache), or from a local copy.

        Args:
            seed: Has no effect: the order is the hub's.
            split: One of `known_splits`.
            source: A local jsonl or parquet file, or a folder of them, with the hub's columns; the
                network is then not used. All of it is read, so it holds this split alone.

        Raises:
            ConfigError: No such split, or the folder has files that are named for another one.
            ProblemError: It cannot be downloaded, or a row is bad.
            MissingExtra: The extra ``datasets`` is not installed.
        """
        chosen = self.default if split is None else split
        if chosen not in self.known_splits:
            known = ", ".join(self.known_splits)
            raise ConfigError(f"the problem set {self.name!r} has no split {split!r}, only: {known}")
        if source is not None:
            self._refuse_other_splits(Path(source), chosen)
        rows = self.download(chosen) if source is None else read_rows(Path(source))
        return self.problem_set(rows, chosen, source)

    def _refuse_other_splits(self, folder: Path, split: str) -> None:
        """A copy of a whole repository has each split in files of its name (``main/test-00000-of-00001``)."""
        if split == "all" or not folder.is_dir():
            return
        files = (str(file.relative_to(folder)) for file in files_of(folder))
        named = {word for file in files for word in re.split(r"[^a-z]+", file.lower())}
        if others := [known for known in self.known_splits if known in named - {split}]:
            raise ConfigError(
                f"{self.name}: the folder {folder} has files of another split than {split!r} "
                f"({', '.join(others)}), and all of a folder is read: give source= a file, or a folder with "
                f"the files of {split!r} alone"
            )

    def problem_set(
        self, rows: Iterator[tuple[str, Row]], split: str, source: str | Path | None
    ) -> ProblemSet:
        """Make the set from some rows of a split, which were read from `source` or from the hub."""
        listed, kept = read_problems(
            rows, partial(self.problem, split=split), duplicates=self.duplicates, untestable="leave out"
        )
        if not len(listed):
            raise ProblemError(f"{self.name}: {source or self.repo} contains no problems")
        where = f"{self.repo}@{self.revision}" if source is None else f"local copy {Path(source).name}"
        return ProblemSet(
            self.name,
            listed,
            revision=f"{where}, split {split}",
            licence=self.licence,
            notes=kept.notes,
            reference_field=self.reference_field,
        )


def import_datasets(name: str) -> Any:
    """Import the library `datasets`, for the set with this name.

    Raises:
        MissingExtra: It is not installed.
    """
    try:
        import datasets
    except ImportError as error:
        raise MissingExtra(
            f"the problem set {name!r} comes from the Hugging Face hub: run pip install "
            f"'mars-env[datasets]', or load a local copy with load_problems({name!r}, source=FILE)"
        ) from error
    return datasets


def unreachable(what: str, error: Exception) -> ProblemError:
    """The error for data that the hub did not deliver.

    Example:
        >>> str(unreachable("openai/gsm8k", OSError("no route")))[:47]
        'cannot load openai/gsm8k (OSError: no route); c'
    """
    said = next(iter(str(error).strip().splitlines()), "no message")
    return ProblemError(
        f"cannot load {what} ({type(error).__name__}: {said}); connect to the network, or give a local copy "
        "as source="
    )
