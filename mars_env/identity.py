"""What identifies a run: parts as plain data, users' code as digests. docs/rollouts.md states the rules."""

import builtins
import dis
import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, fields, is_dataclass
from functools import lru_cache, partial
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType
from typing import Any

from pydantic import BaseModel

from mars_env.errors import ConfigError
from mars_env.text import shown

_ADDRESS = re.compile(r"https?://[^#,\s]*(?=#)")
_TRANSPORT = re.compile(r"(?<=[?&])(concurrency|attempts|timeout|api_key_env)=[^&,]*&?")

_ASSIGNING = ("STORE_ATTR", "STORE_DEREF", "STORE_GLOBAL")
_CONSTRUCTORS = ("__new__", "__init__", "__post_init__", "__setstate__")
_Cached: Any = type(lru_cache(lambda: None))


def identity_of(part: Any) -> Any:
    """What identifies a part of a run, as plain data.

    - Plain data: itself.
    - A part with a method `identity`: its class and the mapping that it returns, of plain data and parts.
    - A dataclass or a pydantic model: its class and the fields that differ from their defaults; fields that
      are left out of its repr are left out here. Of strings there are digests, since they may be secrets.
    - A function or a class: its name and a digest of its code, with the constants that it closes over or
      names.
    - Any other object: its class, the parts in its attributes, and a digest of the code of its class and of
      the constants in its attributes.

    Constants are numbers, strings and tuples of them. Those that the code itself assigns are left out, since
    they change in play. The code of mars_env is left out.

    Raises:
        ConfigError: A method `identity` returns no mapping.

    Example:
        >>> from mars_env.types import Sampling
        >>> identity_of({"sampling": Sampling(top_k=5), "reward": math.sqrt})
        {'sampling': {'class': 'mars_env.types.Sampling', 'top_k': 5}, 'reward': 'math.sqrt'}
    """
    return _identity(part, ())


def changed_fields(part: Any) -> dict[str, Any]:
    """The fields of a dataclass or a pydantic model that differ from their defaults and are in its repr."""
    if isinstance(part, BaseModel):
        declared = type(part).model_fields.items()
        known = {name: each.get_default(call_default_factory=True) for name, each in declared if each.repr}
    else:
        known = {
            each.name: each.default if each.default_factory is MISSING else each.default_factory()
            for each in fields(part)
            if each.repr
        }
    found = {name: getattr(part, name, None) for name in known}
    return {name: value for name, value in found.items() if _differ(value, known[name])}


def identity_changes(earlier: Any, now: Any, at: str = "") -> list[str]:
    """What differs between two identities, each difference with its place."""
    if isinstance(earlier, Mapping) and isinstance(now, Mapping):
        found = []
        for name in sorted({*earlier, *now}):
            found += identity_changes(earlier.get(name), now.get(name), f"{at}.{name}" if at else str(name))
        return found
    if earlier == now:
        return []
    one, other = repr(earlier), repr(now)
    same = next((i for i, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), 0)
    start = 0 if same < 60 else same - 20  # where they begin to differ
    return [f"{at}: {_excerpt(one, start)} then, {_excerpt(other, start)} now"]


def lasting(text: str) -> str:
    """The part of an agent's specification that may not change: all but where and how it is reached.

    Example:
        >>> lasting("solver=http://a:8000/v1#m?concurrency=8&top_k=5,verifier=http://b/v1#n?timeout=3")
        'solver=#m?top_k=5,verifier=#n'
    """
    return _TRANSPORT.sub("", _ADDRESS.sub("", text)).replace("?,", ",").rstrip("?&")


def digest_of(value: object) -> str:
    """A digest of plain data, which may be secret: equal for equal values, and without a way back."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:16]


def full_name(part: Any) -> str:
    """The name of a function or a class with its module."""
    while isinstance(part, partial):
        part = part.func
    named = part if hasattr(part, "__qualname__") else type(part)
    return f"{named.__module__}.{named.__qualname__}"


def _identity(part: Any, inside: tuple[int, ...]) -> Any:
    """The identity of a part inside of the parts with these ids."""
    if part is None or isinstance(part, bool | int | str):
        return part
    if isinstance(part, float):
        return part if math.isfinite(part) else str(part)
    if isinstance(part, Path):
        return str(part)
    if id(part) in inside:
        return "itself"
    inside = (*inside, id(part))
    if isinstance(part, Mapping):
        return {str(name): _identity(value, inside) for name, value in part.items()}
    if isinstance(part, set | frozenset):
        return sorted((_identity(value, inside) for value in part), key=str)
    if isinstance(part, Sequence) and not isinstance(part, bytes | bytearray):
        return [_identity(value, inside) for value in part]
    code = _Code(inside)
    if isinstance(part, type | partial | FunctionType | MethodType | BuiltinFunctionType):
        digest = code.digest(part)
        return {"name": full_name(part), "code": digest} if digest else full_name(part)
    found: dict[str, Any] = {"class": full_name(type(part))}
    constants: list[tuple[str, Any]] = []
    until = ""
    if _declares(part):
        given, until = part.identity(), "identity"
        if not isinstance(given, Mapping):
            raise ConfigError(f"identity() of {shown(part)} gives a mapping, not {shown(given)}")
        found |= _identity(given, inside)
    elif _is_part(part):
        given = changed_fields(part)
        found |= _identity(given if _is_ours(type(part)) else _hidden(given), inside)
    else:
        state = _assigned_in_play(type(part))
        for name, value in sorted(getattr(part, "__dict__", {}).items()):
            if _is_part(value):
                found[name] = _identity(value, inside)
            elif name not in state:
                constants.append((name, value))
    digest = code.digest(type(part), until, constants)
    return found | {"code": digest} if digest and "code" not in found else found


def _hidden(value: Any) -> Any:
    """A value with digests for strings: those of a user's part may be secrets."""
    if isinstance(value, str):
        return f"digest {digest_of(value)}" if value else value
    if isinstance(value, Mapping):
        return {name: _hidden(each) for name, each in value.items()}
    return [_hidden(each) for each in value] if isinstance(value, list | tuple) else value


