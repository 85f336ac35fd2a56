"""A position in the tokens of a text."""

from __future__ import annotations

from mars_env.grading.math.nodes import OverLimit, Unreadable
from mars_env.grading.math.tokens import Token

MAX_DEPTH = 160
"""Deepest recursion of the reader; a pair of brackets takes four levels."""


class Cursor:
    """A position in some tokens, and what a reader must know about its context.

    Attributes:
        tokens: All tokens.
        place: Index of the next token.
        depth: The reader's recursion depth.
        bars: Number of open ``|``; while there is one, a bar closes it.
        colons: Whether a colon means a ratio here.
    """

    def __init__(self, tokens: list[Token]) -> None:
        self.tokens = tokens
        self.place = 0
        self.depth = 0
        self.bars = 0
        self.colons = True

    def peek(self, ahead: int = 0) -> Token:
        """The token `ahead` places ahead; after the last one, a token of the kind "end"."""
        place = self.place + ahead
        return self.tokens[place] if place < len(self.tokens) else Token("end", "", False)

    def next(self) -> Token:
        """Pass the token here and return it."""
        token = self.peek()
        self.place += 1
        return token

    def accept(self, *texts: str) -> str | None:
        """If the token here is one of these signs or commands, pass it and return its text; else None."""
        if self.peek().kind in ("op", "cmd", "env") and self.peek().text in texts:
            return self.next().text
        return None

    def expect(self, *texts: str) -> str:
        """Like `accept`, but raise `Unreadable` for any other token."""
        found = self.accept(*texts)
        if found is None:
            raise Unreadable(f"expected {' or '.join(texts)} at {self.peek().text!r}")
        return found

    def deeper(self) -> None:
        """Count one more level of recursion."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise OverLimit("the answer is nested deeper than the limit")
