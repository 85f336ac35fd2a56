"""Untrusted files, which may be links, pipes or devices: only regular files are opened."""

import json
import os
import secrets
import stat
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from mars_env.errors import StoreError, explained
from mars_env.text import describe_error

_GUARDED = os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


@contextmanager
def atomic_draft(path: Path) -> Iterator[Path]:
    """A draft, which replaces the file once all is written: the file is never half new.

    A link is replaced, and its target stays. An OSError if `path` cannot be written, or is a folder, pipe or
    device.
    """
    _require_replaceable(path)
    draft = path.with_name(f".{path.name[:100]}.{secrets.token_hex(8)}.draft")
    os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _GUARDED, 0o666))
    try:
        yield draft
        with draft.open("rb") as file:
            os.fsync(file.fileno())
        os.replace(draft, path)  # noqa: PTH105 (a path's own replace says less when it fails)
    finally:
        with suppress(FileNotFoundError):
            draft.unlink()


def writing(path: str | Path) -> AbstractContextManager[None]:
    """Inside, an OSError becomes a `StoreError`: the file cannot be written."""
    return explained(StoreError, f"{path} cannot be written", OSError)


def write_atomically(path: Path, text: str) -> None:
    """Write a text file with `atomic_draft`; lone surrogates become question marks."""
    with atomic_draft(path) as draft:
        draft.write_bytes(text.encode("utf-8", "replace"))


def _require_replaceable(path: Path) -> None:
    """Do not replace a folder, pipe or device: root could otherwise overwrite ``/dev/null``."""
    with suppress(FileNotFoundError):
        mode = os.lstat(path).st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISLNK(mode)):
            raise OSError(f"{path} is not a regular file")


def open_regular(path: Path, mode: str = "rb") -> IO[Any]:
    """`open`, but a link or anything else than a regular file is an OSError."""

    def opener(name: str, flags: int) -> int:
        descriptor = os.open(name, flags | _GUARDED, 0o666)
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            return descriptor
        os.close(descriptor)
        raise OSError(f"{name} is not a regular file")

    if path.is_symlink():
        raise OSError(f"{path} is a link, and links in a stored run are not followed")
    return open(path, mode, opener=opener, encoding=None if "b" in mode else "utf-8")


def jsonl_rows(
    path: Path, file: Iterable[bytes], error: type[Exception]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The rows of an open jsonl file, each with its place; blank lines and byte order marks are skipped.

    A line that is not a JSON object raises an `error`, which says file, line and cause.
    """
    for number, line in enumerate(file, 1):
        place = f"{path}, line {number}"
        if not line.strip():
            continue
        try:
            row = json.loads(line.decode("utf-8-sig").rstrip())  # else an early end is one of the next line
        except UnicodeDecodeError as cause:
            raise error(f"{place}: not UTF-8 text ({cause.reason} at byte {cause.start})") from cause
        except json.JSONDecodeError as cause:
            raise error(f"{place}: not JSON ({cause.msg} at column {cause.colno})") from cause
        except (RecursionError, ValueError) as cause:  # absurdly nested, or an absurdly long number
            raise error(f"{place}: cannot be read ({describe_error(cause)})") from cause
        if not isinstance(row, dict):
            raise error(f"{place}: a row must be a JSON object, not {type(row).__name__}")
        yield place, row
