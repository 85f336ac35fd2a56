"""Files of samples, for trainers that live elsewhere: a line of JSON for each, with its form's version."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from operator import attrgetter
from pathlib import Path
from typing import Any, Final, get_type_hints

from mars_env.checks import finite, logprobs, token_ids, valid_count
from mars_env.errors import StoreError
from mars_env.files import atomic_draft, jsonl_rows, open_regular
from mars_env.text import shown
from mars_env.trainers.samples import TurnSample

SCHEMA: Final = "mars-env.samples/2"
"""The form of a row: name and version. A field that is added or changes its meaning raises the version."""

_NAMES = [field.name for field in fields(TurnSample)]
_values = attrgetter(*_NAMES)
_TEXTS = [name for name, kind in get_type_hints(TurnSample).items() if kind is str]
_NUMBERS = ("temperature", "reward", "advantage")


def sample_to_row(sample: TurnSample) -> dict[str, Any]:
    """A sample as plain data.

    Example:
        >>> sample = TurnSample("p#0", "0", "g", "solver_0", "solver", "mars", (1, 2), (3,), (-0.5,), 1.0,
        ...                     ((0, 1),), False, 1.0, 1.0, 0.5)
        >>> row = sample_to_row(sample)
        >>> row["schema"], row["completion_ids"], sample_from_row(row) == sample
        ('mars-env.samples/2', (3,), True)
    """
    return {"schema": SCHEMA, **dict(zip(_NAMES, _values(sample), strict=True))}


def sample_from_row(row: Mapping[str, Any]) -> TurnSample:
    """The sample of a row.

    Raises:
        ValueError: Says what is wrong; a row of another version is refused.
    """
    told = row.get("schema")
    if told != SCHEMA:
        raise ValueError(
            f"its form is {shown(told)}, and this version reads {SCHEMA!r}: export the run again with "
            "mars-env export --format samples"
            if told is not None
            else f"it does not say its form ({SCHEMA!r}): it is of an older version or of another export"
        )
    if missing := [name for name in _NAMES if name not in row]:
        raise ValueError(f"the field {missing[0]!r} is missing")
    values = {name: row[name] for name in _NAMES}
    for name in _TEXTS:
        if not isinstance(values[name], str):
            raise ValueError(f"{name} is {shown(values[name])}, not a text")
    for name in _NUMBERS:
        values[name] = finite(values[name])
    values["score"] = None if values["score"] is None else finite(values["score"])
    for name in ("prompt_ids", "completion_ids", "read_prompt_ids"):
        values[name] = token_ids(values[name])
    values["logprobs"] = logprobs(values["logprobs"])
    values["versions"] = tuple(
        (valid_count(version), valid_count(tokens)) for version, tokens in values["versions"]
    )
    if type(values["truncated"]) is not bool:
        raise ValueError(f"truncated is {shown(values['truncated'])}, not true or false")
    if len(values["logprobs"]) != len(values["completion_ids"]):
        raise ValueError(
            f"it has {len(values['logprobs'])} log-probabilities of {len(values['completion_ids'])} tokens"
        )
    return TurnSample(**values)


def write_samples(path: str | Path, samples: Iterable[TurnSample]) -> int:
    """Write samples, one a line; returns their number. The file is whole or not there.

    Raises:
        StoreError: It cannot be written.
    """
    number = 0
    try:
        with atomic_draft(Path(path)) as draft, draft.open("w", encoding="utf-8") as file:
            for number, sample in enumerate(samples, 1):  # noqa: B007 (the last number is used below)
                file.write(json.dumps(sample_to_row(sample), allow_nan=False) + "\n")
    except OSError as error:
        raise StoreError(f"{path} cannot be written: {error}") from error
    return number


def read_samples(path: str | Path) -> Iterator[TurnSample]:
    """The samples of a file.

    Raises:
        StoreError: It cannot be read, or a row is none of this version's.
    """
    try:
        with open_regular(Path(path), "rb") as file:
            for place, row in jsonl_rows(Path(path), file, StoreError):
                try:
                    sample = sample_from_row(row)
                except (ValueError, TypeError) as error:
                    raise StoreError(f"{place}: {error}") from error
                yield sample
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error}") from error
