"""Runs inside a sandbox: a Python interpreter that keeps its names from one call to the next.

A call comes over descriptor 4: how many characters of output to keep, the length of the source, and the
source. The answer is the length of the output, and the output. Without a channel, a file holds all calls.
"""

from __future__ import annotations

import ast
import io
import json
import struct
import sys
import traceback

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing itself is slow to import
    from typing import Any

CHANNEL_FD, CALLS = 4, "calls.json"
CALL, ANSWER = struct.Struct(">II"), struct.Struct(">I")


class _Output(io.TextIOBase):
    """Keeps the first `room` characters that are printed, and counts the others."""

    def __init__(self, room: int) -> None:
        self.parts: list[str] = []
        self.room, self.lost = room, 0

    def write(self, text: str) -> int:
        kept = text[: self.room]
        self.parts.append(kept)
        self.room -= len(kept)
        self.lost += len(text) - len(kept)
        return len(text)

    def text(self) -> str:
        rest = f"\n[{self.lost} more characters]" if self.lost else ""
        return "".join(self.parts) + rest


def _run(source: str | bytes, names: dict[str, Any], room: int) -> bytes:
    """Run one call; like a prompt, it shows the value of an expression at its end."""
    output = sys.stdout = sys.stderr = _Output(room)
    try:
        tree: Any = compile(source, "<call>", "exec", ast.PyCF_ONLY_AST, dont_inherit=True)
        last = tree.body[-1] if tree.body else None
        if isinstance(last, ast.Expr):
            tree.body.pop()
        exec(compile(tree, "<call>", "exec", dont_inherit=True), names)  # noqa: S102
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "<call>", "eval"), names)  # noqa: S307
            if value is not None:
                output.write(f"{value!r}\n")
    except BaseException as error:
        traceback.print_exception(
            error.with_traceback(error.__traceback__ and error.__traceback__.tb_next), file=output
        )
    return output.text().encode("utf-8", "backslashreplace")


def serve() -> None:
    """Answer calls until the channel is closed."""
    names: dict[str, Any] = {"__name__": "__main__"}
    calls = open(CHANNEL_FD, "rb", closefd=False)  # noqa: SIM115
    answers = open(CHANNEL_FD, "wb", closefd=False)  # noqa: SIM115
    while head := calls.read(CALL.size):
        room, length = CALL.unpack(head)
        answer = _run(calls.read(length), names, room)
        answers.write(ANSWER.pack(len(answer)) + answer)
        answers.flush()


def replay() -> None:
    """Run all calls of a file, and print a line's end and what the last one printed."""
    with open(CALLS) as file:  # noqa: PTH123  (pathlib is slow to import)
        room, calls = json.load(file)
    names: dict[str, Any] = {"__name__": "__main__"}
    stdout = sys.stdout
    answers = [_run(call, names, room) for call in calls]
    stdout.buffer.write(b"\n" + answers[-1])
    stdout.flush()
