"""Typed plain data over a channel: what may pass between a program and its judges.

Besides plain data, a few classes of the standard library pass, and a NumPy scalar as its value. Every other
object stays in its process; a `Handle` stands for it. Decoding builds nothing but these types. Numbers,
strings, true, false and null are as in JSON, all else is a list that starts with the name of its kind.
"""

from __future__ import annotations

import json

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing itself is slow to import
    from collections.abc import Callable
    from typing import Any

MAX_DEPTH = 150  # both sides reject deeper nesting
NAMED = -1 << 62  # number of a handle for an object of the standard library; its kind is ``module:name``
_ATTRIBUTES = {
    "builtins.range": "start stop step",
    "fractions.Fraction": "numerator denominator",
    "datetime.timedelta": "days seconds microseconds",
    "datetime.date": "year month day",
    "datetime.time": "hour minute second microsecond",
    "datetime.datetime": "year month day hour minute second microsecond",
}
"""Classes that pass, and the attributes that rebuild an object; Decimal's is its string."""
_HOMES = {name: home for home, _, name in (key.rpartition(".") for key in (*_ATTRIBUTES, "decimal.Decimal"))}
_SEQUENCES = ((list, "list"), (tuple, "tuple"), (set, "set"), (frozenset, "frozenset"))
_SCALARS = (int, float, complex, str, bytes)
_MAPPINGS = ("dict", "Counter", "OrderedDict")


class BadValue(ValueError):
    """Bytes that are not a value, or a value that cannot be sent."""


class Handle:
    """Stands for an object that stays in the process that made it, where its number finds it again."""

    __slots__ = ("kind", "number", "plain")

    def __init__(self, number: int, kind: str, plain: bool = True) -> None:
        self.number, self.kind = number, kind
        self.plain = plain  # whether its class defines neither a truth value nor a length


def handle_of(value: Any, number: int) -> Handle:
    """The handle of an object that is kept under this number."""
    kind = type(value)
    return Handle(number, kind.__name__, not (hasattr(kind, "__bool__") or hasattr(kind, "__len__")))


class Pairs(list):  # type: ignore[type-arg]
    """A mapping as pairs, for the grader's process, which computes no hashes of hostile values."""


def encode(
    value: Any,
    keep: Callable[[Any], Any] | None = None,
    *,
    containers: list[Any] | None = None,
    known: dict[int, int] | None = None,
) -> bytes:
    """A value as bytes, or a `BadValue` if it is too deep; a list that occurs twice is decoded as one list.

    Args:
        value: Anything.
        keep: Keeps an object that is not plain data and makes its handle, or returns plain data for it.
            Without it only the type's name is sent, and named tuples and defaultdicts are plain ones.
        containers: Receives the containers in `value`, in the order in which `decode` numbers them.
        known: Numbers, by id, of containers that the other side has already; it changes those in place.

    Example:
        >>> decode(encode([1, True, (2.5, "a"), {"k": {3}}]))
        [1, True, (2.5, 'a'), {'k': {3}}]
    """
    writer = _Writer(keep or (lambda v: Handle(-1, type(v).__name__)), known or {}, keep is not None)
    tree = writer.tree(value, MAX_DEPTH)
    if containers is not None:
        containers.extend(writer.containers)
    return json.dumps(tree, check_circular=False, separators=(",", ":")).encode("ascii")


class _Writer:
    def __init__(self, keep: Callable[[Any], Any], known: dict[int, int], named: bool) -> None:
        self.keep, self.known, self.named = keep, known, named
        self.seen: dict[int, int] = {}
        self.containers: list[Any] = []  # referenced, so that no id is reused for another object

    def tree(self, value: Any, depth: int) -> Any:
        if depth == 0:
            raise BadValue("the value is nested too deeply")
        if value is None or isinstance(value, _SCALARS):
            return _scalar(value)
        if id(value) in self.seen:
            return ["seen", self.seen[id(value)]]
        if isinstance(value, (list, tuple, set, frozenset, bytearray, dict)) or _is_deque(value):
            self.seen[id(value)] = len(self.containers)
            self.containers.append(value)
            tree = self.container(value, depth - 1)
            return ["changed", self.known[id(value)], tree] if id(value) in self.known else tree
        if (standard := _standard(value)) is not None:
            name, arguments = standard
            return ["standard", name, self.tree(arguments, depth - 1)]
        if (scalar := _numpy_scalar(value)) is not value:
            return self.tree(scalar, depth - 1)
        handle = value if isinstance(value, Handle) else self.keep(value)
        if isinstance(handle, Handle):
            return ["handle", handle.number, handle.kind[:100], bool(handle.plain)]
        return self.tree(handle, depth - 1)

    def container(self, value: Any, depth: int) -> list[Any]:
        if isinstance(value, bytearray):
            return ["bytearray", bytes(value).decode("latin-1")]
        if isinstance(value, dict):
            head: list[Any] = [type(value).__name__ if type(value).__name__ in _MAPPINGS else "dict"]
            if self.named and type(value).__name__ == "defaultdict":
                head = ["defaultdict", self.tree(getattr(value, "default_factory", None), depth)]
            items = [each for pair in dict.items(value) for each in pair]
        else:
            kind, name = next(
                (each for each in _SEQUENCES if isinstance(value, each[0])), (type(value), "deque")
            )
            head, items = [name], list(kind.__iter__(value))
            if name == "tuple" and self.named and (names := _field_names(value)):
                head = ["named", names]
        return [*head, *(self.tree(item, depth) for item in items)]


