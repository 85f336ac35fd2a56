"""Checks the references of code problems before a program runs: a bad reference makes no answer wrong."""

from __future__ import annotations

from collections.abc import Mapping
from types import NoneType
from typing import Any

from mars_env.errors import ProblemError
from mars_env.grading.code.compare import COMPARISONS
from mars_env.problems.code import MEMORY_LIMITS, TIME_LIMITS

MOST_TOLERANCE = 1e9
_Kinds = Mapping[str, type | tuple[type, ...]]
_LIST = (list, tuple)
_FIELDS: Mapping[str, _Kinds] = {
    "stdin": {},
    "function_call": {"fn_name": str, "method": bool, "prelude": bool},
    "asserts": {"entry_point": (str, NoneType), "imports": _LIST, "prompt": str, "prelude": bool},
}
_TESTS: Mapping[str, _Kinds] = {
    "stdin": {"input": str, "output": str},
    "function_call": {"arguments": _LIST, "accept": _LIST},
    "asserts": {"code": str},
}


def check_reference(reference: Any) -> None:
    """Refuse a reference by which no program could be judged.

    Raises:
        ProblemError: Its form is unknown, a field is missing, or a value cannot be used; the message says
            which.

    Example:
        >>> check_reference({"form": "stdin", "tests": [{"input": "", "output": "1", "public": True}]})
        >>> check_reference({"form": "stdin", "tests": [{"input": "", "output": 1, "public": True}]})
        Traceback (most recent call last):
        mars_env.errors.ProblemError: tests[0].output has the wrong type, int
    """
    if not isinstance(reference, Mapping):
        raise ProblemError(f"the reference must be a table of tests, not a {type(reference).__name__}")
    form = reference.get("form")
    if not isinstance(form, str) or form not in _FIELDS:
        raise ProblemError("form is unknown")
    _check(reference, {**_FIELDS[form], "tests": _LIST}, "")
    for index, test in enumerate(reference["tests"]):
        where = f"tests[{index}]"
        if not isinstance(test, Mapping):
            raise ProblemError(f"{where} must be a table, not a {type(test).__name__}")
        _check(test, {**_TESTS[form], "public": bool}, f"{where}.")
        if form == "function_call" and not test["accept"]:
            raise ProblemError(f"{where}.accept is empty")
        if form == "stdin":
            _check_text(test["input"], f"{where}.input")
            _check_text(test["output"], f"{where}.output")
    if not reference["tests"]:
        raise ProblemError("tests is empty")
    if form == "function_call" and not reference["fn_name"].isidentifier():
        raise ProblemError("fn_name must be the name of a function")
    if not isinstance(reference.get("checker"), str | NoneType):
        raise ProblemError("checker must be a program")
    if reference.get("comparison", "lines") not in COMPARISONS:
        raise ProblemError(f"comparison must be one of: {', '.join(COMPARISONS)}")
    for name in ("checker", "prompt"):
        if "\0" in (reference.get(name) or ""):
            raise ProblemError(f"{name} contains a NUL character")
        _check_text(reference.get(name) or "", name)
    _check_limit(reference, "time_limit", *TIME_LIMITS)
    _check_limit(reference, "memory_limit", *MEMORY_LIMITS)
    _check_limit(reference, "tolerance", 0, MOST_TOLERANCE)


def _check(row: Mapping[str, Any], kinds: _Kinds, where: str) -> None:
    for name, kind in kinds.items():
        if name not in row:
            raise ProblemError(f"{where}{name} is missing")
        if not isinstance(row[name], kind):
            raise ProblemError(f"{where}{name} has the wrong type, {type(row[name]).__name__}")


def _check_text(text: str, where: str) -> None:
    if not text.isascii():  # Python knows this without reading the text
        try:
            text.encode()
        except UnicodeEncodeError:
            raise ProblemError(f"{where} contains a lone surrogate, which is not a character") from None


def _check_limit(reference: Mapping[str, Any], name: str, least: float, most: float) -> None:
    value = reference.get(name)
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise ProblemError(f"{name} must be from {least} to {most}")
