"""Compares a program's results with the expected ones: pure functions, run outside every sandbox.

docs/code-grading.md has the rules of outputs, of returned values and of numbers.
"""

import hashlib
import math
import re
from collections.abc import Callable, Iterator
from decimal import Context, Decimal
from functools import partial
from typing import Any, Literal

from mars_env.grading.code.values import BadValue, Handle, Pairs, decode

NUMBER = re.compile(r"[-+]?(?:[0-9]{1,400}(?:\.[0-9]{0,400})?|\.[0-9]{1,400})(?:[eE][-+]?[0-9]{1,4})?")
_WORD = re.compile(r"\S+")
_CONTEXT = Context(prec=60)
_LEEWAY = Decimal("1e-5")  # of a number in CodeContests, at any size
_ROOM = 330  # bytes: an integer may match a float, and an integer key its text: 1,024 bits, 309 digits
_KEYED = 1 << 16  # longer ones are compared byte by byte

Comparison = Literal["lines", "stripped", "words"]
"""How outputs are compared, as the graders of two sets do: ``"stripped"`` (LiveCodeBench) ignores white space
at the beginning of a line, too, and the way numbers are written in a line of numbers; ``"words"``
(CodeContests) compares words alone, without case, and a number may differ by 1e-5."""


def outputs_match(
    expected: str,
    actual: str,
    *,
    exact: bool = False,
    tolerance: float | None = None,
    comparison: Comparison = "lines",
) -> bool:
    r"""Whether an output is the expected one, by tolerance (absolute or relative) and comparison.

    Example:
        >>> outputs_match("1 2\n0.333333\n", "1  2 \n0.3333333333333333")
        True
        >>> outputs_match("2", "2.0"), outputs_match("  *", "*"), outputs_match("0.5", "0.50001")
        (False, False, False)
        >>> outputs_match("2", " 2.0", comparison="stripped"), outputs_match("NO", "No", comparison="words")
        (True, True)
    """
    if exact:
        return expected.removesuffix("\n") == actual.removesuffix("\n")
    if comparison == "words":
        return _words_match(expected.lower(), actual.lower(), lambda a, b: a == b or _near(a, b, _LEEWAY))
    # Reject an output of the wrong shape before parsing it, so that the work depends on the expected output.
    expected_lines, actual_lines = _without_empty_ends(expected), _without_empty_ends(actual)
    if expected_lines.count("\n") != actual_lines.count("\n"):
        return False
    lines = zip(expected_lines.split("\n"), actual_lines.split("\n"), strict=True)
    if comparison == "stripped":
        return all(
            _line_matches(a.strip(), b.strip(), tolerance) or _words_match(a, b, partial(_near, leeway=0))
            for a, b in lines
        )
    return all(_line_matches(a.rstrip(), b.rstrip(), tolerance) for a, b in lines)


def _without_empty_ends(text: str) -> str:
    text = text.rstrip()
    return text[text.rfind("\n", 0, len(text) - len(text.lstrip())) + 1 :]


def _words_match(expected: str, actual: str, word_matches: Callable[[str, str], bool]) -> bool:
    expected_words = expected.split()
    actual_words = actual.split(None, len(expected_words))
    return len(expected_words) == len(actual_words) and all(map(word_matches, expected_words, actual_words))


def _near(expected: str, actual: str, leeway: Decimal | int) -> bool:
    if not (NUMBER.fullmatch(expected) and NUMBER.fullmatch(actual)):
        return False
    return _CONTEXT.abs(_CONTEXT.subtract(Decimal(expected), Decimal(actual))) <= leeway


def _line_matches(expected: str, actual: str, tolerance: float | None) -> bool:
    if expected == actual:
        return True
    if not _words_match(expected, actual, lambda a, b: a == b or _numbers_match(a, b, tolerance)):
        return False
    return all(map(NUMBER.fullmatch, expected.split())) or _WORD.split(expected) == _WORD.split(actual)


def _numbers_match(expected: str, actual: str, tolerance: float | None) -> bool:
    if not (NUMBER.fullmatch(expected) and NUMBER.fullmatch(actual)):
        return False
    if not any(c in expected for c in ".eE") and tolerance is None:
        return False  # an integer, and the texts differ
    number = Decimal(expected)
    return _close(number, Decimal(actual), _decimals(expected), tolerance)


def _decimals(text: str) -> int:
    mantissa, _, exponent = text.lower().partition("e")
    return max(0, len(mantissa.partition(".")[2]) - int(exponent or 0))


def _close(expected: Decimal, actual: Decimal, decimals: int, tolerance: float | None) -> bool:
    difference = _CONTEXT.abs(_CONTEXT.subtract(expected, actual))
    scale = max(Decimal(1), _CONTEXT.abs(expected))
    if tolerance is not None:
        # Slightly more, so that 0.1 is within 0.1 of 0 when both are written as decimals.
        return difference <= _CONTEXT.multiply(scale, Decimal(tolerance) * Decimal("1.000000001"))
    noise = _CONTEXT.multiply(scale, Decimal("1e-9"))
    unit = Decimal(1).scaleb(-min(decimals, 400))
    if decimals >= 5:
        return difference <= noise or difference < unit
    return difference <= max(noise, min(_CONTEXT.multiply(scale, Decimal("1e-6")), unit / 2))