def _scalar(value: Any) -> Any:
    if isinstance(value, complex):
        return ["complex", value.real, value.imag]
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, bytes):
        return ["bytes", bytes.decode(value, "latin-1")]
    if isinstance(value, float):
        return float(value)
    if value is None or value is True or value is False:
        return value
    number = int(value)
    return number if -(1 << 63) <= number < 1 << 63 else ["int", hex(number)]


def _field_names(value: Any) -> str:
    fields = getattr(type(value), "_fields", None)
    if not isinstance(fields, tuple) or len(fields) != len(value):
        return ""
    return " ".join(map(str, (type(value).__name__, *fields)))


_named_tuples: dict[str, Any] = {}


def _named(names: str, items: list[Any]) -> Any:
    """A named tuple; a plain one if no class can have the names, or one is a method's, such as ``count``."""
    from collections import namedtuple

    kind, *fields = names.split(" ")
    if any(hasattr(tuple, field) for field in fields):
        return tuple(items)
    try:
        if names not in _named_tuples:
            _named_tuples[names] = namedtuple(kind, fields)
        return _named_tuples[names](*items)
    except (TypeError, ValueError):
        return tuple(items)


def _is_deque(value: Any) -> bool:
    return type(value).__name__ == "deque" and type(value).__module__ == "collections"


def _numpy_scalar(value: Any) -> Any:
    if type(value).__module__ == "numpy" and getattr(value, "ndim", None) == 0:
        item = value.item()
        return value if type(item) is type(value) else item
    return value


def _standard(value: Any) -> tuple[str, tuple[Any, ...]] | None:
    kind = type(value)
    home = f"{kind.__module__}.{kind.__name__}"
    if home == "decimal.Decimal":
        return "Decimal", (str(value),)
    if home not in _ATTRIBUTES or getattr(value, "tzinfo", None) is not None:
        return None
    return kind.__name__, tuple(getattr(value, name) for name in _ATTRIBUTES[home].split())


def _rebuild(name: str, arguments: Any) -> Any:
    if not isinstance(arguments, tuple) or not all(
        type(a) is int or (type(a) is str and len(a) <= 10_000) for a in arguments
    ):
        raise BadValue(f"bad arguments of {name}")
    if name not in _HOMES:
        raise BadValue(f"no type {name!r}")
    try:
        return getattr(__import__(_HOMES[name]), name)(*arguments)
    except (TypeError, ValueError, ArithmeticError) as error:
        raise BadValue(f"bad arguments of {name}") from error


def decode(
    data: bytes,
    resolve: Callable[[Handle], Any] | None = None,
    *,
    hashed: bool = True,
    containers: list[Any] | None = None,
    originals: list[Any] | None = None,
) -> Any:
    """The one value that bytes hold; a `BadValue` if they hold none, or more than one.

    Args:
        data: From `encode`, or hostile.
        resolve: Called on handles; without it they stay `Handle`.
        hashed: Whether to build sets and mappings. If not (for use outside sandboxes), a mapping becomes
            `Pairs`, and every other type that JSON does not know becomes a `Handle`.
        containers: Receives the containers in the value, in order.
        originals: Containers that were sent before; those that come back are changed in place.
    """
    reader = _Reader(resolve or (lambda handle: handle), hashed, originals or [])
    try:
        value = reader.value(json.loads(data.decode("ascii")), MAX_DEPTH)
    except BadValue:
        raise
    except (ValueError, IndexError, RecursionError) as error:
        raise BadValue(f"the bytes are not a value: {type(error).__name__}") from error
    if containers is not None:
        containers.extend(reader.seen)
    return value


