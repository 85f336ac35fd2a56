"""Secrets kept out of messages: API keys and similar texts that a server or an error may repeat."""

import json
import os
from collections.abc import Iterable
from urllib.parse import quote, quote_plus

from mars_env.errors import ConfigError

PIECE = 8
"""A piece of a secret of this many characters is masked: a server may have cut the rest."""

SHORTEST = 4

MASK = "***"


class Secrets:
    """Masks secrets in strings: whole or in pieces, plain or quoted for URLs and JSON.

    Mask first and cut afterwards: a part of a masked string holds no piece of a secret. Of a value of several
    words (``Bearer KEY``) every long one is a secret.
    """

    def __init__(self, secrets: Iterable[str]) -> None:
        self._pieces: dict[int, set[str]] = {}  # by their lengths, in lower case
        for secret in secrets:
            for word in [word for word in secret.split() if len(word) >= PIECE] or [secret.strip()]:
                self._add(word)

    def _add(self, word: str) -> None:
        in_json = (json.dumps(word)[1:-1], word.replace("/", "\\/"))
        for form in map(str.lower, (word, quote(word, safe=""), quote_plus(word), *in_json)):
            if (size := min(len(form), PIECE)) >= SHORTEST:
                pieces = self._pieces.setdefault(size, set())
                pieces.update(form[start : start + size] for start in range(len(form) - size + 1))

    def __repr__(self) -> str:  # never the secrets
        return "Secrets(...)"

    def mask(self, text: str) -> str:
        """The text with each piece of a secret, eight characters or more, replaced by three stars."""
        lowered = text.lower()
        if len(lowered) != len(text):  # some characters grow in lower case: places would differ
            text = lowered
        spans = [
            (start, start + size)
            for size, pieces in self._pieces.items()
            for start in range(len(lowered) - size + 1)
            if lowered[start : start + size] in pieces
        ]
        parts, end = [], 0
        for first, last in sorted(spans):
            if first >= end:
                parts += [text[end:first], MASK]
            end = max(end, last)
        return "".join([*parts, text[end:]])


def api_key(variable: str | None, what: str = "the API key") -> str:
    """The key in an environment variable, a `ConfigError` if it is not set; empty without a variable."""
    if variable is None:
        return ""
    key = os.environ.get(variable, "").strip()
    if not key:
        raise ConfigError(f"the environment variable {variable} with {what} is not set; export it first")
    return key
