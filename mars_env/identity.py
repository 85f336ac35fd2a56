"""What identifies a run: `must_match`, what changes its results; and `may_change`, all else."""

import hashlib
import inspect
import json
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import partial
from pathlib import Path
from types import MethodType
from typing import Any, Final

from pydantic import BaseModel

from mars_env.errors import ConfigError, explained
from mars_env.text import brief

MAY_CHANGE: Final = "may_change"
"""Marks a setting that a continued run may change: ``Annotated[int, MAY_CHANGE]``. All others must match."""


def settings_identity(settings: BaseModel) -> dict[str, dict[str, Any]]:
    """The values of settings, and of settings inside them, in the two parts.

    Example:
        >>> from typing import Annotated
        >>> class Limits(BaseModel):
        ...     seed: int = 0
        ...     workers: Annotated[int, MAY_CHANGE] = 4
        >>> settings_identity(Limits())
        {'must_match': {'seed': 0}, 'may_change': {'workers': 4}}
    """
    parts: dict[str, dict[str, Any]] = {"must_match": {}, "may_change": {}}
    values = settings.model_dump(mode="json")
    for name, declared in type(settings).model_fields.items():
        value = getattr(settings, name)
        if MAY_CHANGE in declared.metadata:
            parts["may_change"][name] = values[name]
        elif isinstance(value, BaseModel):
            for half, inner in settings_identity(value).items():
                parts[half] |= {name: inner} if inner else {}
        else:
            parts["must_match"][name] = values[name]
    return parts


def identity_of(value: Any) -> Any:
    """What identifies a part of a run, as plain data.

    - Plain data: itself.
    - A part with a method `identity`: its class and the mapping that it returns, of plain data and parts.
    - A dataclass or a pydantic model: its class and the fields in its repr; of a user's, which may hold
      secrets, digests of all but numbers.
    - A function or a class: its name. Any other object: its class.

    Users' functions and classes have a digest of their source text. A `ConfigError` if a method `identity`
    returns no mapping, or a part contains itself.

    Example:
        >>> from mars_env.models import ScriptedModel
        >>> identity_of({"reward": math.sqrt, "model": ScriptedModel(["4"])}) == {
        ...     "reward": "math.sqrt",
        ...     "model": {"class": "mars_env.models.scripted.ScriptedModel", "name": "scripted",
        ...               "script": ["4"], "ids": False}}
        True
    """
    advice = f"{brief(value)} contains itself: give it a method identity"
    with explained(ConfigError, advice, RecursionError):
        return _identity(value)


def identity_changes(earlier: Any, now: Any, at: str = "") -> list[str]:
    """What differs between two identities, each difference with its place.

    Example:
        >>> identity_changes({"train": {"seed": 0}}, {"train": {"seed": 1}})
        ['train.seed: 0 then, 1 now']
    """
    if isinstance(earlier, Mapping) and isinstance(now, Mapping):
        changes = []
        for name in sorted({*earlier, *now}):
            changes += identity_changes(earlier.get(name), now.get(name), f"{at}.{name}" if at else str(name))
        return changes
    if earlier == now:
        return []
    old, new = repr(earlier), repr(now)
    common = next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), 0)
    start = max(0, common - 40)  # long texts are shown where they begin to differ
    return [f"{at}: {old[start : start + 80]} then, {new[start : start + 80]} now"]


def digest_of(value: object) -> str:
    """A digest of plain data, which may be secret."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:16]


def full_name(definition: Any) -> str:
    """The name of a function or a class with its module."""
    while isinstance(definition, partial):
        definition = definition.func
    named = definition if hasattr(definition, "__qualname__") else type(definition)
    return f"{named.__module__}.{named.__qualname__}"


def _identity(value: Any) -> Any:
    if isinstance(value, Path | Enum) or (isinstance(value, float) and not math.isfinite(value)):
        return str(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        return {str(name): _identity(value) for name, value in value.items()}
    if isinstance(value, set | frozenset):
        return sorted(map(_identity, value), key=str)
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        return [_identity(value) for value in value]
    if isinstance(value, partial):
        return {"function": _identity(value.func), "arguments": _identity([*value.args, value.keywords])}
    return _code_identity(value) if hasattr(value, "__qualname__") else _object_identity(value)


def _code_identity(definition: Any) -> Any:
    if isinstance(definition, MethodType):
        return {"function": _code_identity(definition.__func__), "object": _identity(definition.__self__)}
    source = _source_digest(definition.__mro__ if isinstance(definition, type) else [definition])
    return {"name": full_name(definition), **source} if source else full_name(definition)


def _object_identity(value: Any) -> dict[str, Any]:
    cls = type(value)
    values = _identity(value.identity()) if hasattr(cls, "identity") else _field_values(value)
    if not isinstance(values, dict):
        raise ConfigError(f"identity() of {brief(value)} gives a mapping, not {brief(values)}")
    return {"class": full_name(cls), **_source_digest(cls.__mro__), **values}


def _field_values(value: Any) -> dict[str, Any]:
    """The fields in the repr of a dataclass or a pydantic model; in a user's, digests of all but numbers."""
    declared: Any = type(value).model_fields if isinstance(value, BaseModel) else {}
    if is_dataclass(value):
        declared = {field.name: field for field in fields(value)}
    values = {name: _identity(getattr(value, name, None)) for name in declared if declared[name].repr}
    if _is_known(type(value)):
        return values
    numbers = int | float | None
    return {name: v if isinstance(v, numbers) else f"digest {digest_of(v)}" for name, v in values.items()}


def _source_digest(definitions: Iterable[Any]) -> dict[str, str]:
    text = "".join(map(_source, definitions))
    return {"source": digest_of(text)} if text else {}


def _source(definition: Any) -> str:
    if _is_known(definition):
        return ""
    try:
        return inspect.getsource(definition)
    except (OSError, TypeError, SyntaxError):  # typed at a prompt, or compiled
        return ""


def _is_known(definition: Any) -> bool:
    """Whether a function or a class is of mars_env or of Python: its name then says enough."""
    return str(definition.__module__).partition(".")[0] in {"mars_env", *sys.stdlib_module_names}
