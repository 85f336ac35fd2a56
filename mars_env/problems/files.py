"""Problems from jsonl and parquet files."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

from mars_env.errors import ConfigError, ProblemError
from mars_env.files import jsonl_rows
from mars_env.lazy import needs
from mars_env.problems.problem_set import ProblemSet
from mars_env.problems.rows import BadField, Row, json_value, read_problems, required_text
from mars_env.problems.written import is_written, read_written
from mars_env.text import suggestion
from mars_env.types import Problem

SUFFIXES = (".jsonl", ".ndjson", ".parquet")

FIELDS: Mapping[str, str | None] = {"id": "id", "problem": "problem", "answer": "answer"}


def load_file(
    path: str | Path, *, fields: Mapping[str, str | None] | None = None, licence: str = "unknown"
) -> ProblemSet:
    r"""A set from a ``.jsonl``, ``.ndjson`` or ``.parquet`` file, or from all of them in a folder.

    A row's other fields become metadata, with ``source`` (the file's name) and ``licence``
    added if the row lacks them. A row without an answer, with a ``rubric`` or ``documents``, is an
    open problem. A file of `mars_env.problems.written` is read as it was written.

    `fields` says which field of a row is ``id``, ``problem`` and ``answer``, if the names differ;
    ``{"id": None}`` numbers the problems by file and row.

    Raises:
        ProblemError: A row is bad (the message gives file, line and field), or there is none.
        ConfigError: `fields` has other keys than id, problem and answer.
        MissingExtra: Parquet files need the extra ``datasets``.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = Path(folder) / "sums.jsonl"
        ...     _ = file.write_text('{"id": "s1", "question": "What is 1 + 1?", "answer": 2}\n')
        ...     load_file(file, fields={"problem": "question"})[0].reference
        '2'
    """
    if unknown := sorted({*(fields or ())} - FIELDS.keys()):
        wrong = f"{unknown[0]!r}{suggestion(unknown[0], FIELDS)}"
        raise ConfigError(f"fields names a row's 'id', 'problem' and 'answer', not {wrong}")
    path = Path(path)
    if not path.is_dir() and path.suffix in SUFFIXES and is_written(file_rows(path)):
        return read_written(path.stem, file_rows(path))
    names = {**FIELDS, **(fields or {})}
    problem_field, answer_field = names["problem"], names["answer"]
    if problem_field is None or answer_field is None:
        raise ConfigError("only the field 'id' can be None: a problem needs a statement and an answer")
    convert = partial(_problem, path.stem, names["id"], problem_field, answer_field, licence)
    listed, _ = read_problems(file_rows(path), convert, path)
    return ProblemSet(path.name, listed, licence=licence, reference_field=answer_field)


def files_of(folder: Path) -> list[Path]:
    """The jsonl and parquet files in a folder and its folders, in the order of their names."""
    return sorted(file for file in folder.rglob("*") if file.suffix in SUFFIXES and not file.is_dir())


def file_rows(path: Path) -> Iterator[tuple[str, Row]]:
    """Rows of a file, or of all in a folder, each after its place (``"p.jsonl, line 3"``, from 1).

    A `ProblemError` for what cannot be read gives file and line; parquet needs the extra ``datasets``.
    """
    if path.is_dir():
        files = files_of(path)
        if not files:
            raise ProblemError(f"the folder {path} contains no {', '.join(SUFFIXES)} file")
        for file in files:
            yield from file_rows(file)
    elif not os.path.exists(path):  # noqa: PTH110 (a path's own raises for a name that is too long)
        raise ProblemError(f"there is no problem file {path}")
    elif path.suffix == ".parquet":
        yield from _parquet_rows(path)
    elif path.suffix in SUFFIXES:
        with path.open("rb") as lines:
            yield from jsonl_rows(path, lines, ProblemError)
    else:
        raise ProblemError(f"cannot read {path}: problems come from {', '.join(SUFFIXES)} files")


def _parquet_rows(path: Path) -> Iterator[tuple[str, Row]]:
    with needs("datasets", f"reading {path} needs pyarrow"):
        import pyarrow
        import pyarrow.parquet
    number = 0
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=4096):
                for row in batch.to_pylist():
                    number += 1
                    yield f"{path}, row {number}", row
    except (pyarrow.ArrowException, OSError) as error:
        raise ProblemError(f"{path}: cannot be read as parquet after row {number} ({error})") from error


def _problem(
    stem: str, id_field: str | None, problem_field: str, answer_field: str, licence: str, row: Row, index: int
) -> Problem:
    problem_id = f"{stem}/{index}" if id_field is None else _named_field(row, "id", id_field)
    used = {id_field, problem_field, answer_field}
    others = {str(key): json_value(value) for key, value in row.items() if key not in used}
    metadata = {"source": stem, "licence": licence, **others}
    statement = _named_field(row, "problem", problem_field)
    if answer_field not in row and (row.get("rubric") or row.get("documents")):
        return Problem(problem_id, statement, None, "open", metadata)
    answer = _named_field(_with_one_answer(row, answer_field), "answer", answer_field)
    return Problem(problem_id, statement, answer, metadata=metadata)


def _with_one_answer(row: Row, field: str) -> Row:
    """The row with its answer, where that is the only one of a list (OlympiadBench) or of JSON (Skywork)."""
    value = row.get(field)
    if isinstance(value, str) and value.strip().startswith('["'):
        with suppress(ValueError):
            value = json.loads(value)
    if not isinstance(value, (list, tuple)):
        return row
    if len(value) != 1:
        raise BadField(field, f"is a list of {len(value)} answers: it must be one text")
    return {**row, field: value[0]}


def _named_field(row: Row, role: str, field: str) -> str:
    """The text of a row's field; where there is none, the error says how to name another."""
    try:
        return required_text(row, field)
    except BadField as error:
        if field in row:
            raise
        way = f"fields={{'{role}': NAME}} (--fields {role}=NAME) names the field that has it"
        if role == "id":
            way += ", and fields={'id': None} (--fields id=) numbers the problems"
        raise BadField(field, f"{error.why}; {way}") from None
