"""Typed plain data over a channel: what may pass between a program and its judges.

Values keep their exact types: ``True`` is not ``1``, a tuple is not a list. Besides plain data, a few classes
of the standard library pass, and a NumPy scalar as its value. Every other object stays in its process; a
`Handle` stands for it. Decoding builds nothing but these types, whatever the bytes contain.

This module is also sent into sandboxes unchanged, so it imports only modules that import fast.
"""

from __future__ import annotations

import struct

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing itself is slow to import
    from collections.abc import Callable
    from typing import Any

MAX_DEPTH = 150
"""Both sides refuse deeper nesting."""

NAMED = -1 << 62
"""The number of a handle for an object of the standard library; its kind is then ``module:name``."""

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
_SEQUENCES = ((list, b"l"), (tuple, b"t"), (set, b"S"), (frozenset, b"Z"))


class BadValue(ValueError):
    """Bytes that are not a value, or a value that cannot be sent."""


class Handle:
    """Stands for an object that stays in the process that made it.

    Attributes:
        number: The number under which that process finds it again.
        kind: Its type's name.
        plain: Whether its class defines neither a truth value nor a length, so that it is always true.
    """

    __slots__ = ("kind", "number", "plain")

    def __init__(self, number: int, kind: str, plain: bool = True) -> None:
        self.number, self.kind, self.plain = number, kind, plain


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
    """A value as bytes. Identity inside it is kept: a list that occurs twice is decoded as one list.

    Args:
        value: Anything.
        keep: Keeps an object that is not plain data and makes its handle, or returns plain data for it.
            Without it only the type's name is sent, and named tuples and defaultdicts are plain ones.
        containers: Receives the containers in `value`, in the order in which `decode` numbers them.
        known: Numbers, by id, of containers that the other side has already; it changes those in place.

    Raises:
        BadValue: It is nested too deeply.

    Example:
        >>> decode(encode([1, True, (2.5, "a"), {"k": {3}}]))
        [1, True, (2.5, 'a'), {'k': {3}}]
    """
    writer = _Writer(keep or (lambda v: Handle(-1, type(v).__name__)), known or {}, keep is not None)
    writer.value(value, MAX_DEPTH)
    if containers is not None:
        containers.extend(writer.containers)
    return b"".join(writer.out)