def values_match(expected: Any, actual: Any, *, tolerance: float | None = None) -> bool:
    """Whether a returned value, from `values.decode` with ``hashed=False``, is the one expected in JSON.

    Example:
        >>> values_match([0.3, 2], (0.1 + 0.2, 2)), values_match(1, True), values_match(2, 2.0)
        (True, False, False)
    """
    if expected is None or isinstance(expected, bool | int | str):
        return type(actual) is type(expected) and bool(actual == expected)
    if isinstance(expected, float):
        return type(actual) in (int, float) and _floats_match(expected, actual, tolerance)
    if isinstance(expected, (list, tuple)):
        return (
            isinstance(actual, (list, tuple))
            and not isinstance(actual, Pairs)
            and len(actual) == len(expected)
            and all(values_match(e, a, tolerance=tolerance) for e, a in zip(expected, actual, strict=True))
        )
    if isinstance(expected, dict):
        return isinstance(actual, Pairs) and _mappings_match(expected, actual, tolerance)
    return False


def has_room_for(expected: Any, size: int) -> bool:
    """Whether a matching value can take `size` bytes, encoded; a longer one is wrong and is not decoded."""
    queue = [expected]
    while queue and size > 0:
        value = queue.pop()
        size -= _ROOM
        if isinstance(value, int):
            size -= value.bit_length() // 4
        elif isinstance(value, str):
            size -= 12 * len(value)
        elif isinstance(value, dict):
            queue += [*value, *value.values()]
        elif isinstance(value, (list, tuple)):
            queue += value
    return size <= 0


def _floats_match(expected: float, actual: float, tolerance: float | None) -> bool:
    if actual == expected or (math.isnan(expected) and actual != actual):
        return True
    if isinstance(actual, int) and actual.bit_length() > 1024:
        return False  # no float is that large
    if not math.isfinite(expected) or (isinstance(actual, float) and not math.isfinite(actual)):
        return False
    return _close(Decimal(repr(expected)), Decimal(repr(actual)), _decimals(repr(expected)), tolerance)


def _mappings_match(expected: dict[Any, Any], actual: Pairs, tolerance: float | None) -> bool:
    if len(actual) != len(expected):
        return False
    by_text = {str(key): value for key, value in expected.items()}
    for key, value in actual:
        name = str(key) if type(key) is int and key.bit_length() <= 1024 else key
        if type(name) is not str or name not in by_text:
            return False
        if not values_match(by_text.pop(name), value, tolerance=tolerance):
            return False
    return True


def output_key(output: bytes) -> str:
    """A string that is the same for equal outputs of two programs (not for an expected output)."""
    if len(output) > _KEYED:
        return hashlib.sha256(output.strip()).hexdigest()
    text = output.decode("utf-8", "backslashreplace")
    return "\n".join(" ".join(line.split()) for line in text.strip().split("\n"))


def value_key(data: bytes) -> str | None:
    """A string that is the same for equal results of a call (a list equals a tuple), or None."""
    if len(data) > _KEYED:
        return hashlib.sha256(data).hexdigest()
    try:
        kind, *queue = decode(data, hashed=False)
    except (BadValue, TypeError, ValueError):
        return None
    if kind != "result":
        return None
    pieces: list[str] = []
    while queue:
        value = queue.pop()
        if isinstance(value, Handle):
            return None
        if len(pieces) + len(queue) > _KEYED:  # a few bytes may hold much: what occurs twice is sent once
            return hashlib.sha256(data).hexdigest()
        if isinstance(value, Pairs):
            pieces.append(f"{{{len(value)}")
            queue += [item for pair in sorted(value, key=lambda pair: _word(pair[0])) for item in pair]
        elif isinstance(value, (list, tuple)):
            pieces.append(f"[{len(value)}")
            queue += value
        else:
            pieces.append(_word(value))
    return " ".join(pieces)


def _word(value: Any) -> str:
    if isinstance(value, (list, tuple, Handle)):
        return ""
    return hex(value) if type(value) is int else repr(value)  # an integer may be too long to write in decimal


def preview(value: Any, limit: int = 300) -> str:
    """A value as a string of about `limit` characters at most, however large, deep or shared it is."""
    text = ""
    for piece in _pieces(value, limit, 8):
        text += piece
        if len(text) > limit:
            return text[:limit] + "..."
    return text


def _pieces(value: Any, limit: int, depth: int) -> Iterator[str]:
    if isinstance(value, (list, tuple, dict)):
        if depth == 0:
            yield "..."
            return
        mapping = isinstance(value, (Pairs, dict))
        opening, closing = "{}" if mapping else "()" if isinstance(value, tuple) else "[]"
        yield opening
        for index, item in enumerate(value.items() if isinstance(value, dict) else value):
            yield ", " if index else ""
            for number, member in enumerate(item if mapping else (item,)):
                yield ": " if number else ""
                yield from _pieces(member, limit, depth - 1)
        yield ("," if isinstance(value, tuple) and len(value) == 1 else "") + closing
    elif isinstance(value, Handle):
        yield f"<{value.kind} object>"
    elif isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 4 * limit:
        yield f"<integer of {value.bit_length()} bits>"
    else:
        yield repr(value[: limit + 1] if isinstance(value, str) else value)
