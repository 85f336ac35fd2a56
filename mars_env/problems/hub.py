"""A real set, from the Hugging Face hub with `datasets` or from a local copy: ``data/hub.json`` lists all.

docs/problems.md says how each repository, revision and column name was checked against the hub.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

from mars_env.errors import ConfigError, ProblemError
from mars_env.lazy import needs
from mars_env.net import hub_answers
from mars_env.problems.files import file_rows, files_of
from mars_env.problems.problem_set import ProblemSet
from mars_env.problems.rows import Row, read_problems
from mars_env.types import Problem

HubConvert = Callable[[Row, int, str], Problem]
"""A pure function of a row from the hub, its index (from 0) and its split; raises `BadField`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HubSet:
    """One real set, at a pinned revision.

    A split has the number of its rows (a download of another size is rejected), or the patterns of its data
    files, which `builder` reads: `datasets` no longer runs the script that some repositories contain.
    """

    name: str
    repo: str
    licence: str
    splits: Mapping[str, int | Sequence[str]]
    default: str
    convert: HubConvert
    revision: str = "main"
    config: str | None = None
    builder: str = "parquet"
    reference_field: str = "answer"
    duplicates: Literal["refuse", "merge"] = "refuse"

    def load(
        self, *, seed: int = 0, split: str | None = None, source: str | Path | None = None
    ) -> ProblemSet:
        """Load the set from the hub (or its local cache), in its order whatever the seed.

        A `source` is a local jsonl or parquet file, or a folder of them, with the hub's columns. All of it is
        read, so it holds this split alone.

        Raises:
            ConfigError: No such split, or the folder has files that are named for another one.
            ProblemError: It cannot be downloaded, or a row is bad.
            MissingExtra: The extra ``datasets`` is not installed.
        """
        chosen = self.default if split is None else split
        if chosen not in self.splits:
            splits = ", ".join(self.splits)
            raise ConfigError(f"the problem set {self.name!r} has no split {split!r}, only: {splits}")
        if source is not None:
            self._check_folder(Path(source), chosen)
        rows = self.download(chosen) if source is None else file_rows(Path(source))
        return self.problem_set(rows, chosen, source)

    def _check_folder(self, folder: Path, split: str) -> None:
        """A copy of a whole repository has each split in files of its name (``main/test-00000-of-00001``)."""
        if split == "all" or not folder.is_dir():
            return
        files = (str(file.relative_to(folder)) for file in files_of(folder))
        named = {word for file in files for word in re.split(r"[^a-z]+", file.lower())}
        if others := [other for other in self.splits if other in named - {split}]:
            advice = f"all of a folder is read: give source= a file, or one with the files of {split!r} alone"
            why = f"{folder} has files of another split, {', '.join(others)}"
            raise ConfigError(f"{self.name}: {why}, and {advice}")

    def problem_set(
        self, rows: Iterator[tuple[str, Row]], split: str, source: str | Path | None
    ) -> ProblemSet:
        """Make the set from some rows of a split, which were read from `source` or from the hub."""

        def convert(row: Row, index: int) -> Problem:
            problem = self.convert(row, index, split)
            return replace(problem, metadata={**problem.metadata, "licence": self.licence})

        what = f"{self.name}: {source or self.repo}"
        listed, notes = read_problems(rows, convert, what, duplicates=self.duplicates, untestable="leave out")
        where = f"{self.repo}@{self.revision}" if source is None else f"local copy {Path(source).name}"
        return ProblemSet(
            self.name,
            listed,
            revision=f"{where}, split {split}",
            licence=self.licence,
            notes=notes,
            reference_field=self.reference_field,
        )

    def download(self, split: str) -> Iterator[tuple[str, Row]]:
        """The rows of a split, each with its place, from the hub or its local cache; raises as `load`."""
        with needs("datasets", f"the problem set {self.name!r}, unless source= names a local copy"):
            import datasets
        files = self.splits[split]
        if isinstance(files, int):
            yield from self._sized(datasets, split, files)
            return
        for name in files:
            place = f"hf://datasets/{self.repo}@{self.revision}/{name}"
            try:
                with _offline_if_unreachable(datasets):
                    data = datasets.load_dataset(
                        self.builder, data_files=[place], split="train", streaming=True
                    )
                for number, row in enumerate(data, 1):
                    yield f"{self.repo}/{name}, row {number}", row
            except Exception as error:  # the libraries underneath have many error types for "offline"
                raise _unreachable(place, error) from error

    def _sized(self, datasets: Any, split: str, size: int) -> Iterator[tuple[str, Row]]:
        place = f"{self.repo} (revision {self.revision}, split {split})"
        try:
            with _offline_if_unreachable(datasets):
                data = datasets.load_dataset(self.repo, self.config, split=split, revision=self.revision)
        except Exception as error:  # as above
            raise _unreachable(f"{place} from the Hugging Face hub", error) from error
        if len(data) != size:
            raise ProblemError(f"{place} has {len(data)} rows, not the recorded {size}: the data has changed")
        batches = data.iter(batch_size=4096)
        rows = (dict(zip(b, row, strict=True)) for b in batches for row in zip(*b.values(), strict=True))
        for number, row in enumerate(rows, 1):
            yield f"{self.repo}, split {split}, row {number}", row


@cache
def _described() -> Any:
    return json.loads((Path(__file__).parent / "data" / "hub.json").read_text(encoding="utf-8"))


def hub_set(name: str, convert: HubConvert) -> HubSet:
    """The set that ``data/hub.json`` describes under this name."""
    return HubSet(name=name, convert=convert, **_described()[name])


@contextmanager
def _offline_if_unreachable(datasets: Any) -> Iterator[None]:
    """The hub's libraries read only their cache if it does not answer: they ask for nearly a minute."""
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE or datasets.config.HF_HUB_OFFLINE or hub_answers():
        yield
        return
    flags: tuple[Any, Any] = (constants, datasets.config)
    for flag in flags:
        flag.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        for flag in flags:
            flag.HF_HUB_OFFLINE = False


def _unreachable(what: str, error: Exception) -> ProblemError:
    message = next(iter(str(error).strip().splitlines()), "no message")
    return ProblemError(
        f"cannot load {what} ({type(error).__name__}: {message}); connect to the network, or give a local "
        "copy as source= (on the command line: a file of problems as --problems FILE)"
    )
