"""Digests of users' code: functions, classes, and the constants that they refer to."""

from __future__ import annotations

import builtins
import dis
import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType
from typing import Any

_ASSIGNING = ("STORE_ATTR", "STORE_DEREF", "STORE_GLOBAL")
"""Instructions that assign an attribute, a variable of an outer function, a global variable."""


_MAKING = ("__new__", "__init__", "__post_init__", "__setstate__")

_Cached: Any = type(lru_cache(lambda: None))


class Digest:
    """Makes digests of code. The code of mars_env and of builtins is left out.

    Args:
        plain: Other values that count, as plain data; None for one that does not.

    Example:
        >>> digest = Digest(lambda value: None)
        >>> digest.of_code(json.dumps) == digest.of_code(json.loads), digest.of_code(len)
        (False, '')
    """

    def __init__(self, plain: Callable[[Any], Any]) -> None:
        self._plain = plain
        self._seen: set[int] = set()

    def of_code(self, part: Any, until: str = "", constants: Sequence[Any] = ()) -> str:
        """The digest of a function or a class; empty if nothing in it counts.

        Args:
            part: The function, or the class.
            until: Of the class and its bases only those are read that derive from the one with this name.
            constants: Pairs of a name and a value that count, too.
        """
        self._seen = set()
        if isinstance(part, type):
            found: Any = [self._members(cls) for cls in _bases(part, until) if not is_ours(cls)]
        else:
            found = self._value(part)
        named = [[name, value] for name, each in constants if (value := self._value(each)) is not None]
        if not found and not named:
            return ""
        return digest_of([found, named])

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
            return [self._value(value.__func__), self._plain(value.__self__)]
        if isinstance(value, FunctionType):
            return self._function(value)
        if isinstance(value, type):
            return [self._members(cls) for cls in value.__mro__ if not is_ours(cls)] or None
        return self._plain(value)

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
        outer = zip(code.co_freevars, function.__closure__ or (), strict=True)
        referred = {name: cell.cell_contents for name, cell in outer if not _is_empty(cell)}
        own: list[Any] = []
        if not is_ours(function):
            own = [_code(code, function.__doc__)]
            own += [self._value(each) for each in function.__defaults__ or ()]
            own += [self._value(each) for each in sorted((function.__kwdefaults__ or {}).items())]
            names = {name for each in _codes(code) for name in each.co_names} & function.__globals__.keys()
            for name in names:
                value = function.__globals__[name]
                if not isinstance(value, type | FunctionType) or value.__module__ == function.__module__:
                    referred[name] = value
        state = assigned(code)
        kept = [(name, value) for name, value in sorted(referred.items(), key=_first) if name not in state]
        own += [[name, found] for name, value in kept if (found := self._value(value)) is not None]
        return own or None


def digest_of(value: object) -> str:
    """A digest of plain data, which may be secret: equal for equal values, and without a way back.

    Example:
        >>> digest_of({"effort": "low"}) == digest_of({"effort": "high"})
        False
    """
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:16]


def full_name(part: Any) -> str:
    """The name of a function or a class with its module."""
    while isinstance(part, partial):
        part = part.func
    named = part if hasattr(part, "__qualname__") else type(part)
    return f"{named.__module__}.{named.__qualname__}"


def is_ours(part: Any) -> bool:
    """Whether a function or a class is of mars_env, or built in: its name then says enough."""
    if isinstance(part, BuiltinFunctionType) or getattr(builtins, part.__name__, None) is part:
        return True
    return str(part.__module__).partition(".")[0] == "mars_env"


def state_of(cls: type) -> set[str]:
    """Names of the attributes that methods of a class assign once an object is made."""
    methods = [each for base in cls.__mro__ for each in vars(base).values() if isinstance(each, FunctionType)]
    return {name for each in methods if each.__name__ not in _MAKING for name in assigned(each.__code__)}


def assigned(code: CodeType) -> set[str]:
    """Names that code assigns outside of its own variables."""
    steps = (step for each in _codes(code) for step in dis.get_instructions(each))
    return {str(step.argval) for step in steps if step.opname in _ASSIGNING} - {*code.co_cellvars}


def _bases(cls: type, until: str) -> list[type]:
    order = list(cls.__mro__)
    return order[: next((i for i, each in enumerate(order) if until and until in vars(each)), len(order))]


def _code(code: CodeType, doc: str | None = None) -> list[Any]:
    constants: list[Any] = []
    begins = code.co_consts[:1] in ((doc,), (None,))  # with the docstring, or where it would be
    for each in code.co_consts[begins:]:
        if isinstance(each, CodeType):
            constants.append(_code(each))
        elif isinstance(each, frozenset):
            constants.append(sorted(map(repr, each)))
        else:
            constants.append(repr(each))
    return [code.co_code.hex(), constants, code.co_names, code.co_varnames, code.co_freevars, code.co_flags]


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _codes(each)


def _is_empty(cell: Any) -> bool:
    try:
        _ = cell.cell_contents
    except ValueError:
        return True
    return False


def _first(item: tuple[str, Any]) -> str:
    return item[0]
