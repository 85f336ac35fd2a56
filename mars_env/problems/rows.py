"""Converts rows into problems; checks every file and every real set, and reports place and field."""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

from mars_env.errors import ProblemError
from mars_env.problems.problem_set import Listed
from mars_env.text import counted, describe_error
from mars_env.types import Problem

Row = Mapping[str, Any]

Convert = Callable[[Row, int], Problem]
"""A pure function of a row and its index (from 0); raises `BadField`."""


class BadField(ValueError):
    """A field of a row is missing or cannot be used."""

    def __init__(self, field: str, why: str) -> None:
        super().__init__(f"field {field!r} {why}")
        self.field, self.why = field, why


class Untestable(BadField):
    """A row of code has no tests, or none that can be kept; real sets leave such rows out."""


def required_text(row: Row, field: str) -> str:
    """A field's string, neither missing nor empty (`BadField`); a finite number becomes its digits."""
    if field not in row:
        raise BadField(field, f"is missing; the row has: {', '.join(map(str, row)) or 'nothing'}")
    value = row[field]
    if isinstance(value, float) and math.isfinite(value):
        value = int(value) if value.is_integer() else value
    elif isinstance(value, bool) or not isinstance(value, (str, int)):
        kind = "null" if value is None else type(value).__name__
        raise BadField(field, f"must be text or a finite number, not {kind}")
    text = str(value).strip()
    if not text:
        raise BadField(field, "is empty")
    return text


def json_value(value: Any) -> Any:
    """A value as what JSON can represent; anything else becomes its string."""
    if isinstance(value, float) and not math.isfinite(value):  # JSON does not have these
        return None if math.isnan(value) else str(value)  # tables use NaN for "missing"
    if value is None or isinstance(value, (str, int, float)):
        return value
    if isinstance(value, Mapping):
        return {str(key): json_value(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_value(item) for item in value]
    return str(value)


def read_problems(
    rows: Iterable[tuple[str, Row]],
    convert: Convert,
    source: object = None,
    *,
    duplicates: Literal["refuse", "merge"] = "refuse",
    untestable: Literal["refuse", "leave out"] = "refuse",
) -> tuple[Listed, str]:
    """Convert rows one by one; also returns what a reader of results should know of those left out.

    Args:
        rows: Pairs of a place (``"p.jsonl, line 3"``) and a row.
        convert: Makes a problem from a row.
        source: What must contain problems; None if there may be none.
        duplicates: ``"merge"``: rows with the same statement become one problem; those with contradictory
            references are left out.
        untestable: ``"leave out"``: rows that raise `Untestable` are left out.

    Raises:
        ProblemError: A row is bad; the message gives place and field. Or there are no problems.
    """
    notes: list[str] = []
    problems: list[tuple[str, Problem]] = []
    left_out = 0
    for index, (place, row) in enumerate(rows):
        try:
            problems.append((place, _converted(convert, place, row, index)))
        except Untestable as error:
            if untestable == "refuse":
                raise ProblemError(f"{place}: {error}") from error
            left_out += 1
    if duplicates == "merge":
        problems = _merged(problems, notes)
    if left_out:
        notes.append(f"{counted(left_out, 'row')} without tests that can be used left out")
    if source is not None and not problems:
        raise ProblemError(f"{source} contains no problems")
    return Listed([problem for _, problem in problems], [place for place, _ in problems]), ", ".join(notes)


def _converted(convert: Convert, place: str, row: Row, index: int) -> Problem:
    """A row's problem. An `Untestable` passes; what else is wrong with the row becomes a `ProblemError`."""
    try:
        return convert(row, index)
    except Untestable:
        raise
    except BadField as error:
        raise ProblemError(f"{place}: {error}") from error
    except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError, RecursionError) as error:
        raise ProblemError(f"{place}: the row has no known form ({describe_error(error)})") from error


def _merged(problems: Iterable[tuple[str, Problem]], notes: list[str]) -> list[tuple[str, Problem]]:
    """One problem for each statement; none for a statement with contradictory references."""
    groups: dict[str, list[tuple[str, Problem]]] = {}
    for place, problem in problems:
        groups.setdefault(" ".join(problem.statement.split()), []).append((place, problem))
    agreeing = [
        group for group in groups.values() if all(p.reference == group[0][1].reference for _, p in group)
    ]
    merged = sum(len(group) - 1 for group in groups.values())
    if merged:
        notes.append(f"{merged} duplicate rows merged")
        notes.append(f"{counted(len(groups) - len(agreeing), 'problem')} with contradictory answers left out")
    return [group[0] for group in agreeing]
