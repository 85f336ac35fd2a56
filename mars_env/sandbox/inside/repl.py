"""Runs inside a sandbox: a Python interpreter that keeps its names from one call to the next.

A call is a line of JSON, how many characters of output to keep, and the source; its answer is a line of JSON,
the output. Both go over descriptor 4, where an empty answer comes first, once the interpreter is ready.
Without a channel, the standard input holds all calls. A call that uses too much CPU time ends by SIGPROF.
"""

from __future__ import annotations

import ast
import io
import json
import os
import signal
import sys
import traceback

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

CHANNEL_FD = 4


class _Output(io.StringIO):
    def __init__(self, room: int) -> None:
        super().__init__()
        self.room, self.lost = room, 0

    def write(self, text: str) -> int:
        written = super().write(text[: self.room])
        self.room -= written
        self.lost += len(text) - written
        return len(text)

    def text(self) -> str:
        return self.getvalue() + (f"\n[{self.lost} more characters]" if self.lost else "")


def _run(source: str, names: dict[str, Any], room: int) -> str:
    """Run one call; like a prompt, it shows the value of an expression at its end."""
    output = sys.stdout = sys.stderr = _Output(room)
    try:
        tree: Any = compile(source, "<call>", "exec", ast.PyCF_ONLY_AST, dont_inherit=True)
        last = tree.body[-1] if tree.body else None
        if isinstance(last, ast.Expr):
            tree.body.pop()
        exec(compile(tree, "<call>", "exec", dont_inherit=True), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "<call>", "eval"), names)  # noqa: S307
            if value is not None:
                output.write(f"{value!r}\n")
    except BaseException as error:
        traceback.print_exception(
            error.with_traceback(error.__traceback__ and error.__traceback__.tb_next), file=output
        )
    return output.text()


def serve(*, living: bool, seconds: float) -> None:
    """Answer calls until they end; each may use so many seconds of CPU time."""
    names: dict[str, Any] = {"__name__": "__main__"}
    calls: Iterable[str] = open(CHANNEL_FD, closefd=False) if living else sys.stdin.readlines()
    answers = open(CHANNEL_FD if living else os.dup(1), "w", closefd=False)
    if not living:
        os.dup2(2, 1)  # programs that it starts may print, too
    if living:
        answers.write('""\n')
        answers.flush()
    for line in calls:
        room, source = json.loads(line)
        signal.setitimer(signal.ITIMER_PROF, seconds)
        output = _run(source, names, room)
        signal.setitimer(signal.ITIMER_PROF, 0)
        answers.write(json.dumps(output) + "\n")
        answers.flush()
