"""Making a set of problems with models, so that a killed process continues exactly where it was.

Rounds of candidates are written at once to a journal; a round that is not whole is made again, as it was.
"""

import fcntl
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final

from pydantic import BaseModel, Field

from mars_env.errors import StoreError
from mars_env.methods.promptcot.designs import Design
from mars_env.methods.promptcot.references import Reference, with_reference
from mars_env.problems import ProblemSet, write_problems
from mars_env.problems.overlap import NGrams, split_words
from mars_env.problems.written import PROVENANCE, parse_problem, problem_row
from mars_env.rollout.row_files import append, open_file, rows_of
from mars_env.seeds import derive_seed
from mars_env.sync import gather_all
from mars_env.types import Problem

Write = Callable[[int, int], Awaitable[Design | None]]
"""Writes candidate i with a seed; None if the model's text cannot be read. See `write_design`."""

Refer = Callable[[str, int], Awaitable[Reference]]
"""Finds the reference of a statement with a seed: `Majority`, `WrittenTests`, or your own."""

JOURNAL: Final = "candidates.jsonl"
PROBLEMS: Final = "problems.jsonl"
_FORMAT: Final = "mars-env.candidates/1"


class CandidateSettings(BaseModel, frozen=True, extra="forbid"):
    """How a set is made."""

    tries: int = Field(ge=1)
    """How many candidates are written; more of them may be asked for later, in the same folder."""
    seed: int = 0
    concurrency: int = Field(default=64, ge=1)
    """Candidates of a round, which are written and judged concurrently."""
    n: int = Field(default=13, ge=1)
    """A candidate that shares so many words in a row with a protected text is left out."""
    licence: str = "unknown"


async def make_problems(
    folder: str | Path,
    write: Write,
    refer: Refer,
    settings: CandidateSettings,
    *,
    protected: Iterable[str] = (),
    of: Mapping[str, Any] | None = None,
) -> ProblemSet:
    """Make a set of problems in a folder, or continue one.

    Left out, and counted in its notes, are candidates that cannot be read, repeat an earlier one (by their
    words), or overlap with a `protected` statement. Problems whose voters disagree stay, with the reference
    None. The folder gets the journal, and ``problems.jsonl`` for `load_problems`; `of` is what else the set
    depends on, as plain data.

    Raises:
        StoreError: The folder holds a set that was made otherwise, or another process is making it.
        ModelError: A model failed. The call can be repeated; nothing is lost but the round.
    """
    folder, runs = Path(folder), NGrams.of(protected, settings.n)
    folder.mkdir(parents=True, exist_ok=True)
    depends = {
        **settings.model_dump(mode="json", exclude={"tries"}),
        "protected": f"{derive_seed(*sorted(' '.join(run) for run in runs.runs)):x}",
        "of": dict(of or {}),
    }
    with _journal(folder / JOURNAL, depends, settings) as (journal, rows):
        while len(rows) < settings.tries:
            places = range(len(rows), min(settings.tries, len(rows) + settings.concurrency))
            new_problems = await _round(places, write, refer, settings, runs, rows)
            append(
                journal, "".join(json.dumps(row, allow_nan=False) + "\n" for row in new_problems), sync=True
            )
            rows += new_problems
        rows = rows[: settings.tries]
    problems = [parse_problem(row["problem"]) for row in rows if row["fate"] == "kept"]
    fates = Counter(row["fate"] for row in rows)
    unknown = sum(problem.reference is None for problem in problems)
    left_out = ", ".join(f"{fates[fate]} {fate}" for fate in ("unreadable", "duplicate", "contaminated"))
    problem_set = ProblemSet(
        folder.name,
        problems,
        revision=f"seed {settings.seed}, {settings.tries} tries",
        licence=settings.licence,
        notes=f"made by models; left out: {left_out}; {unknown} references UNKNOWN",
    )
    write_problems(folder / PROBLEMS, problem_set)
    return problem_set


async def _round(
    places: Sequence[int],
    write: Write,
    refer: Refer,
    settings: CandidateSettings,
    runs: NGrams,
    earlier: Sequence[Mapping[str, Any]],
) -> list[dict[str, Any]]:
    designs = await gather_all(write(i, derive_seed(settings.seed, "write", i)) for i in places)
    seen = {tuple(split_words(row["problem"]["problem"])) for row in earlier if row["fate"] == "kept"}
    fates: list[str] = []
    for design in designs:
        words = () if design is None else tuple(split_words(design.problem))
        if design is None or not words:
            fates.append("unreadable")
        elif words in seen:
            fates.append("duplicate")
        elif runs.found_in(design.problem) is not None:
            fates.append("contaminated")
        else:
            fates.append("kept")
            seen.add(words)
    fit = {i: d for i, d, fate in zip(places, designs, fates, strict=True) if d and fate == "kept"}
    seeds = {i: derive_seed(settings.seed, "refer", i) for i in fit}
    references = await gather_all(refer(fit[i].problem, seed) for i, seed in seeds.items())
    by_place = dict(zip(fit, references, strict=True))
    rows = {i: problem_row(_problem(i, design, by_place[i])) for i, design in fit.items()}
    return [{"index": i, "fate": fate, "problem": rows.get(i)} for i, fate in zip(places, fates, strict=True)]


def _problem(index: int, design: Design, reference: Reference) -> Problem:
    provenance = {"concepts": list(design.concepts), "rationale": design.rationale}
    bare = Problem(f"made/{index}", design.problem, metadata={PROVENANCE: provenance})
    return with_reference(bare, reference)


@contextmanager
def _journal(
    path: Path, depends: Mapping[str, Any], settings: CandidateSettings
) -> Iterator[tuple[IO[str], list[dict[str, Any]]]]:
    """The journal, open at its end, and its lines; if more are to be made, those of whole rounds alone."""
    head = {"format": _FORMAT, "made with": json.loads(json.dumps(dict(depends)))}
    with open_file(path, "a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise StoreError(f"another process is making {path}") from error
        stored = list(rows_of(path))
        if 0 < len(stored) <= settings.tries:  # the first line is the head
            stored = stored[: 1 + (len(stored) - 1) // settings.concurrency * settings.concurrency]
        file.truncate(sum(len(line) for line, _ in stored))
        if not stored:
            append(file, json.dumps(head) + "\n", sync=True)
        elif stored[0][1] != head:
            raise StoreError(f"{path} was made with other settings: give the same ones, or another folder")
        yield file, [row for _, row in stored[1:]]
