"""Kills a run at an access to its folder: from then on nothing that it does reaches the folder."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

EVENTS = ("open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.scandir", "shutil.rmtree")


class Killed(BaseException):
    """The run is dead: no handler of errors ends this."""


class _Watch:
    """Raises `Killed` at an access to a folder, and at every later one."""

    def __init__(self) -> None:
        self.folder, self.remaining = "", 0
        sys.addaudithook(self._heard)

    def _heard(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.folder or event not in EVENTS:
            return
        path = str(arguments[0])
        inside = path.startswith(self.folder)
        if not inside and (event == "open" or path.startswith("/")):  # others are relative to an open folder
            return
        self.remaining -= 1
        if self.remaining <= 0:
            raise Killed


_watch: list[_Watch] = []


@contextmanager
def killed_at(access: int, folder: Path) -> Iterator[list[bool]]:
    """Kill what runs in here at an access to the folder, numbered from 1; the list then has an element."""
    if not _watch:
        _watch.append(_Watch())  # an audit hook cannot be removed
    [watch], deaths = _watch, []
    watch.folder, watch.remaining = str(folder), access
    try:
        yield deaths
    except Killed:
        deaths.append(True)
    finally:
        watch.folder = ""
