"""Turns as rows of plain data, and back: what a store writes and every reader reads."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields
from operator import attrgetter
from typing import Any

from mars_env.types import Action, Completion, Grade, Problem, Turn, Verdict

_TURN_FIELDS = [f.name for f in fields(Turn) if f.name not in ("action", "grade")]
_COMPLETION_FIELDS = [f.name for f in fields(Completion)]
_GRADE_FIELDS = [f.name for f in fields(Grade)]
_turn_values, _completion_values, _grade_values = (  # several times faster than getattr for each field
    attrgetter(*names) for names in (_TURN_FIELDS, _COMPLETION_FIELDS, _GRADE_FIELDS)
)
_PROBLEM_FIELDS = [f.name for f in fields(Problem)]


def turn_to_row(turn: Turn) -> dict[str, Any]:
    """A turn as plain data, token ids exactly as they were sampled.

    Example:
        >>> turn = Turn("p#0", "0", None, "p#0/0", "solver_0", "solver", "p", Action("4"), Grade.correct())
        >>> turn_from_row(turn_to_row(turn)) == turn
        True
    """
    row: dict[str, Any] = dict(zip(_TURN_FIELDS, _turn_values(turn), strict=True))
    row["info"] = dict(turn.info)
    row["text"] = turn.action.text
    row["completions"] = [
        dict(zip(_COMPLETION_FIELDS, _completion_values(completion), strict=True))
        for completion in turn.action.completions
    ]
    grade = turn.grade
    row["grade"] = None if grade is None else dict(zip(_GRADE_FIELDS, _grade_values(grade), strict=True))
    return row


def turn_from_row(row: Mapping[str, Any]) -> Turn:
    """The turn of a row.

    Raises:
        KeyError, TypeError, ValueError: The row is not one of a turn.
    """
    grade = row["grade"]
    if grade is not None:
        grade = Grade(**{**grade, "verdict": Verdict(grade["verdict"])})
    completions = tuple(_completion(completion) for completion in row["completions"])
    return Turn(
        action=Action(row["text"], completions), grade=grade, **{name: row[name] for name in _TURN_FIELDS}
    )


def _completion(row: Mapping[str, Any]) -> Completion:
    sequences = ("prompt_ids", "token_ids", "logprobs")
    values = {**row, **{name: tuple(row[name]) for name in sequences}}
    values["versions"] = tuple((version, count) for version, count in row["versions"])
    return Completion(**values)


def problem_to_row(problem: Problem) -> dict[str, Any]:
    """A problem as plain data, reference included: a run can be graded again from its own files.

    Example:
        >>> problem = Problem("p", "2 + 2?", "4")
        >>> problem_from_row(problem_to_row(problem)) == problem
        True
    """
    return {**{name: getattr(problem, name) for name in _PROBLEM_FIELDS}, "metadata": dict(problem.metadata)}


def problem_from_row(row: Mapping[str, Any]) -> Problem:
    """The problem of a row."""
    return Problem(**{name: untagged(row[name]) for name in _PROBLEM_FIELDS})


def tagged(value: Any) -> Any:
    """Plain data with NaN and infinities, which JSON does not have, in the form ``{"$float": "nan"}``.

    Example:
        >>> tagged([1.5, float("inf")]), untagged({"$float": "inf"})
        ([1.5, {'$float': 'inf'}], inf)
    """
    if isinstance(value, float) and not math.isfinite(value):
        return {"$float": repr(value)}
    if isinstance(value, Mapping):
        return {key: tagged(item) for key, item in value.items()}
    return [tagged(item) for item in value] if isinstance(value, list | tuple) else value


def untagged(value: Any) -> Any:
    """The inverse of `tagged`."""
    if isinstance(value, list):
        return [untagged(item) for item in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {"$float"} and value["$float"] in ("nan", "inf", "-inf"):
        return float(value["$float"])
    return {key: untagged(item) for key, item in value.items()}
