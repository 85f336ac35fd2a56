"""Checks the references of code problems before a program runs: a bad reference makes no answer wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from mars_env.errors import ProblemError
from mars_env.grading.code.compare import Comparison
from mars_env.problems.code import LEAST_BYTES, LEAST_SECONDS, MOST_BYTES, MOST_SECONDS
from mars_env.text import unfit

MOST_TOLERANCE = 1e9


def _encodable(text: str) -> str:
    if not text.isascii():  # Python knows this without reading the string
        text.encode()  # a lone surrogate raises a ValueError
    return text


def _without_nul(text: str) -> str:
    if "\0" in text:
        raise ValueError("it contains a NUL character")
    return text


_Text = Annotated[str, AfterValidator(_encodable)]
_Source = Annotated[_Text, AfterValidator(_without_nul)]
_Items = list[Any] | tuple[Any, ...]


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore", allow_inf_nan=False)


class _Test(_Strict):
    public: bool


class _StdinTest(_Test):
    input: _Text
    output: _Text


class _CallTest(_Test):
    arguments: _Items
    accept: Annotated[_Items, Field(min_length=1)]


class _SuiteTest(_Test):
    code: str


class _Reference(_Strict):
    checker: _Source | None = None
    comparison: Comparison = "lines"
    time_limit: float | None = Field(None, ge=LEAST_SECONDS, le=MOST_SECONDS)
    memory_limit: float | None = Field(None, ge=LEAST_BYTES, le=MOST_BYTES)
    tolerance: float | None = Field(None, ge=0, le=MOST_TOLERANCE)


class _Stdin(_Reference):
    form: Literal["stdin"]
    tests: Sequence[_StdinTest] = Field(min_length=1)


class _FunctionCall(_Reference):
    form: Literal["function_call"]
    fn_name: str = Field(pattern=r"^[^\W\d]\w*$")
    method: bool
    prelude: bool
    tests: Sequence[_CallTest] = Field(min_length=1)


class _Asserts(_Reference):
    form: Literal["asserts"]
    entry_point: str | None
    imports: _Items
    prompt: _Source
    prelude: bool
    tests: Sequence[_SuiteTest] = Field(min_length=1)


_FORMS: TypeAdapter[Any] = TypeAdapter(
    Annotated[_Stdin | _FunctionCall | _Asserts, Field(discriminator="form")]
)


def check_tests(reference: Any) -> None:
    """Refuse a reference by which no program could be judged.

    Raises:
        ProblemError: A field is missing or its value cannot be used; the message says which.

    Example:
        >>> check_tests({"form": "stdin", "tests": [{"input": "", "output": "1", "public": True}]})
        >>> check_tests({"form": "stdin", "tests": [{"input": "", "output": 1, "public": True}]})
        Traceback (most recent call last):
        mars_env.errors.ProblemError: stdin.tests.0.output: Input should be a valid string
    """
    try:
        _FORMS.validate_python(dict(reference) if isinstance(reference, Mapping) else reference)
    except ValidationError as error:
        raise ProblemError(unfit(error)) from error
