"""Checks of files of samples (`mars_env.trainers.sample_files`), row by row and group by group.

The rows may come from any library. `mars-env check-rows` prints what is wrong.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, Literal, NamedTuple

import numpy as np

from mars_env.text import describe_error
from mars_env.trainers.sample_files import BadRow, sample_from_row
from mars_env.trainers.samples import TurnSample

Rule = Literal["group_normalised", "mean_centred", "leave_one_out", "any"]
"""How advantages follow from rewards, see `mars_env.trainers.advantages`; ``"any"``: that is not checked."""

TOLERANCE: Final = 1e-3
"""Of sums of advantages: they may have been stored with few digits."""

_OF_A_TURN: Final = ("group_id", "agent", "policy", "reward", "advantage")


class RowProblem(NamedTuple):
    """What is wrong with a row: its line, from 1, the field, and why."""

    row: int
    field: str
    message: str


class _Turn(NamedTuple):
    row: int  # its first one
    values: TurnSample


def check_rows(lines: Iterable[bytes], rule: Rule = "group_normalised") -> Iterator[RowProblem]:
    """What is wrong with the lines of a file: each row by itself; and, if nothing is, the groups.

    Example:
        >>> [(problem.row, problem.field) for problem in check_rows([b'{"schema": "mars-env.samples/3"'])]
        [(1, '')]
    """
    turns: dict[tuple[str, str], _Turn] = {}
    is_right = True
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        row = _parse_row(line)
        if isinstance(row, TurnSample):
            first = turns.setdefault((row.tree_id, row.turn_id), _Turn(number, row))
            problems = _turn_problems(number, row, first)
        else:
            problems = [RowProblem(number, field, message) for field, message in row.items()]
        for problem in problems:
            is_right = False
            yield problem
    if is_right and rule != "any":
        groups: dict[str, list[_Turn]] = {}
        for turn in turns.values():
            groups.setdefault(turn.values.group_id, []).append(turn)
        for members in groups.values():
            yield from _group_problems(members, rule)


def _parse_row(line: bytes) -> TurnSample | Mapping[str, str]:
    try:
        return sample_from_row(json.loads(line.decode("utf-8-sig")))
    except BadRow as error:
        return error.faults
    except (ValueError, RecursionError) as error:
        return {"": f"not a row of JSON ({describe_error(error)})"}


def _turn_problems(number: int, row: TurnSample, first: _Turn) -> list[RowProblem]:
    return [
        RowProblem(number, field, f"row {first.row} of the same turn has another value")
        for field in _OF_A_TURN
        if getattr(row, field) != getattr(first.values, field)
    ]


def _group_problems(turns: Sequence[_Turn], rule: Rule) -> list[RowProblem]:
    """Whether the advantages of a group add up to 0, and their squares to what the rule gives."""
    advantages = np.array([turn.values.advantage for turn in turns])
    rewards = np.array([turn.values.reward for turn in turns])
    first, size = turns[0], len(turns)
    where = f"of the {size} turns of the group {first.values.group_id!r}"
    scale = max(1.0, float(np.abs(advantages).sum()))
    if abs(advantages.sum()) > TOLERANCE * scale:
        return [RowProblem(first.row, "advantage", f"those {where} add up to {advantages.sum():.4g}, not 0")]
    squares = float(np.square(advantages).sum())
    expected = _squares(rewards, rule)
    if not any(abs(squares - value) <= TOLERANCE * max(1.0, value) for value in expected):
        message = f"the squares of those {where} add up to {squares:.4g}; by {rule} to {expected[0]:.4g}"
        return [RowProblem(first.row, "advantage", message)]
    return []


def _squares(rewards: "np.ndarray[tuple[int], np.dtype[np.float64]]", rule: Rule) -> list[float]:
    """The sums of squared advantages that a rule may give; divided by n - 1 or by n where it normalises."""
    size, spread = len(rewards), float(np.square(rewards - rewards.mean()).sum())
    if len(set(rewards.tolist())) < 2:
        return [0.0]
    if rule == "group_normalised":
        return [size - 1.0, float(size)]
    return [spread * (size / (size - 1)) ** 2 if rule == "leave_one_out" else spread]
