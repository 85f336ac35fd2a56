"""Turns as rows of plain data, and back: what a store writes and reads."""

import hashlib
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from operator import attrgetter
from types import MappingProxyType, NoneType
from typing import Any

from mars_env.checks import finite, valid_call, valid_completion, valid_count
from mars_env.envs.rewards import REWARD_FAULTS
from mars_env.rollout.engine import LEFT_OUT
from mars_env.text import brief
from mars_env.types import Action, Completion, Grade, Problem, ToolCall, Turn, Verdict

_TURN_FIELDS = [f.name for f in fields(Turn) if f.name not in ("action", "grade")]
_TURN_COLUMNS = [name.removesuffix("_id") for name in _TURN_FIELDS]  # files say "tree" for `tree_id`
_COMPLETION_FIELDS = [f.name for f in fields(Completion)]
_GRADE_FIELDS = [f.name for f in fields(Grade)]
_turn_values, _completion_values, _grade_values = (  # several times faster than getattr for each field
    attrgetter(*names) for names in (_TURN_FIELDS, _COMPLETION_FIELDS, _GRADE_FIELDS)
)
_TURN_ID = re.compile(r"\d{1,9}(\.\d{1,9})*", re.A)
_TURN_KINDS: Mapping[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("tree", "id", "group", "agent", "policy", "problem", "text"), str),
    "parent": (str, NoneType), "grade": (dict, NoneType), "info": dict, "completions": list,
}  # fmt: skip
_TREE_KINDS: Mapping[str, type | tuple[type, ...]] = {
    "tree": str, "problem": str, "final": (str, NoneType), "fault": str, "turns": int, "checksum": int,
    "rewards": dict, "info": dict,
}  # fmt: skip

MAX_DEPTH = 64
"""Plain data of a stored run may be nested to this depth."""

_PROBLEM_FIELDS = [f.name for f in fields(Problem)]


