"""Folders that are complete or not there, whenever the process is killed, and digests of their files."""

import hashlib
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

DIGESTS = "SHA256SUMS"
"""The digests of a folder's files, for ``sha256sum --check``; the last line is that of the other lines."""
_SCRATCH = ".scratch-"


@contextmanager
def whole_folder(target: Path) -> Iterator[Path]:
    """A folder to write, which gets its name when all is on the disk; one of this name is removed before.

    What kills have left of earlier writes is removed, too.
    """
    for leftover in target.parent.glob(_SCRATCH + "*"):
        shutil.rmtree(leftover)
    scratch = target.with_name(_SCRATCH + target.name)
    try:
        scratch.mkdir(parents=True)
        yield scratch
        for path in [*scratch.rglob("*"), scratch]:
            _sync_to_disk(path)
        if target.exists():
            remove_folder(target)
        scratch.rename(target)
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)
        raise
    _sync_to_disk(target.parent)


def remove_folder(path: Path) -> None:
    """Remove a folder; if the process is killed meanwhile, nothing is left that looks like one."""
    scratch = path.with_name(_SCRATCH + "old-" + path.name)
    path.rename(scratch)
    shutil.rmtree(scratch)


def numbered(directory: Path, name: re.Pattern[str]) -> list[tuple[int, Path]]:
    """All folders of a directory whose name has the form, by its number, the highest first."""
    if not directory.is_dir():
        return []
    matches = [(name.fullmatch(path.name), path) for path in directory.iterdir()]
    return sorted(((int(match[1]), path) for match, path in matches if match), reverse=True)


def write_digests(folder: Path) -> None:
    """Write the digests of all files of a folder."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != DIGESTS)
    lines = [f"{_file_digest(path)}  {path.relative_to(folder).as_posix()}\n" for path in paths]
    (folder / DIGESTS).write_bytes(_sealed("".join(lines).encode()))


def damaged_file(folder: Path) -> Path | None:
    """A file of a folder that is not as it was when the digests were written; None if there is none."""
    try:
        text = (folder / DIGESTS).read_bytes()
    except FileNotFoundError:
        return folder / DIGESTS
    lines = text.splitlines(keepends=True)[:-1]
    if text != _sealed(b"".join(lines)):
        return folder / DIGESTS
    for line in lines:
        digest, _, name = line.decode().rstrip("\n").partition("  ")
        if not (folder / name).is_file() or _file_digest(folder / name) != digest:
            return folder / name
    return None


def _sealed(lines: bytes) -> bytes:
    return lines + b"# %s\n" % hashlib.sha256(lines).hexdigest().encode()


def _file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sync_to_disk(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
