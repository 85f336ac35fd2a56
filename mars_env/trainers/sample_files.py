"""Files of samples, for trainers that live elsewhere: a line of JSON for each, with its schema's version."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from mars_env.checks import logprobs, token_ids
from mars_env.errors import StoreError, explained
from mars_env.files import jsonl_rows, open_regular
from mars_env.rollout.exports import write_jsonl
from mars_env.text import shown, validation_message
from mars_env.trainers.samples import TurnSample

SCHEMA: Final = "mars-env.samples/3"
"""Of a row: name and version. A field that is added or changes its meaning raises the version."""

_ROW: Final = TypeAdapter(TurnSample)


def sample_to_row(sample: TurnSample) -> dict[str, Any]:
    """A sample as plain data."""
    return {"schema": SCHEMA} | {field.name: getattr(sample, field.name) for field in fields(sample)}


def sample_from_row(row: Mapping[str, Any]) -> TurnSample:
    """The sample of a row; a ValueError says what is wrong, also with a row of another version."""
    schema = row.get("schema")
    if schema != SCHEMA:
        raise ValueError(f"its schema is {shown(schema)}, not {SCHEMA!r}: mars-env export writes it anew")
    try:
        sample = _ROW.validate_json(json.dumps(dict(row), allow_nan=False), strict=True)
    except ValidationError as error:
        raise ValueError(validation_message(error)) from error
    for ids in (sample.prompt_ids, sample.completion_ids, sample.read_prompt_ids):
        token_ids(ids)
    logprobs(sample.logprobs)
    if any(number < 0 for pair in sample.versions for number in pair):
        raise ValueError("versions: a number is below 0")
    lengths = len(sample.completion_ids), len(sample.logprobs), len(sample.completion_mask)
    if len(set(lengths)) > 1:
        raise ValueError("it has {} tokens, {} log-probabilities and a mask of {}".format(*lengths))
    if not set(sample.completion_mask) <= {0, 1}:
        raise ValueError("completion_mask: its values are 0 and 1")
    return sample


def write_samples(path: str | Path, samples: Iterable[TurnSample]) -> int:
    """Write samples, one a line; returns their number. The file is whole or not there."""
    return write_jsonl(map(sample_to_row, samples), path)


def read_samples(path: str | Path) -> Iterator[TurnSample]:
    """The samples of a file; a `StoreError` if it cannot be read, or a row is none of this version's."""
    with explained(StoreError, f"{path} cannot be read", OSError), open_regular(Path(path)) as file:
        for place, row in jsonl_rows(Path(path), file, StoreError):
            with explained(StoreError, place, ValueError):
                yield sample_from_row(row)