def _declares(part: Any) -> bool:
    return callable(getattr(type(part), "identity", None))


def _is_part(value: Any) -> bool:
    """Whether a value itself says what identifies it."""
    fielded = isinstance(value, BaseModel) or is_dataclass(value)
    return not isinstance(value, type) and (fielded or _declares(value))


def _differ(value: Any, default: Any) -> bool:
    try:
        return bool(value != default)
    except Exception:  # a user's comparison may raise anything: an array has no truth value
        return True


def _excerpt(text: str, start: int) -> str:
    return f"{'…' if start else ''}{text[start : start + 80]}{'…' if len(text) > start + 80 else ''}"


class _Code:
    """Digests of the code of a part. The code of mars_env and of builtins does not count."""

    def __init__(self, inside: tuple[int, ...]) -> None:
        self._inside = inside
        self._seen: set[int] = set()

    def digest(self, part: Any, until: str = "", constants: Sequence[tuple[str, Any]] = ()) -> str:
        """The digest of a function or a class and of named constants; empty if nothing in it counts.

        Of a class and its bases only those before the one that defines `until` count.
        """
        if isinstance(part, type):
            order = list(part.__mro__)
            end = next((i for i, each in enumerate(order) if until and until in vars(each)), len(order))
            found: Any = [self._members(cls) for cls in order[:end] if not _is_ours(cls)]
        else:
            found = self._value(part)
        named = [[name, value] for name, each in constants if (value := self._value(each)) is not None]
        return digest_of([found, named]) if found or named else ""

    def _value(self, value: Any) -> Any:
        """What counts of a value; None for what may change while it is used."""
        if isinstance(value, bool | int | float | str | bytes | Path):
            return repr(value)
        if isinstance(value, tuple):
            return [self._value(each) for each in value]
        if isinstance(value, _Cached):
            value = value.__wrapped__
        if id(value) in self._seen:
            return "above"
        self._seen.add(id(value))
        if isinstance(value, partial):
            given = [*value.args, *sorted(value.keywords.items())]
            return [self._value(value.func), [self._value(each) for each in given]]
        if isinstance(value, MethodType):
            return [self._value(value.__func__), self._part(value.__self__)]
        if isinstance(value, FunctionType):
            return self._function(value)
        if isinstance(value, type):
            return [self._members(cls) for cls in value.__mro__ if not _is_ours(cls)] or None
        return self._part(value)

    def _part(self, value: Any) -> Any:
        return _identity(value, self._inside) if _is_part(value) else None

    def _members(self, cls: type) -> list[Any]:
        """The methods and constants that a class defines."""
        found = []
        for name, member in sorted(vars(cls).items()):
            value = getattr(member, "__func__", None) or getattr(member, "fget", None) or member
            if isinstance(value, FunctionType) or not name.startswith("__"):
                found.append([name, self._value(value)])
        return [full_name(cls), found]

    def _function(self, function: FunctionType) -> list[Any] | None:
        """Its code and defaults, and what it refers to: constants, and code of the same module."""
        code = function.__code__
        referred: dict[str, Any] = {}
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            with suppress(ValueError):  # it may be empty
                referred[name] = cell.cell_contents
        found: list[Any] = []
        if not _is_ours(function):
            found = [_plain_code(code, function.__doc__)]
            found += [self._value(each) for each in function.__defaults__ or ()]
            found += [self._value(each) for each in sorted((function.__kwdefaults__ or {}).items())]
            names = {name for each in _nested(code) for name in each.co_names}
            for name in names & function.__globals__.keys():
                value = function.__globals__[name]
                if not isinstance(value, type | FunctionType) or value.__module__ == function.__module__:
                    referred[name] = value
        state = _assigned(code)
        for name in sorted(referred.keys() - state):
            if (value := self._value(referred[name])) is not None:
                found.append([name, value])
        return found or None


def _is_ours(part: Any) -> bool:
    """Whether a function or a class is of mars_env, or built in: its name then says enough."""
    if isinstance(part, BuiltinFunctionType) or getattr(builtins, part.__name__, None) is part:
        return True
    return str(part.__module__).partition(".")[0] == "mars_env"


def _assigned_in_play(cls: type) -> set[str]:
    """Names of the attributes that methods of a class assign once an object is made."""
    methods = [each for base in cls.__mro__ for each in vars(base).values() if isinstance(each, FunctionType)]
    return {
        name for each in methods if each.__name__ not in _CONSTRUCTORS for name in _assigned(each.__code__)
    }


def _assigned(code: CodeType) -> set[str]:
    """Names that code assigns outside of its own variables."""
    steps = (step for each in _nested(code) for step in dis.get_instructions(each))
    return {str(step.argval) for step in steps if step.opname in _ASSIGNING} - {*code.co_cellvars}


def _plain_code(code: CodeType, doc: str | None = None) -> list[Any]:
    constants: list[Any] = []
    documented = code.co_consts[:1] in ((doc,), (None,))  # the docstring, or its place
    for each in code.co_consts[documented:]:
        if isinstance(each, CodeType):
            constants.append(_plain_code(each))
        else:
            constants.append(sorted(map(repr, each)) if isinstance(each, frozenset) else repr(each))
    return [code.co_code.hex(), constants, code.co_names, code.co_varnames, code.co_freevars, code.co_flags]


def _nested(code: CodeType) -> Iterator[CodeType]:
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _nested(each)