class _Writer:
    def __init__(self, keep: Callable[[Any], Any], known: dict[int, int], named: bool) -> None:
        self.keep, self.known, self.named = keep, known, named
        self.out: list[bytes] = []
        self.seen: dict[int, int] = {}
        self.containers: list[Any] = []  # referenced, so that no id is reused for another object

    def value(self, value: Any, depth: int) -> None:
        if depth == 0:
            raise BadValue("the value is nested too deeply")
        if value is None or value is True or value is False:
            self.out.append(b"N" if value is None else b"T" if value else b"F")
        elif isinstance(value, int):
            number = int(value)
            self.blob(b"i", number.to_bytes(number.bit_length() // 8 + 1, "little", signed=True))
        elif isinstance(value, float):
            self.out.append(b"f" + struct.pack("<d", value))
        elif isinstance(value, complex):
            self.out.append(b"c" + struct.pack("<dd", value.real, value.imag))
        elif isinstance(value, str):
            self.blob(b"s", str.encode(value, "utf-8", "surrogatepass"))
        elif isinstance(value, bytes):
            self.blob(b"b", value)
        elif id(value) in self.seen:
            self.out.append(b"r" + struct.pack("<I", self.seen[id(value)]))
        elif isinstance(value, (list, tuple, set, frozenset, bytearray, dict)) or _is_deque(value):
            if id(value) in self.known:
                self.out.append(b"M" + struct.pack("<I", self.known[id(value)]))
            self.seen[id(value)] = len(self.containers)
            self.containers.append(value)
            self.container(value, depth - 1)
        elif (standard := _standard(value)) is not None:
            name, arguments = standard
            self.blob(b"Y", name.encode())
            self.value(arguments, depth - 1)
        elif (scalar := _numpy_scalar(value)) is not value:
            self.value(scalar, depth - 1)
        elif isinstance(handle := value if isinstance(value, Handle) else self.keep(value), Handle):
            self.blob(b"H", handle.kind[:100].encode("utf-8", "replace"))
            self.out.append(struct.pack("<q?", handle.number, bool(handle.plain)))
        else:
            self.value(handle, depth - 1)

    def container(self, value: Any, depth: int) -> None:
        if isinstance(value, bytearray):
            self.blob(b"a", bytes(value))
            return
        if isinstance(value, dict):
            tag = {"Counter": b"K", "OrderedDict": b"O"}.get(type(value).__name__, b"d")
            pairs = list(dict.items(value))
            if self.named and type(value).__name__ == "defaultdict":
                self.out.append(b"D")
                self.value(getattr(value, "default_factory", None), depth)
                tag = b""
            self.out.append(tag + struct.pack("<I", len(pairs)))
            items = [each for pair in pairs for each in pair]
        else:
            kind, tag = next((each for each in _SEQUENCES if isinstance(value, each[0])), (type(value), b"e"))
            items = list(kind.__iter__(value))
            if tag == b"t" and self.named and (names := _field_names(value)):
                tag = b"w" + struct.pack("<I", len(names)) + names
            self.out.append(tag + struct.pack("<I", len(items)))
        for item in items:
            self.value(item, depth)

    def blob(self, tag: bytes, data: bytes) -> None:
        self.out += (tag + struct.pack("<I", len(data)), data)


def _field_names(value: Any) -> bytes:
    """The names of a named tuple's class and fields; empty for another tuple."""
    fields = getattr(type(value), "_fields", None)
    if not isinstance(fields, tuple) or len(fields) != len(value):
        return b""
    return " ".join(map(str, (type(value).__name__, *fields))).encode("utf-8", "replace")


_named_tuples: dict[str, Any] = {}


def _named(names: str, items: list[Any]) -> Any:
    """A named tuple, whose class is made once for equal names; a plain one if no class can have them.

    Nor may they be those of a tuple's methods: whoever calls ``count`` means the method.
    """
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
    """Name and arguments that rebuild an object of the standard library; None for any other."""
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
    """The one value that the bytes hold.

    Args:
        data: From `encode`, or hostile.
        resolve: Called on handles; without it they stay `Handle`.
        hashed: Whether to build sets and mappings. If not (for use outside sandboxes), a mapping becomes
            `Pairs`, and every other type that JSON does not know becomes a `Handle`.
        containers: Receives the containers in the value, in order.
        originals: Containers that were sent before; those that come back are changed in place.

    Raises:
        BadValue: The bytes do not hold a value, or hold more than one.

    Example:
        >>> decode(b"nonsense")
        Traceback (most recent call last):
        mars_env.grading.code.values.BadValue: no value starts with b'n'
    """
    reader = _Reader(data, resolve or (lambda handle: handle), hashed, originals or [])
    try:
        value = reader.value(MAX_DEPTH)
    except (struct.error, UnicodeDecodeError, IndexError) as error:
        raise BadValue("the bytes end early or are not text") from error
    if reader.at != len(data):
        raise BadValue("bytes are left over")
    if containers is not None:
        containers.extend(reader.seen)
    return value


class _Reader:
    def __init__(
        self, data: bytes, resolve: Callable[[Handle], Any], hashed: bool, originals: list[Any]
    ) -> None:
        self.data, self.resolve, self.hashed, self.originals = data, resolve, hashed, originals
        self.at = 0
        self.seen: list[Any] = []

    def take(self, size: int) -> bytes:
        piece = self.data[self.at : self.at + size]
        if len(piece) != size:
            raise BadValue("the bytes end early")
        self.at += size
        return piece

    def count(self) -> int:
        number: int = struct.unpack("<I", self.take(4))[0]
        if number > len(self.data) - self.at:  # each item takes at least one byte
            raise BadValue("the bytes end early")
        return number

    def blob(self) -> bytes:
        return self.take(self.count())

    def value(self, depth: int) -> Any:
        if depth == 0:
            raise BadValue("the value is nested too deeply")
        tag = self.take(1)
        if tag in b"NTF":
            return {b"N": None, b"T": True, b"F": False}[tag]
        if tag == b"i":
            return int.from_bytes(self.blob(), "little", signed=True)
        if tag == b"f":
            return struct.unpack("<d", self.take(8))[0]
        if tag == b"s":
            return self.blob().decode("utf-8", "surrogatepass")
        if tag == b"r":
            return self.seen[struct.unpack("<I", self.take(4))[0]]
        if tag == b"M":
            return self.changed(depth)
        if tag in b"lteSZ":
            return self.items(tag, depth - 1)
        if tag == b"w":
            return self.items(b"t", depth - 1, self.blob().decode())
        if tag in b"dDKO":
            return self.mapping(tag, depth - 1)
        if tag == b"H":
            kind = self.blob().decode("utf-8", "replace")
            number, plain = struct.unpack("<q?", self.take(9))
            return self.resolve(Handle(number, kind, plain))
        if tag == b"Y":
            name, arguments = self.blob().decode(), self.value(depth - 1)
            return _rebuild(name, arguments) if self.hashed else Handle(-1, name)
        if tag == b"c":
            value: Any = complex(*struct.unpack("<dd", self.take(16)))
        elif tag == b"b":
            value = self.blob()
        elif tag == b"a":
            self.seen.append(value := bytearray(self.blob()))
        else:
            raise BadValue(f"no value starts with {tag!r}")
        return value if self.hashed else Handle(-1, type(value).__name__)

    def changed(self, depth: int) -> Any:
        """A container that was sent from here: it gets the new content and is used as the value."""
        original = self.originals[struct.unpack("<I", self.take(4))[0]]
        place = len(self.seen)
        new = self.value(depth)
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

    def items(self, tag: bytes, depth: int, names: str = "") -> Any:
        place = len(self.seen)
        items: list[Any] = []
        self.seen.append(items)  # a list may contain itself; other types cannot
        for _ in range(self.count()):
            items.append(self.value(depth))  # noqa: PERF401  (the list must exist while it grows)
        value: Any = items
        if tag == b"t":
            value = _named(names, items) if names and self.hashed else tuple(items)
        elif tag != b"l":
            value = self.hashed_items({b"S": "set", b"Z": "frozenset", b"e": "deque"}[tag], items)
        self.seen[place] = value
        return value

    def hashed_items(self, kind: str, items: list[Any]) -> Any:
        if not self.hashed:
            return Handle(-1, kind)
        try:
            return getattr(__import__("collections" if kind == "deque" else "builtins"), kind)(items)
        except TypeError as error:
            raise BadValue("an item of a set cannot be hashed") from error

    def mapping(self, tag: bytes, depth: int) -> Any:
        value: Any = {} if self.hashed else Pairs()
        if self.hashed and tag != b"d":
            import collections

            kinds = {b"K": collections.Counter, b"O": collections.OrderedDict, b"D": collections.defaultdict}
            value = kinds[tag]()
        self.seen.append(value)
        if tag == b"D":
            factory = self.value(depth)
            if self.hashed:
                if not (factory is None or callable(factory)):
                    raise BadValue("what makes defaults cannot be called")
                value.default_factory = factory
        for _ in range(self.count()):
            key, item = self.value(depth), self.value(depth)
            if not self.hashed:
                value.append((key, item))
                continue
            try:
                value[key] = item
            except TypeError as error:
                raise BadValue("a key cannot be hashed") from error
        return value
