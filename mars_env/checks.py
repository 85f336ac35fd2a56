"""Checks of untrusted numbers, token ids and completions: from users' functions, model servers and files."""

import inspect
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, get_args

from mars_env.errors import ConfigError
from mars_env.text import brief
from mars_env.types import UNKNOWN_LOGPROB, Action, Completion, FinishReason, ToolCall

MAX_TOKENS = 2**40
MAX_TOKEN_ID = 2**48  # no vocabulary is larger
SLACK = 0.01  # how far a log-probability may be above 0: engines round in bfloat16


def finite(value: object) -> float:
    """A finite number as a float, else a ValueError; numpy's scalars and booleans count, strings do not."""
    if type(value) is not float:
        if not isinstance(value, Real) and type(value).__name__ not in ("bool", "bool_"):  # also numpy's
            raise ValueError(f"{brief(value)} is not a number")
        try:
            value = float(value)  # type: ignore[arg-type]  # numpy's bool is not a Real, but it is a number
        except OverflowError:
            raise ValueError("it is too large for a number") from None
    if not math.isfinite(value):
        raise ValueError(f"{value} is not a finite number")
    return value


def valid_count(value: object, largest: int = MAX_TOKENS) -> int:
    """An integer from 0 to `largest`, not a boolean; a ValueError for others."""
    if type(value) is not int or not 0 <= value <= largest:
        raise ValueError(f"{brief(value)} is not a count")
    return value


def require_integer(value: object, name: str, least: int = 1) -> int:
    """A user's integer, at least `least`, not a boolean, float or string; else a `ConfigError`."""
    if type(value) is not bool and isinstance(value, Integral) and int(value) >= least:
        return int(value)
    raise ConfigError(f"{name} must be an integer and at least {least}, got {brief(value)}")


def validate_signature(function: Callable[..., Any], parameters: Sequence[str], what: str) -> None:
    """Reject, by a `ConfigError`, a user's function that cannot be called with these positional arguments."""
    expected = f"{what} must be a function of ({', '.join(parameters)})"
    if not callable(function):
        raise ConfigError(f"{expected}, not {brief(function)}")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some functions written in C have none
        return
    try:
        signature.bind(*parameters)
    except TypeError:
        takes = signature.replace(return_annotation=signature.empty)
        raise ConfigError(f"{expected}, but takes {takes}") from None


def token_ids(values: object) -> tuple[int, ...]:
    """Token ids; a ValueError if one is none."""
    ids = _sequence(values)
    if ids and (set(map(type, ids)) != {int} or min(ids) < 0 or max(ids) >= MAX_TOKEN_ID):
        wrong = next(v for v in ids if type(v) is not int or not 0 <= v < MAX_TOKEN_ID)
        raise ValueError(f"{brief(wrong)} is not a token id")
    return ids


def logprobs(values: object) -> tuple[float, ...]:
    """Log-probabilities: above `UNKNOWN_LOGPROB` and, apart from rounding, at most 0; else a ValueError."""
    numbers = _sequence(values)
    if not set(map(type, numbers)) <= {float, int} or not all(UNKNOWN_LOGPROB < v <= SLACK for v in numbers):
        wrong = next(v for v in numbers if type(v) not in (float, int) or not UNKNOWN_LOGPROB < v <= SLACK)
        raise ValueError(f"{brief(wrong)} is not a log-probability")
    return tuple(float(v) if v <= 0 else 0.0 for v in numbers)


def are_logprobs(values: Sequence[float | None]) -> bool:
    """Whether all are log-probabilities: known, finite and, apart from rounding, at most 0.

    Example:
        >>> are_logprobs((-0.5, 0.0)), are_logprobs((None, -1.0)), are_logprobs((0.5,))
        (True, False, False)
    """
    return all(value is not None and UNKNOWN_LOGPROB < value <= SLACK for value in values)


def valid_action(action: object) -> Action:
    """An agent's action whose completions can be stored; else a ValueError.

    Log-probabilities that are missing, NaN or infinite become `UNKNOWN_LOGPROB`: such a turn is not trained.
    """
    if not isinstance(action, Action):
        raise ValueError(f"expected an Action, got a {type(action).__name__}")
    if not isinstance(action.text, str):
        raise ValueError(f"the action's text is {brief(action.text)}, not a string")
    action = replace(action, completions=tuple(map(_with_known_logprobs, action.completions)))
    for completion in action.completions:
        valid_completion(completion)
        if completion.finish_reason not in get_args(FinishReason):  # it might be cut off
            reasons = ", ".join(get_args(FinishReason))
            raise ValueError(f"a finish_reason is one of {reasons}, not {brief(completion.finish_reason)}")
    for call in action.calls:
        valid_call(call, len(action.completions))
    return action


def _with_known_logprobs(completion: Completion) -> Completion:
    if not isinstance(completion, Completion) or all(map(_storable, completion.logprobs)):
        return completion
    return replace(completion, logprobs=tuple(map(_known_logprob, completion.logprobs)))


def _known_logprob(value: float | None) -> float:
    """No row of a store can hold None, NaN or infinities."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return UNKNOWN_LOGPROB
    return value


def valid_call(call: object, completions: int) -> ToolCall:
    """A call of a tool that can be stored, of one of so many completions; else a ValueError."""
    if not isinstance(call, ToolCall):
        raise ValueError(f"expected a ToolCall, got a {type(call).__name__}")
    for name in ("name", "arguments", "result", "outcome"):
        if not isinstance(value := getattr(call, name), str):
            raise ValueError(f"a call's {name} is {brief(value)}, not a string")
    finite(call.seconds)
    valid_count(call.completion)
    if call.completion >= completions:
        raise ValueError(f"a call of completion {call.completion}, and there are {completions}")
    return call


def valid_completion(completion: object) -> Completion:
    """A completion whose numbers can be stored; else a ValueError."""
    if not isinstance(completion, Completion):
        raise ValueError(f"expected a Completion, got a {type(completion).__name__}")
    for name in ("text", "finish_reason", "fault"):
        if not isinstance(value := getattr(completion, name), str):
            raise ValueError(f"a completion's {name} is {brief(value)}, not a string")
    token_ids(completion.prompt_ids)
    token_ids(completion.token_ids)
    token_ids(completion.train_prompt_ids)
    if wrong := [value for value in completion.logprobs if not _storable(value)]:
        raise ValueError(f"{brief(wrong[0])} is not a log-probability")
    finite(completion.temperature)
    if completion.informed_gain is not None:
        finite(completion.informed_gain)
    valid_count(completion.prompt_tokens)
    valid_count(completion.completion_tokens)
    for message in completion.messages:
        if len(message) != 2 or not all(isinstance(text, str) for text in message):
            raise ValueError(f"{brief(message)} is not the role and the text of a message")
    for pair in completion.versions:
        if len(pair) != 2:
            raise ValueError(f"{brief(pair)} is not a version and a number of tokens")
        valid_count(pair[0])
        valid_count(pair[1])
    return completion


def _sequence(values: object) -> tuple[Any, ...]:
    if isinstance(values, Sequence) and not isinstance(values, str | bytes):
        return tuple(values)
    raise ValueError(f"{brief(values)} is not a list")


def _storable(value: object) -> bool:
    # An integer may be too large for a float.
    return isinstance(value, float | int) and not isinstance(value, bool) and abs(value) <= sys.float_info.max
