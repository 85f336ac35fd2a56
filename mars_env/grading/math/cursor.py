"""A place in the tokens of a text."""

from __future__ import annotations

from mars_env.grading.math.nodes import OverLimit, Unreadable
from mars_env.grading.math.tokens import Token

MAX_DEPTH = 160
"""Deepest recursion of the reader; a pair of brackets takes four levels of it."""


class Cursor:
    """A place in some tokens, and what a reader must know of its surroundings.

    Attributes:
        tokens: All of them.
        place: Index of the next one.
        depth: How deep the reader is in its recursion.
        bars: Number of open ``|``, in which a bar closes.
        colons: Whether a colon is a ratio here.
    """

    def __init__(self, tokens: list[Token]) -> None:
        self.tokens = tokens
        self.place = 0
        self.depth = 0
        self.bars = 0
        self.colons = True

    def peek(self, ahead: int = 0) -> Token:
        """The token so many places ahead; one of the kind "end" behind the last."""
        place = self.place + ahead
        return self.tokens[place] if place < len(self.tokens) else Token("end", "", False)

    def next(self) -> Token:
        """The token here, passed."""
        token = self.peek()
        self.place += 1
        return token

    def accept(self, *texts: str) -> str | None:
        """The text of the token here, passed, if it is one of these signs or commands; else None."""
        if self.peek().kind in ("op", "cmd", "env") and self.peek().text in texts:
            return self.next().text
        return None

    def expect(self, *texts: str) -> str:
        """The same, where nothing else is in the grammar."""
        found = self.accept(*texts)
        if found is None:
            raise Unreadable(f"expected {' or '.join(texts)} at {self.peek().text!r}")
        return found

    def deeper(self) -> None:
        """Count a level of recursion."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise OverLimit("the answer is nested deeper than the limit")