def text_id(text: str) -> str:
    """The id under which the text of a message is stored, once in a run."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


def turn_to_row(turn: Turn) -> dict[str, Any]:
    """A turn as plain data, token ids exactly as they were sampled, and messages by the ids of their texts.

    Example:
        >>> turn = Turn("p#0", "0", None, "p#0/0", "solver_0", "solver", "p", Action("4"), Grade.correct())
        >>> turn_from_row(turn_to_row(turn)) == turn
        True
    """
    row: dict[str, Any] = dict(zip(_TURN_COLUMNS, _turn_values(turn), strict=True))
    row["info"] = dict(turn.info)
    row["text"] = turn.action.text
    row["completions"] = [_completion_row(completion) for completion in turn.action.completions]
    if turn.action.calls:
        row["calls"] = [asdict(call) for call in turn.action.calls]
    grade = turn.grade
    row["grade"] = None if grade is None else dict(zip(_GRADE_FIELDS, _grade_values(grade), strict=True))
    if grade is not None and not grade.details:
        del row["grade"]["details"]
    return row


def _completion_row(completion: Completion) -> dict[str, Any]:
    row = dict(zip(_COMPLETION_FIELDS, _completion_values(completion), strict=True))
    row["messages"] = [[role, text_id(text)] for role, text in completion.messages]
    for name in ("train_prompt_ids", "fault", "messages"):
        if not row[name]:
            del row[name]
    if row["informed_gain"] is None:
        del row["informed_gain"]
    return row


def turn_from_row(row: Mapping[str, Any], texts: Mapping[str, str] = MappingProxyType({})) -> Turn:
    """The turn of a row, with the messages in `texts`; a KeyError, TypeError or ValueError if it is none."""
    _check(row, _TURN_KINDS)
    _require(row, _TURN_COLUMNS)
    if _TURN_ID.fullmatch(row["id"]) is None or not _is_above(row["parent"], row["id"]):
        place = f"the turn {brief(row['id'])} of the parent {brief(row['parent'])}"
        raise ValueError(f"{place} is not a valid place in a tree")
    for name in ("reward", "search_score"):
        if row[name] is not None:
            finite(row[name])
    finite(row["seconds"])
    grade = row["grade"]
    if grade is not None:
        _known(grade, _GRADE_FIELDS, ["verdict"])
        check_plain(grade)
        grade = Grade(**{**grade, "verdict": Verdict(grade["verdict"])})
    completions = tuple(_completion(completion, texts) for completion in row["completions"])
    calls = tuple(valid_call(ToolCall(**call), len(completions)) for call in row.get("calls", ()))
    check_plain(row["info"])
    valid_count(row["info"].get("search_tokens", 0))
    values = {name: row[column] for name, column in zip(_TURN_FIELDS, _TURN_COLUMNS, strict=True)}
    return Turn(action=Action(row["text"], completions, calls), grade=grade, **values)


def _completion(row: Mapping[str, Any], texts: Mapping[str, str]) -> Completion:
    sequences = ("prompt_ids", "token_ids", "logprobs")
    _known(row, _COMPLETION_FIELDS, [*sequences, "versions", "text"])
    values = {**row, **{name: tuple(row[name]) for name in sequences}}
    values["train_prompt_ids"] = tuple(row.get("train_prompt_ids", ()))
    values["versions"] = tuple((version, count) for version, count in row["versions"])
    messages = ((role, texts.get(text)) for role, text in row.get("messages", ()))
    values["messages"] = tuple((role, text) for role, text in messages if text is not None)
    return valid_completion(Completion(**values))


def check_tree_row(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """The row, if it describes a finished tree; raises as `turn_from_row`."""
    _check(row, _TREE_KINDS)
    problem, mark, number = row["tree"].rpartition("#")
    if not mark or re.fullmatch(r"\d{1,9}", number, re.A) is None:
        raise ValueError("a tree's id ends in '#' and the number of a sample")
    if problem != row["problem"]:
        raise ValueError(f"the problem of this tree is not {brief(row['problem'])}")
    valid_count(row["turns"])
    valid_count(row["checksum"], 2**32 - 1)
    for reward in row["rewards"].values():
        if reward is not None:
            finite(reward)
    info = row["info"]
    check_plain(info)
    of_tree = {REWARD_FAULTS: dict, LEFT_OUT: list}
    _check({name: info.get(name, kind()) for name, kind in of_tree.items()}, of_tree)
    valid_count(info.get("choice_tokens", 0))
    return row


def check_plain(value: object, depth: int = MAX_DEPTH) -> None:
    """Raise a ValueError for data that is nested so deeply that later readers would fail."""
    for number, _ in enumerate(_levels(value)):
        if number > depth:
            raise ValueError("it is nested too deeply")


def _levels(value: object) -> Iterator[list[Any]]:
    """Plain data level by level, without recursion whatever its depth."""
    level: list[Any] = [value]
    while level:
        yield level
        nested = (container.values() if isinstance(container, dict) else container for container in level
                  if isinstance(container, dict | list))  # fmt: skip
        level = [item for items in nested for item in items]


def _check(row: Mapping[str, Any], kinds: Mapping[str, type | tuple[type, ...]]) -> None:
    _require(row, kinds)
    for name, kind in kinds.items():
        if not isinstance(row[name], kind):
            raise TypeError(f"the field {name!r} is {brief(row[name])}")


def _require(row: Mapping[str, Any], names: Iterable[str]) -> None:
    for name in names:
        if name not in row:
            raise ValueError(f"the field {name!r} is missing")


def _known(row: Mapping[str, Any], names: Sequence[str], required: Iterable[str]) -> None:
    for name in row:
        if name not in names:
            raise ValueError(f"there is no field {brief(name)}, only {', '.join(names)}")
    _require(row, required)


def _is_above(parent_id: str | None, turn_id: str) -> bool:
    """Whether a parent is on a higher level than the turn, so that no turn is its own ancestor."""
    return parent_id is None or (
        _TURN_ID.fullmatch(parent_id) is not None and parent_id.count(".") < turn_id.count(".")
    )


def problem_to_row(problem: Problem) -> dict[str, Any]:
    """A problem as plain data, reference included: a run can be graded again from its own files."""
    return {**{name: getattr(problem, name) for name in _PROBLEM_FIELDS}, "metadata": dict(problem.metadata)}


def read_problem(row: Mapping[str, Any]) -> Problem:
    """The problem of a row of `problem_to_row`; raises as `turn_from_row`."""
    _check(row, {"id": str, "statement": str, "kind": str, "metadata": dict})
    check_plain(row["metadata"])
    check_plain(row["reference"], 500)  # a program's arguments may be trees
    values = {name: row[name] for name in _PROBLEM_FIELDS}
    if any(isinstance(item, dict) and "$float" in item for level in _levels(values) for item in level):
        values = {name: untagged(value) for name, value in values.items()}
    return Problem(**values)


def tagged(value: Any) -> Any:
    """Plain data in which NaN and infinities, which JSON lacks, have the form ``{"$float": "nan"}``.

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
