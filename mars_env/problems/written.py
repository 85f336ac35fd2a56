"""Problem sets written to a file of JSON lines, and read again exactly: for problems that models made.

The first line describes the set, each further line is a problem. A reference may be null: then the answer is
unknown, and no grader ever calls an answer wrong.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ValidationError

from mars_env.errors import ProblemError, explained
from mars_env.files import write_atomically
from mars_env.problems.problem_set import ProblemSet
from mars_env.problems.rows import BadField, Row, read_problems, required_text
from mars_env.types import Problem

_FORMAT: Final = "mars-env.problems/1"
_KINDS: Final = ("math", "code", "open")
PROVENANCE: Final = "provenance"
"""Key of a problem's metadata: how a model made it."""


class _About(BaseModel, strict=True):
    name: str = ""
    revision: str = ""
    licence: str = "unknown"
    notes: str = ""
    generated: bool = False


def write_problems(path: str | Path, problems: ProblemSet) -> None:
    """Write a set so that `load_set` reads the same one; the file is never half new.

    Raises:
        ProblemError: A problem's reference or metadata is not plain data, so it would not be read as it is.

    Example:
        >>> import tempfile
        >>> from mars_env.problems import load_set
        >>> made = Problem("made/0", "What is 2 + 2?", None, metadata={"provenance": {"agreement": 0.25}})
        >>> path = Path(tempfile.mkdtemp()) / "made.jsonl"
        >>> write_problems(path, ProblemSet("made", [made], licence="MIT"))
        >>> again = load_set(path)
        >>> again[0] == made, again.name, again.licence
        (True, 'made', 'MIT')
    """
    lines = [json.dumps(row, allow_nan=False) for row in written_rows(problems)]
    write_atomically(Path(path), "\n".join(lines) + "\n")


def written_rows(problems: ProblemSet) -> Iterator[dict[str, Any]]:
    """The rows of a written set, the first of which describes it; raises as `write_problems`."""
    about = {name: getattr(problems, name) for name in _About.model_fields}
    yield {"format": _FORMAT, "set": about}
    for problem in problems:
        yield _checked(problem_row(problem))


def problem_row(problem: Problem) -> dict[str, Any]:
    """A problem as plain data, which `parse_problem` reads."""
    return {
        "id": problem.id,
        "problem": problem.statement,
        "answer": problem.reference,
        "kind": problem.kind,
        "metadata": dict(problem.metadata),
    }


def parse_problem(row: Row, _: int = 0) -> Problem:
    """The problem of a row that `problem_row` made; raises BadField."""
    if row.get("kind") not in _KINDS:
        raise BadField("kind", f"must be one of {', '.join(_KINDS)}")
    if "answer" not in row:
        raise BadField("answer", "is missing; null means that it is unknown")
    if not isinstance(row.get("metadata"), Mapping):
        raise BadField("metadata", "must be an object")
    required_text(row, "problem")
    if not isinstance(row["problem"], str) or not isinstance(row.get("id"), str) or not row["id"]:
        raise BadField("id", "and the problem must be strings")
    return Problem(row["id"], row["problem"], row["answer"], row["kind"], dict(row["metadata"]))


def is_written(rows: Iterator[tuple[str, Row]]) -> bool:
    """Whether rows start with the line that `write_problems` puts first."""
    return next(rows, ("", {}))[1].get("format") == _FORMAT


def read_written(name: str, rows: Iterator[tuple[str, Row]]) -> ProblemSet:
    """The set that `write_problems` wrote, from the file's rows; raises ProblemError."""
    place, head = next(rows)
    with explained(ProblemError, f"{place}: field 'set'", ValidationError):
        about = _About.model_validate_json(json.dumps(head.get("set")))
    listed, _ = read_problems(rows, parse_problem)
    return ProblemSet(about.name or name, listed, **about.model_dump(exclude={"name"}))


def _checked(row: dict[str, Any]) -> dict[str, Any]:
    with explained(ProblemError, f"the problem {row['id']!r} cannot be written", TypeError, ValueError):
        again = json.loads(json.dumps(row, allow_nan=False))
    if again != row:
        plain = "lists, objects with strings as keys, strings, numbers, true, false and null"
        raise ProblemError(f"the reference and metadata of {row['id']!r} may hold {plain} only")
    return row
