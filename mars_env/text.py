"""Foreign text, made safe. No character of it acts as a command on a terminal, in a log or on a page.

Texts from models, problem files, stored runs, servers and exceptions are foreign. They pass through here:
`visible` keeps lines, `one_line` joins them, `describe_error` shows exceptions, `logger` log records.
"""

from __future__ import annotations

import difflib
import logging
import sysconfig
import traceback
import unicodedata
from collections.abc import Iterable
from pathlib import Path

MOST_OF_A_MESSAGE = 1_000
"""How many characters an error message may have: a foreign id or title can be longer than any screen."""

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


def bounded(text: str, most: int = MOST_OF_A_MESSAGE) -> str:
    """The text; if it is longer than `most`, without its middle, because its end says what to do.

    Example:
        >>> bounded("the problem xxxxxxxxxxxxxxxxxxxxxxxxx is not in the set: choose another", 40)
        'the problem xxxxxxxxxxxxxx…hoose another'
    """
    if len(text) <= most:
        return text
    end = most // 3
    return f"{text[: most - end - 1]}…{text[-end:]}"


def describe_error(error: BaseException) -> str:
    r"""An exception's type and the start of its message, on one line.

    Example:
        >>> describe_error(ValueError("no\nanswer"))
        'ValueError: no answer'
    """
    try:
        words = one_line(str(error), MOST_WORDS)
    except Exception:  # a foreign class may fail to describe itself
        words = ""
    name = type(error).__name__
    return f"{name}: {words}" if words else name


def raised(error: BaseException) -> str:
    """An exception of a user's function: `describe_error`, and the line of the user's code that it came from.

    Example:
        >>> def reward(turn):
        ...     return turn.info["nope"]
        >>> try:
        ...     reward(None)
        ... except AttributeError as error:
        ...     print(raised(error).startswith("AttributeError: 'NoneType' object has no attribute 'info' ("))
        True
    """
    where = users_line(error)
    return f"{describe_error(error)} ({where})" if where else describe_error(error)


def users_line(error: BaseException) -> str:
    """File, number and text of the last line of a user's code that an exception passed; empty if of none."""
    frames = [each for each in traceback.extract_tb(error.__traceback__) if _is_users(each.filename)]
    if not frames:
        return ""
    line = f": {one_line(frames[-1].line)}" if frames[-1].line else ""
    return f"{Path(frames[-1].filename).name}, line {frames[-1].lineno}{line}"


def _is_users(file: str) -> bool:
    """Whether code is neither of this package nor of Python or an installed package."""
    return not file.startswith(("<frozen ", "<string>")) and not any(
        map(Path(file).is_relative_to, _INSTALLED)
    )


_INSTALLED = {
    Path(__file__).parent,
    *map(Path, map(sysconfig.get_path, ("stdlib", "platstdlib", "purelib", "platlib", "scripts"))),
}


def counted(number: int, noun: str) -> str:
    """A number of things, in the singular or the plural.

    Example:
        >>> counted(1, "problem"), counted(1_200, "row")
        ('1 problem', '1,200 rows')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def suggestion(name: object, known: Iterable[str]) -> str:
    """A hint at the known name that a wrong one was probably meant to be; empty if none is close.

    Example:
        >>> suggestion("solvr_0", ["solver_0", "verifier_0"]), suggestion("x", ["solver_0"])
        ("; did you mean 'solver_0'?", '')
        >>> suggestion("train.lr", ["train", "train.learning_rate"])
        "; did you mean 'train.learning_rate'?"
    """
    if not isinstance(name, str):
        return ""
    names = list(known)
    close = [each for each in names if _initials(each) == name and len(name) > 1]
    close += difflib.get_close_matches(name, names, n=1, cutoff=0.7)
    return f"; did you mean {close[0]!r}?" if close else ""


def _initials(name: str) -> str:
    """A dotted name, its last part shortened to the initials of its words."""
    group, dot, last = name.rpartition(".")
    return group + dot + "".join(word[:1] for word in last.split("_"))


def validation_message(error: ValueError, known: Iterable[str] = ()) -> str:
    """What is wrong with some settings, on one line; from pydantic's report, only the place and the reason.

    Args:
        error: Pydantic's, or any other.
        known: Names of all settings, of which the closest to an unknown one is suggested.

    Example:
        >>> validation_message(ValueError("too many rounds"))
        'too many rounds'
    """
    from pydantic import ValidationError  # not for those who only import the package

    if not isinstance(error, ValidationError):
        return str(error)
    faults = error.errors(include_url=False, include_input=False, include_context=False)
    told = []
    for each in faults[:5]:
        place = ".".join(map(str, each["loc"]))
        if each["type"] == "extra_forbidden":
            told.append(f"there is no setting {shown(place)}{suggestion(place, known)}")
        else:
            words = each["msg"].removeprefix("Value error, ")
            told.append(f"{place}: {words}" if place else words)
    return "; ".join(told)


def shown(value: object) -> str:
    """A value as it appears in a message: plain values, cut to a few words; others by their type.

    Example:
        >>> shown("a" * 100), shown([1, 2])
        ("'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa…'", 'a list')
    """
    if value is None or type(value) in (bool, float):
        return repr(value)
    if type(value) is int:
        return repr(value) if value.bit_length() < 128 else f"a number of {value.bit_length()} bits"
    if isinstance(value, str):
        return repr(value) if len(value) < 40 else repr(value[:38] + "…")
    return f"a {type(value).__name__}"


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
