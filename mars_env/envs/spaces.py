"""The text space of observations and actions."""

from typing import Any

import gymnasium

_ALPHABET = "abcdefghijklmnopqrstuvwxyz 0123456789=+-\n\\{}"


class UnicodeText(gymnasium.Space[str]):
    """Any string of at most `max_chars` characters.

    Gymnasium's `Text` admits only an explicit character set, and checks it character by character.

    Example:
        >>> "é" in UnicodeText(), 3 in UnicodeText()
        (True, False)
    """

    def __init__(self, max_chars: int = 4_000_000, seed: int | None = None) -> None:
        self.max_chars = max_chars  # by default far above the paper's 64k-token outputs
        super().__init__(shape=None, dtype=str, seed=seed)

    @property
    def is_np_flattenable(self) -> bool:
        """Strings have no fixed-size array form."""
        return False

    def sample(self, mask: None = None, probability: None = None) -> str:
        """A short random string: enough to drive the environment tests, never a sensible action."""
        if mask is not None or probability is not None:
            raise ValueError("a UnicodeText cannot be sampled under a mask or probabilities")
        length = int(self.np_random.integers(0, min(self.max_chars, 32) + 1))
        return "".join(_ALPHABET[i] for i in self.np_random.integers(0, len(_ALPHABET), length))

    def contains(self, x: Any) -> bool:
        """Whether x is a string that is not too long."""
        return isinstance(x, str) and len(x) <= self.max_chars

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UnicodeText) and self.max_chars == other.max_chars

    def __hash__(self) -> int:
        return hash((UnicodeText, self.max_chars))

    def __repr__(self) -> str:
        return f"UnicodeText({self.max_chars})"


class TextOrInteger(UnicodeText):
    """Any string or integer: a field of an observation."""

    def contains(self, x: Any) -> bool:
        """Whether x is a string that is not too long, or an integer."""
        return isinstance(x, int) or super().contains(x)
