"""What identifies a run: its parts as plain data. docs/rollouts.md states the rules for users."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import partial
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any, Protocol, TypeGuard

from pydantic import BaseModel

from mars_env.digests import Digest, digest_of, full_name, is_ours, state_of
from mars_env.errors import ConfigError
from mars_env.text import shown

_ADDRESS = re.compile(r"https?://[^#,\s]*(?=#)")
_TRANSPORT = re.compile(r"(?<=[?&])(concurrency|attempts|timeout|api_key_env)=[^&,]*&?")


class Identified(Protocol):
    """A part of a run (an agent, a model, a grader ...) that declares what identifies it."""

    def identity(self) -> Mapping[str, Any]:
        """All that changes its answers, by name: plain data, or other parts. Never a secret."""
        ...


def identity_of(part: Any) -> Any:
    """What identifies a part of a run, as plain data.

    - Plain data: itself.
    - A part with a method `identity`: its class and what that gives.
    - A dataclass or a pydantic model: its class and the fields that differ from their defaults; fields that
      are left out of its repr are left out here. Of strings there are digests, since they may be secrets.
    - A function or a class: its name and a digest of its code, with the constants that it closes over or
      names.
    - Any other object: its class, the parts in its attributes, and a digest of the code of its class and of
      the constants in its attributes.

    Constants are numbers, strings and tuples of them. Those that the code itself assigns are left out, since
    they change in play. The code of mars_env is left out.

    Raises:
        ConfigError: A method `identity` does not give a mapping.

    Example:
        >>> from mars_env.types import Sampling
        >>> identity_of({"sampling": Sampling(top_k=5), "reward": math.sqrt})
        {'sampling': {'class': 'mars_env.types.Sampling', 'top_k': 5}, 'reward': 'math.sqrt'}
    """
    return _plain(part, ())


def changed_fields(part: Any) -> dict[str, Any]:
    """The fields of a dataclass or a pydantic model that differ from their defaults and are in its repr."""
    if isinstance(part, BaseModel):
        declared = type(part).model_fields.items()
        known = {name: each.get_default(call_default_factory=True) for name, each in declared if each.repr}
    else:
        known = {each.name: _default(each) for each in fields(part) if each.repr}
    found = {name: getattr(part, name, None) for name in known}
    return {name: value for name, value in found.items() if _differ(value, known[name])}


def identity_changes(earlier: Any, now: Any, at: str = "") -> list[str]:
    """What differs between two identities, in words, with the place of each difference.

    Example:
        >>> identity_changes({"solver": {"system": "Be brief."}}, {"solver": {"system": "Be kind."}})
        ["solver.system: 'Be brief.' then, 'Be kind.' now"]
    """
    if isinstance(earlier, Mapping) and isinstance(now, Mapping):
        found = []
        for name in sorted({*earlier, *now}):
            found += identity_changes(earlier.get(name), now.get(name), f"{at}.{name}" if at else str(name))
        return found
    if earlier == now:
        return []
    return ["{}: {} then, {} now".format(at, *_around(repr(earlier), repr(now)))]


def lasting(text: str) -> str:
    """The part of an agent's specification that may not change: all but where and how it is reached.

    Example:
        >>> lasting("solver=http://a:8000/v1#m?concurrency=8&top_k=5,verifier=http://b/v1#n?timeout=3")
        'solver=#m?top_k=5,verifier=#n'
    """
    return _TRANSPORT.sub("", _ADDRESS.sub("", text)).replace("?,", ",").rstrip("?&")


def _plain(part: Any, inside: tuple[int, ...]) -> Any:
    """The identity of a part inside of other parts."""
    if part is None or isinstance(part, bool | int | str):
        return part
    if isinstance(part, float):
        return part if math.isfinite(part) else str(part)
    if isinstance(part, Path):
        return str(part)
    if id(part) in inside:
        return "itself"

    def plain(value: Any) -> Any:
        return _plain(value, (*inside, id(part)))

    digest = Digest(lambda value: plain(value) if _is_part(value) else None)
    if isinstance(part, Mapping):
        return {str(name): plain(value) for name, value in part.items()}
    if isinstance(part, set | frozenset):
        return sorted(map(plain, part), key=str)
    if isinstance(part, Sequence) and not isinstance(part, bytes | bytearray):
        return [plain(value) for value in part]
    if isinstance(part, type | partial | FunctionType | MethodType | BuiltinFunctionType):
        code = digest.of_code(part)
        return {"name": full_name(part), "code": code} if code else full_name(part)
    found: dict[str, Any] = {"class": full_name(type(part))}
    if _declares(part):
        given = part.identity()
        if not isinstance(given, Mapping):
            raise ConfigError(f"identity() of {shown(part)} gives a mapping, not {shown(given)}")
        code = digest.of_code(type(part), "identity")
        return {**found, **({"code": code} if code else {}), **plain(given)}
    constants: list[Any] = []
    if _is_part(part):
        given = changed_fields(part)
        found |= plain(given if is_ours(type(part)) else _hidden(given))
    else:
        state = state_of(type(part))
        for name, value in sorted(getattr(part, "__dict__", {}).items()):
            if _is_part(value):
                found[name] = plain(value)
            elif name not in state:
                constants.append([name, value])
    code = digest.of_code(type(part), constants=constants)
    return {**found, "code": code} if code else found


def _hidden(value: Any) -> Any:
    """A value with digests for strings: those of a user's part may be secrets."""
    if isinstance(value, str):
        return f"digest {digest_of(value)}" if value else value
    if isinstance(value, Mapping):
        return {name: _hidden(each) for name, each in value.items()}
    return [_hidden(each) for each in value] if isinstance(value, list | tuple) else value


def _declares(part: Any) -> TypeGuard[Identified]:
    return callable(getattr(type(part), "identity", None))


def _is_part(value: Any) -> bool:
    """Whether a value says by itself what identifies it."""
    fielded = isinstance(value, BaseModel) or is_dataclass(value)
    return not isinstance(value, type) and (fielded or _declares(value))


def _differ(value: Any, default: Any) -> bool:
    try:
        return bool(value != default)
    except Exception:  # a user's comparison may raise anything: an array has no truth value
        return True


def _default(field: Field[Any]) -> Any:
    return field.default_factory() if field.default_factory is not MISSING else field.default


def _around(one: str, other: str) -> tuple[str, str]:
    """Two texts, cut to where they begin to differ."""
    same = next((i for i, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), 0)
    start = 0 if same < 60 else same - 20
    return _piece(one, start), _piece(other, start)


def _piece(text: str, start: int) -> str:
    return f"{'…' if start else ''}{text[start : start + 80]}{'…' if len(text) > start + 80 else ''}"
