"""Secrets kept out of messages: API keys and similar texts that a server or an error may repeat."""

import base64
import json
import os
from collections.abc import Iterable
from urllib.parse import quote, quote_plus

from mars_env.errors import ConfigError

PIECE = 8
"""A piece of a secret of this many characters is masked: a server may have cut the rest."""

SHORTEST = 4
"""Shorter words are not secrets."""

MASK = "***"


class Secrets:
    """Masks secrets in strings: whole or in pieces, plain, quoted for URLs and JSON, or in base64.

    Mask first and cut afterwards: a part of a masked string holds no piece of a secret. Of a value of several
    words (``Bearer KEY``) every long one is a secret.
    """

    def __init__(self, secrets: Iterable[str]) -> None:
        self._short: set[str] = set()  # masked where they stand whole
        self._pieces: set[str] = set()
        self.add(*secrets)

    def add(self, *secrets: str) -> None:
        """Mask these too."""
        for secret in secrets:
            for word in [word for word in secret.split() if len(word) >= PIECE] or [secret.strip()]:
                for form in map(str.lower, _forms(word)):
                    if len(form) >= PIECE:
                        self._pieces.update(form[i : i + PIECE] for i in range(len(form) - PIECE + 1))
                    elif len(form) >= SHORTEST:
                        self._short.add(form)

    def __repr__(self) -> str:  # never the secrets
        return "Secrets(...)"

    def mask(self, text: str) -> str:
        """The text with each piece of a secret, eight characters or more, replaced by three stars."""
        if not self._pieces and not self._short:
            return text
        lowered = text.lower()
        if len(lowered) != len(text):  # some characters grow in lower case: places would differ
            text = lowered
        starts = range(len(lowered) - PIECE + 1)
        spans = [(i, i + PIECE) for i in starts if lowered[i : i + PIECE] in self._pieces]
        for word in self._short:
            start = lowered.find(word)
            while start >= 0:
                spans.append((start, start + len(word)))
                start = lowered.find(word, start + 1)
        shown, end = [], 0
        for first, last in sorted(spans):
            if first >= end:
                shown += [text[end:first], MASK]
            end = max(end, last)
        return "".join([*shown, text[end:]])


def api_key(variable: str | None, what: str = "the API key") -> str:
    """The key in an environment variable, a `ConfigError` if it is not set; empty without a variable."""
    if variable is None:
        return ""
    key = os.environ.get(variable, "").strip()
    if not key:
        raise ConfigError(f"the environment variable {variable} with {what} is not set; export it first")
    return key


def client_keys(variable: str | None) -> list[str]:
    """The clients' keys that an environment variable holds, separated by commas; none without a variable."""
    return api_key(variable, "the clients' keys").replace(",", " ").split()


def _forms(word: str) -> list[str]:
    """The forms of a secret: plain, quoted for URLs and JSON, in base64 at any offset in a text."""
    data = word.encode("utf-8", "replace")
    forms = [word, quote(word, safe=""), quote_plus(word), json.dumps(word)[1:-1], word.replace("/", "\\/")]
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        for before in range(3):
            # The first characters depend on the text before it, the last ones on the text after it.
            code = encode(b"\0" * before + data).decode().rstrip("=")
            forms.append(code[(0, 2, 3)[before] : len(code) - 1])
    return list(dict.fromkeys(forms))