class _Reader:
    def __init__(self, resolve: Callable[[Handle], Any], hashed: bool, originals: list[Any]) -> None:
        self.resolve, self.hashed, self.originals = resolve, hashed, originals
        self.seen: list[Any] = []

    def value(self, tree: Any, depth: int) -> Any:
        if depth == 0:
            raise BadValue("the value is nested too deeply")
        match tree:
            case None | bool() | int() | float() | str():
                return tree
            case ["list" | "tuple" | "set" | "frozenset" | "deque" as kind, *items]:
                return self.items(kind, items, depth - 1)
            case ["dict" | "Counter" | "OrderedDict" | "defaultdict" as kind, *items]:
                return self.mapping(kind, items, depth - 1)
            case ["seen", int(number)] if number >= 0:
                return self.seen[number]
            case ["changed", int(number), new] if number >= 0:
                return self.changed(self.originals[number], new, depth)
            case ["named", str(names), *items]:
                return self.items("tuple", items, depth - 1, names)
            case ["handle", int(number), str(kind), bool(plain)]:
                return self.resolve(Handle(number, kind, plain))
            case ["bytearray", str(text)]:
                self.seen.append(bytearray(text.encode("latin-1")))
                return self.seen[-1] if self.hashed else Handle(-1, "bytearray")
        return self.special(tree, depth)

    def special(self, tree: Any, depth: int) -> Any:
        match tree:
            case ["int", str(digits)]:
                return int(digits, 16)
            case ["standard", str(name), arguments]:
                values = self.value(arguments, depth - 1)
                return _rebuild(name, values) if self.hashed else Handle(-1, name)
            case ["complex", int() | float() as real, int() | float() as imaginary]:
                return complex(real, imaginary) if self.hashed else Handle(-1, "complex")
            case ["bytes", str(text)]:
                return text.encode("latin-1") if self.hashed else Handle(-1, "bytes")
        raise BadValue(f"no value is written as {str(tree)[:40]}")

    def changed(self, original: Any, tree: Any, depth: int) -> Any:
        """A container that was sent from here: it gets the new content and is used as the value."""
        place = len(self.seen)
        new = self.value(tree, depth)
        # What was sent may be of a class of the tests, and comes back as one of the class below it.
        kinds = (list, tuple, set, frozenset, dict, bytearray, type(original))
        if not any(isinstance(new, kind) and isinstance(original, kind) for kind in kinds):
            raise BadValue("a container came back as one of another type")
        if isinstance(new, (tuple, frozenset)):
            return original if original == new else new
        if isinstance(new, list):
            original[:] = new
        else:
            original.clear()
            (original.extend if isinstance(new, bytearray) or _is_deque(new) else original.update)(new)
        self.seen[place] = original
        return original

    def items(self, kind: str, trees: list[Any], depth: int, names: str = "") -> Any:
        place = len(self.seen)
        items: list[Any] = []
        self.seen.append(items)  # a list may contain itself; other types cannot
        for tree in trees:
            items.append(self.value(tree, depth))  # noqa: PERF401  (the list must exist while it grows)
        value: Any = items
        if kind == "tuple":
            value = _named(names, items) if names and self.hashed else tuple(items)
        elif kind != "list":
            value = self.hashed_items(kind, items)
        self.seen[place] = value
        return value

    def hashed_items(self, kind: str, items: list[Any]) -> Any:
        if not self.hashed:
            return Handle(-1, kind)
        try:
            return getattr(__import__("collections" if kind == "deque" else "builtins"), kind)(items)
        except TypeError as error:
            raise BadValue("an item of a set cannot be hashed") from error

    def mapping(self, kind: str, trees: list[Any], depth: int) -> Any:
        value: Any = {} if self.hashed else Pairs()
        if self.hashed and kind != "dict":
            value = getattr(__import__("collections"), kind)()
        self.seen.append(value)
        factory = self.value(trees.pop(0), depth) if kind == "defaultdict" else None
        if self.hashed and factory is not None:
            if not callable(factory):
                raise BadValue("what makes defaults cannot be called")
            value.default_factory = factory
        for key, item in zip(trees[::2], trees[1::2], strict=True):
            pair = self.value(key, depth), self.value(item, depth)
            if not self.hashed:
                value.append(pair)
                continue
            try:
                value[pair[0]] = pair[1]
            except TypeError as error:
                raise BadValue("a key cannot be hashed") from error
        return value
