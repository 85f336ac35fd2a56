"""Standard streams in the place of files: ``-`` reads standard input, or writes standard output."""

import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mars_env.errors import ConfigError, explained

STREAM = "-"


def text_of(path: Path) -> str:
    """The contents of a file; ``-`` is standard input."""
    with explained(ConfigError, f"{path} cannot be read", OSError, UnicodeDecodeError):
        text = sys.stdin.read() if str(path) == STREAM else path.read_text(encoding="utf-8")
        return text.removeprefix("\ufeff")  # editors on Windows begin a file with it


def json_of(path: Path, what: str) -> Any:
    """What the JSON of a file holds; ``-`` is standard input."""
    text = text_of(path)
    with explained(ConfigError, f"{path}: {what} is not JSON", ValueError, RecursionError):
        return json.loads(text)


@contextmanager
def read_from(path: Path) -> Iterator[Path]:
    """A file to read, possibly several times: for ``-``, a copy of standard input, in rows of JSON."""
    if str(path) != STREAM:
        yield path
        return
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "stdin.jsonl"
        with copy.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        yield copy


@contextmanager
def write_to(path: Path) -> Iterator[Path]:
    """A file to write; what is written in the place of ``-`` goes to standard output at the end."""
    if str(path) != STREAM:
        yield path
        return
    with tempfile.TemporaryDirectory() as folder:
        draft = Path(folder) / "stdout.jsonl"
        yield draft
        with draft.open("rb") as file:
            shutil.copyfileobj(file, sys.stdout.buffer)
        sys.stdout.flush()
