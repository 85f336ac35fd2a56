"""Strings of models, files, servers and errors made safe: none acts on a terminal, in a log or on a page."""

import difflib
import logging
import sysconfig
import traceback
import unicodedata
from collections.abc import Iterable
from pathlib import Path


class _Visible(dict[int, str]):
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


_VISIBLE = _Visible()


def visible(text: str) -> str:
    """The string with every character escaped that a reader cannot see or that a terminal obeys.

    Newlines, tabs and spaces stay.
    """
    return text if text.isprintable() else text.translate(_VISIBLE)


def one_line(text: str, width: int = 100) -> str:
    """The string on one line, cut to a width, safe to print."""
    flat = visible(" ".join(text.split()))
    return flat if len(flat) <= width else flat[: width - 1] + "…"


def bounded(text: str) -> str:
    """At most 1,000 characters of a message: without its middle, since its end says what to do."""
    return text if len(text) <= 1_000 else f"{text[:666]}…{text[-333:]}"


def describe_error(error: BaseException) -> str:
    """An exception's type and the start of its message, on one line."""
    try:
        message = one_line(str(error), 300)
    except Exception:  # a user's class may fail to describe itself
        message = ""
    name = type(error).__name__
    return f"{name}: {message}" if message else name


def raised(error: BaseException) -> str:
    """`describe_error`, and the line of the user's code that the exception came from."""
    where = users_line(error)
    return f"{describe_error(error)} ({where})" if where else describe_error(error)


_INSTALLED = {
    Path(__file__).parent,
    *map(Path, map(sysconfig.get_path, ("stdlib", "platstdlib", "purelib", "platlib", "scripts"))),
}


def users_line(error: BaseException) -> str:
    """File, number and source of the last line of a user's code in a traceback; else empty."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        path, is_generated = Path(frame.filename), frame.filename.startswith(("<frozen ", "<string>"))
        if not is_generated and not any(map(path.is_relative_to, _INSTALLED)):
            source = f": {one_line(frame.line)}" if frame.line else ""
            return f"{path.name}, line {frame.lineno}{source}"
    return ""


def first_line(text: str | None) -> str:
    r"""The first line of a docstring; empty without one.

    Example:
        >>> first_line("Adds numbers.\n\n    More words.")
        'Adds numbers.'
    """
    return (text or "").strip().partition("\n")[0]


def counted(number: int, noun: str) -> str:
    """A number of things, in the singular or the plural: ``"1 problem"``, ``"1,200 rows"``."""
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


def choices(name: object, known: Iterable[str]) -> str:
    """The known names, for the message about a wrong one; at the end the `suggestion`.

    Example:
        >>> choices("solvr", ["solver", "verifier"])
        "solver, verifier; did you mean 'solver'?"
    """
    names = list(known)
    return f"{', '.join(names) or 'none'}{suggestion(name, names)}"


def _initials(name: str) -> str:
    """A dotted name, its last part shortened to the initials of its words."""
    group, dot, last = name.rpartition(".")
    return group + dot + "".join(word[:1] for word in last.split("_"))


def validation_message(error: Exception, known: Iterable[str] = ()) -> str:
    """What is wrong with some settings, on one line; of the `known` ones, those close to unknown ones."""
    from pydantic import ValidationError  # not for those who only import the package

    if not isinstance(error, ValidationError):
        return str(error)
    messages = []
    for each in error.errors(include_url=False, include_input=False, include_context=False)[:5]:
        place = ".".join(map(str, each["loc"]))
        if each["type"] == "extra_forbidden":
            messages.append(f"there is no setting {brief(place)}{suggestion(place, known)}")
        else:
            reason = each["msg"].removeprefix("Value error, ")
            messages.append(f"{place}: {reason}" if place else reason)
    return "; ".join(messages)


def brief(value: object) -> str:
    """A value in the few words that a message has for it: plain values cut short, others by their type."""
    if value is None or type(value) in (bool, float):
        return repr(value)
    if type(value) is int:
        return repr(value) if value.bit_length() < 128 else f"a number of {value.bit_length()} bits"
    if isinstance(value, str):
        return repr(value) if len(value) < 40 else repr(value[:38] + "…")
    return f"a {type(value).__name__}"


def logger(name: str) -> logging.Logger:
    """A module's logger. Its records and tracebacks pass through `visible` before a handler sees them."""
    log = logging.getLogger(name)
    log.addFilter(_show)  # added only once, however often this is called
    return log


def _show(record: logging.LogRecord) -> bool:
    record.msg, record.args = visible(record.getMessage()), ()
    if record.exc_info and not record.exc_text:
        record.exc_text = visible("".join(traceback.format_exception(*record.exc_info)).rstrip())
    return True
