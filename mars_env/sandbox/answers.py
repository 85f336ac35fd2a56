r"""Reads JSON from strangers in bounded steps: few values, and long texts in pieces.

`json.loads` reads everything in one step, during which no other thread runs: 20 MiB of nested lists take
seconds. Here the structure is read step by step, up to a number of values, and each step decodes one piece
of a text.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from typing import Any

MOST_VALUES, MOST_DEPTH = 1000, 8
"""An executor's answer has about ten values, plus the requested files."""

PIECE = 1 << 16
"""How many characters of a text are decoded at a time."""

PAUSE = 1e-4
"""Seconds. A Python thread that has something to do waits up to 5 ms for one that computes, each time;
with these pauses it need not."""

_SPACE = re.compile(r"[ \t\n\r]*")
_SCALAR = re.compile(r"[-+.0-9A-Za-z]{1,64}")
_WITHIN = re.compile(r'[^"\\]*+(?:\\(?:u[0-9a-fA-F]{4}|[^u])[^"\\]*+)*+')
_FIRST_HALF = re.compile(r"(?<!\\)(?:\\\\)*(\\u[dD][89abAB][0-9a-fA-F]{2})\Z")
"""At the end of a piece: the first of two escapes that together are one character."""


def breathe() -> None:
    """Let other threads run: for `read_json` in a thread."""
    time.sleep(PAUSE)


def read_json(text: str, between: Callable[[], object] = lambda: None) -> Any:
    r"""The value of a JSON text; `between` is called after each piece of a text.

    Raises:
        ValueError: It is not JSON, or exceeds `MOST_VALUES` or `MOST_DEPTH`.

    Example:
        >>> read_json('{"status": "Success", "run_result": {"stdout": "a\\n", "return_code": 0}}')
        {'status': 'Success', 'run_result': {'stdout': 'a\n', 'return_code': 0}}
        >>> read_json("[" * 100)
        Traceback (most recent call last):
        ValueError: it is nested too deeply
    """
    reader = _Reader(text, between)
    value = reader.value(MOST_DEPTH)
    if reader.next():
        raise ValueError(f"it continues after the value, at character {reader.at}")
    return value


class _Reader:
    """Reads values from a text, from the current position on."""

    def __init__(self, text: str, between: Callable[[], object]) -> None:
        self.text, self.at, self.left, self.between = text, 0, MOST_VALUES, between

    def next(self) -> str:
        """Skip white space and return the next character; an empty text at the end."""
        found = _SPACE.match(self.text, self.at)
        assert found is not None
        self.at = found.end()
        return self.text[self.at : self.at + 1]

    def value(self, depth: int) -> Any:
        """Read the next value."""
        self.left -= 1
        if self.left < 0:
            raise ValueError("it contains too many values")
        first = self.next()
        if first == '"':
            return self.string()
        if first not in ("{", "["):
            found = _SCALAR.match(self.text, self.at)
            if found is None:
                raise ValueError(f"no value at character {self.at}")
            self.at = found.end()
            return json.loads(found.group(), parse_constant=_refuse)
        if not depth:
            raise ValueError("it is nested too deeply")
        return self.members(depth) if first == "{" else self.items(depth)

    def members(self, depth: int) -> dict[str, Any]:
        """Read an object."""
        found: dict[str, Any] = {}
        for _ in self.parts("}"):
            if self.next() != '"':
                raise ValueError(f"no key at character {self.at}")
            key = self.value(depth - 1)
            self.take(":")
            found[key] = self.value(depth - 1)
        return found

    def items(self, depth: int) -> list[Any]:
        """Read a list."""
        return [self.value(depth - 1) for _ in self.parts("]")]

    def parts(self, end: str) -> Any:
        """Yield at each part between an opening bracket and `end`."""
        self.at += 1
        if self.next() == end:
            self.at += 1
            return
        while True:
            yield
            if self.next() == end:
                self.at += 1
                return
            self.take(",")

    def take(self, wanted: str) -> None:
        """Pass a character that must come next."""
        if self.next() != wanted:
            raise ValueError(f"no {wanted!r} at character {self.at}")
        self.at += 1

    def string(self) -> str:
        """Read a text and decode it piece by piece."""
        self.at += 1
        pieces = []
        while True:
            found = _WITHIN.match(self.text, self.at, self.at + PIECE)
            assert found is not None
            piece = found.group()
            ended = self.text.startswith('"', found.end())
            if not ended:
                half = _FIRST_HALF.search(piece)
                piece = piece if half is None else piece[: half.start(1)]
                if not piece:
                    raise ValueError(f"a text without end at character {self.at}")
            pieces.append(json.loads(f'"{piece}"'))
            self.at += len(piece)
            self.between()
            if ended:
                self.at += 1
                return "".join(pieces)


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")
