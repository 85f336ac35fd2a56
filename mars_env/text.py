"""Foreign text, made safe. No character of it acts as a command on a terminal, in a log or on a page.

Texts from models, problem files, stored runs, servers and exceptions are foreign. They pass through here:
`visible` keeps lines, `one_line` joins them, `described` is for exceptions, and `logger` for log records.
"""

from __future__ import annotations

import logging
import traceback
import unicodedata

MOST_WORDS = 300
"""How many characters of an exception's message are shown."""


class _Visible(dict[int, str]):
    """Visible forms by code point, computed on first use."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        if character.isprintable() or character in "\n\t" or unicodedata.category(character) == "Zs":
            form = character
        elif code < 0x20:
            form = chr(0x2400 + code)  # its picture
        else:
            form = character.encode("unicode_escape").decode()
        self[code] = form
        return form


_SHOWN = _Visible()


def visible(text: str) -> str:
    r"""The text with every character escaped that a reader cannot see or that a terminal obeys.

    These are control characters (C0, C1, escape), bidirectional and zero-width ones, line and paragraph
    separators, lone surrogates, private and unassigned ones. Newlines, tabs and spaces stay.

    Example:
        >>> print(visible("a\x1b[31mb\n\u202ec\u2028"))
        a␛[31mb
        \u202ec\u2028
    """
    return text if text.isprintable() else text.translate(_SHOWN)


def one_line(text: str, width: int = 100) -> str:
    r"""The text on one line, cut to a width, safe to print.

    Example:
        >>> one_line("two\n  lines", 7)
        'two li…'
    """
    flat = visible(" ".join(text.split()))
    return flat if len(flat) <= width else flat[: width - 1] + "…"


def described(error: BaseException) -> str:
    r"""An exception's type and the start of its message, on one line.

    Example:
        >>> described(ValueError("no\nanswer"))
        'ValueError: no answer'
    """
    try:
        words = one_line(str(error), MOST_WORDS)
    except Exception:  # a foreign class may fail to describe itself
        words = ""
    name = type(error).__name__
    return f"{name}: {words}" if words else name


def logger(name: str) -> logging.Logger:
    r"""A module's logger. Its records and tracebacks pass through `visible` before a handler sees them.

    Example:
        >>> log = logger("mars_env.example")
        >>> record = log.makeRecord(log.name, logging.INFO, "", 0, "%s", ("\x1b[2J",), None)
        >>> bool(log.filter(record)), record.getMessage()
        (True, '␛[2J')
    """
    log = logging.getLogger(name)
    log.addFilter(_show)  # added only once, however often this is called
    return log


def _show(record: logging.LogRecord) -> bool:
    record.msg, record.args = visible(record.getMessage()), ()
    if record.exc_info and not record.exc_text:
        record.exc_text = visible("".join(traceback.format_exception(*record.exc_info)).rstrip())
    return True
