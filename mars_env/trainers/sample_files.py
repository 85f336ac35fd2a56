"""Files of samples, for trainers that live elsewhere: a line of JSON for each, with its schema's version."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from mars_env.rollout.exports import write_jsonl
from mars_env.text import brief
from mars_env.trainers.samples import TurnSample
from mars_env.types import role_of

SCHEMA: Final = "mars-env.samples/3"
"""Of a row: name and version. A field that is added or changes its meaning raises the version."""

_ADAPTER: Final = TypeAdapter(TurnSample)


class BadRow(ValueError):
    """A row is none of this version's; `faults` says why, by field."""

    def __init__(self, faults: Mapping[str, str]) -> None:
        super().__init__("; ".join(f"{field}: {fault}" for field, fault in faults.items()))
        self.faults = faults


def sample_to_row(sample: TurnSample) -> dict[str, Any]:
    """A sample as plain data."""
    values = {field.name: getattr(sample, field.name) for field in fields(sample)}
    plain = {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
    return {"schema": SCHEMA} | plain | {"versions": [list(pair) for pair in sample.versions]}


def sample_from_row(row: Mapping[str, Any]) -> TurnSample:
    """The sample of a row, whose other fields are ignored; a `BadRow` if something is wrong with it."""
    try:
        sample = _ADAPTER.validate_python(row)
        faults = dict(_misfits(sample))
    except ValidationError as error:
        faults = {}
        for each in error.errors(include_url=False, include_input=False, include_context=False):
            field, *place = map(str, each["loc"] or ("",))
            faults.setdefault(field, each["msg"] + (f" at {'.'.join(place)}" if place else ""))
    if not isinstance(row, Mapping) or row.get("schema") != SCHEMA:
        faults["schema"] = f"it is not {SCHEMA!r}"
    if faults:
        raise BadRow(faults)
    return replace(sample, logprobs=tuple(min(value, 0.0) for value in sample.logprobs))


def _misfits(sample: TurnSample) -> Iterator[tuple[str, str]]:
    mask, size = sample.completion_mask, len(sample.completion_ids)
    if role_of(sample.agent) != sample.role:
        yield "role", f"the role of {brief(sample.agent)} is {brief(role_of(sample.agent))}"
    if len(mask) != size or not mask[0] == mask[-1] == 1:
        yield "completion_mask", f"it marks each of the {size} completion_ids, the first and the last by 1"
    if len(sample.logprobs) != size:
        yield "logprobs", f"there are {len(sample.logprobs)}, and {size} completion_ids"
    if any(value and not sampled for value, sampled in zip(sample.logprobs, mask, strict=False)):
        yield "logprobs", "a token that was not sampled has the log-probability 0"
    counted = sum(number for _, number in sample.versions)
    if sample.versions and counted != sum(mask):
        yield "versions", f"they count {counted} tokens, and {sum(mask)} were sampled"


def write_samples(path: str | Path, samples: Iterable[TurnSample]) -> int:
    """Write samples, one a line, and return their number; the file is whole or not there."""
    return write_jsonl(map(sample_to_row, samples), path)
