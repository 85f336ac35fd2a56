"""Files of samples, for trainers that live elsewhere: a line of JSON for each, with its schema's version."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, Field, FiniteFloat, ValidationError, ValidationInfo, field_validator

from mars_env.checks import MAX_TOKEN_ID, SLACK
from mars_env.errors import StoreError, explained
from mars_env.files import jsonl_rows, open_regular
from mars_env.rollout.exports import write_jsonl
from mars_env.text import shown, validation_message
from mars_env.trainers.samples import TurnSample
from mars_env.types import UNKNOWN_LOGPROB, role_of

SCHEMA: Final = "mars-env.samples/3"
"""Of a row: name and version. A field that is added or changes its meaning raises the version."""

TokenId = Annotated[int, Field(ge=0, lt=MAX_TOKEN_ID)]
LogProbability = Annotated[float, Field(gt=UNKNOWN_LOGPROB, le=SLACK)]
Count = Annotated[int, Field(ge=0)]


class SampleRow(BaseModel, strict=True, frozen=True):
    """A row as it is in the file (docs/other-trainers.md); `TurnSample` is its value in Python.

    Other fields are ignored.
    """

    schema_name: Literal["mars-env.samples/3"] = Field(alias="schema")
    tree_id: str
    turn_id: str
    group_id: str
    agent: str
    role: str
    policy: str
    prompt_ids: list[TokenId] = Field(min_length=1)
    read_prompt_ids: list[TokenId] = []
    completion_ids: list[TokenId] = Field(min_length=1)
    completion_mask: list[Literal[0, 1]] = []
    logprobs: list[LogProbability]
    temperature: float = Field(gt=0, allow_inf_nan=False)
    versions: list[Annotated[list[Count], Field(min_length=2, max_length=2)]]
    truncated: bool
    reward: FiniteFloat
    score: float | None = Field(default=None, ge=0, le=1)
    advantage: FiniteFloat

    @field_validator("role")
    @classmethod
    def _of_agent(cls, role: str, info: ValidationInfo) -> str:
        agent = info.data.get("agent", role)
        if role_of(agent) != role:
            raise ValueError(f"the role of {shown(agent)} is {shown(role_of(agent))}")
        return role

    @field_validator("completion_mask")
    @classmethod
    def _of_completion(cls, mask: list[int], info: ValidationInfo) -> list[int]:
        _require_length(mask or info.data.get("completion_ids", mask), info)
        if mask and not mask[0] == mask[-1] == 1:
            raise ValueError("a completion begins and ends with a sampled token, 1")
        return mask

    @field_validator("logprobs")
    @classmethod
    def _of_tokens(cls, values: list[float], info: ValidationInfo) -> list[float]:
        _require_length(values, info)
        mask = info.data.get("completion_mask")
        if mask and any(value and not sampled for value, sampled in zip(values, mask, strict=False)):
            raise ValueError("a token that was not sampled has the log-probability 0")
        return values

    @field_validator("versions")
    @classmethod
    def _of_sampled_tokens(cls, versions: list[list[int]], info: ValidationInfo) -> list[list[int]]:
        ids, mask = info.data.get("completion_ids"), info.data.get("completion_mask")
        if versions and ids is not None and mask is not None:
            sampled, counted = sum(mask) if mask else len(ids), sum(number for _, number in versions)
            if counted != sampled:
                raise ValueError(f"they count {counted} tokens, and {sampled} were sampled")
        return versions


def _require_length(values: Sequence[Any], info: ValidationInfo) -> None:
    """As many values as there are token ids, if these are right themselves."""
    ids = info.data.get("completion_ids")
    if ids is not None and len(values) != len(ids):
        raise ValueError(f"there are {len(values)}, and {len(ids)} completion_ids")


def sample_to_row(sample: TurnSample) -> dict[str, Any]:
    """A sample as plain data."""
    values = {field.name: getattr(sample, field.name) for field in fields(sample)}
    plain = {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
    return {"schema": SCHEMA} | plain | {"versions": [list(pair) for pair in sample.versions]}


def sample_from_row(row: Mapping[str, Any]) -> TurnSample:
    """The sample of a row; a ValueError says what is wrong, also with a row of another version."""
    try:
        values = SampleRow.model_validate(dict(row)).model_dump(exclude={"schema_name"})
    except ValidationError as error:
        raise ValueError(validation_message(error)) from error
    return TurnSample(
        **{name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
        | {"versions": tuple((version, number) for version, number in values["versions"])}
        | {"logprobs": tuple(min(value, 0.0) for value in values["logprobs"])}
    )


def write_samples(path: str | Path, samples: Iterable[TurnSample]) -> int:
    """Write samples, one a line; returns their number. The file is whole or not there."""
    return write_jsonl(map(sample_to_row, samples), path)


def read_samples(path: str | Path) -> Iterator[TurnSample]:
    """The samples of a file; a `StoreError` if it cannot be read, or a row is none of this version's."""
    with explained(StoreError, f"{path} cannot be read", OSError), open_regular(Path(path)) as file:
        for place, row in jsonl_rows(Path(path), file, StoreError):
            with explained(StoreError, place, ValueError):
                yield sample_from_row(row)
