"""Checks the references of code problems before a program runs: a bad reference makes no answer wrong."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, create_model

from mars_env.errors import ProblemError
from mars_env.grading.code.compare import Comparison
from mars_env.problems.code import MEMORY_LIMITS, TIME_LIMITS
from mars_env.text import validation_message

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

_OPTIONAL: dict[str, Any] = {
    "checker": (_Source | None, None),
    "comparison": (Comparison, "lines"),
    "time_limit": (Annotated[float, Field(ge=TIME_LIMITS[0], le=TIME_LIMITS[1])] | None, None),
    "memory_limit": (Annotated[float, Field(ge=MEMORY_LIMITS[0], le=MEMORY_LIMITS[1])] | None, None),
    "tolerance": (Annotated[float, Field(ge=0, le=MOST_TOLERANCE)] | None, None),
}
_FIELDS: dict[str, dict[str, Any]] = {
    "stdin": {},
    "function_call": {
        "fn_name": Annotated[str, Field(pattern=r"^[^\W\d]\w*$")],
        "method": bool,
        "prelude": bool,
    },
    "asserts": {"entry_point": str | None, "imports": _Items, "prompt": _Source, "prelude": bool},
}
_TESTS: dict[str, dict[str, Any]] = {
    "stdin": {"input": _Text, "output": _Text},
    "function_call": {"arguments": _Items, "accept": Annotated[_Items, Field(min_length=1)]},
    "asserts": {"code": str},
}


def _model(name: str, required: Mapping[str, Any], optional: Mapping[str, Any]) -> type[BaseModel]:
    config = ConfigDict(strict=True, extra="ignore", allow_inf_nan=False)
    fields: dict[str, Any] = {key: (kind, ...) for key, kind in required.items()}
    return create_model(name, __config__=config, **fields, **optional)


def _form(name: str) -> type[BaseModel]:
    test: Any = _model("test", {**_TESTS[name], "public": bool}, {})
    tests = Annotated[Sequence[test], Field(min_length=1)]
    return _model(name, {**_FIELDS[name], "tests": tests}, _OPTIONAL)


_FORMS = {name: _form(name) for name in _FIELDS}


def check_tests(reference: Any) -> None:
    """Raise a `ProblemError` for a reference by which no program could be judged; it says which field.

    Example:
        >>> check_tests({"form": "stdin", "tests": [{"input": "", "output": 1, "public": True}]})
        Traceback (most recent call last):
        mars_env.errors.ProblemError: tests.0.output: Input should be a valid string
    """
    if not isinstance(reference, Mapping):
        raise ProblemError(f"the reference must be a table of tests, not a {type(reference).__name__}")
    form = reference.get("form")
    if not isinstance(form, str) or form not in _FORMS:
        raise ProblemError(f"form must be one of: {', '.join(_FORMS)}")
    try:
        _FORMS[form].model_validate(dict(reference))
    except ValidationError as error:
        raise ProblemError(validation_message(error)) from error
