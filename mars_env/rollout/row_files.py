"""The files of a run: rows of JSON that are appended, read and checked."""

import json
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any, TypeVar

from mars_env.errors import StoreError, explained
from mars_env.files import open_regular
from mars_env.rollout.engine import add_turns
from mars_env.rollout.records import check_tree_row, turn_from_row
from mars_env.text import brief, describe_error
from mars_env.types import Turn

T = TypeVar("T")

Written = tuple[int, int]
"""How many rows of turns a tree has, and their CRC-32: a power loss may take rows at the end of a file."""


def open_file(path: Path, mode: str) -> IO[Any]:
    """As `open_regular`, with a `StoreError`."""
    with explained(StoreError, f"{path} cannot be opened", OSError):
        return open_regular(path, mode)


def append(file: IO[str], text: str, sync: bool = False) -> None:
    """Give the text to the system, which keeps it if the process is killed; with `sync`, also to the disk.

    If it cannot all be written, the file stays as it was: a server goes on after a full disk.
    """
    data = text.encode()
    with explained(StoreError, f"{file.name} cannot be written", OSError, ValueError):
        descriptor = file.fileno()
        end = os.fstat(descriptor).st_size
        try:
            while data:
                data = data[os.write(descriptor, data) :]
            if sync:
                os.fsync(descriptor)
        except OSError:
            os.ftruncate(descriptor, end)
            raise


def rows_of(path: Path) -> Iterator[tuple[bytes, dict[str, Any]]]:
    """Lines of a file, and the row of each; an incomplete last line is left out."""
    if not path.exists() and not path.is_symlink():
        return
    with open_file(path, "rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                row = json.loads(line) if line.endswith(b"\n") else None
            except (ValueError, RecursionError) as error:
                raise StoreError(f"{path}, line {number}: not a row of JSON ({error})") from error
            if row is None and not line.endswith(b"\n"):
                return
            if not isinstance(row, dict):
                raise StoreError(f"{path}, line {number}: a row is an object of JSON, not {brief(row)}")
            yield line, row


def recovered_rows(path: Path) -> Iterator[tuple[bytes, dict[str, Any]]]:
    """As `rows_of`; an incomplete last line is removed from the file, so that the next row starts a line."""
    end = 0
    for line, row in rows_of(path):
        end += len(line)
        yield line, row
    if path.exists():
        with open_file(path, "r+b") as file:
            if os.fstat(file.fileno()).st_size > end:
                file.truncate(end)


def tree_rows(path: Path, rows: Iterable[tuple[bytes, dict[str, Any]]]) -> dict[str, Mapping[str, Any]]:
    """The rows of trees, by their ids; the last one of a tree counts."""
    return {row["tree"]: row for row in (read_row(path, row, check_tree_row) for _, row in rows)}


def read_row(path: Path, row: Mapping[str, Any], reader: Callable[[Mapping[str, Any]], T]) -> T:
    """Read a row; an error names the row and says what is wrong with it."""
    try:
        return reader(row)
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        name = next((row[key] for key in ("id", "tree") if isinstance(row.get(key), str)), None)
        raise StoreError(f"{path}: the row of {name!r} cannot be read: {describe_error(error)}") from error


def read_turns(
    path: Path,
    rows: Iterable[tuple[bytes, dict[str, Any]]],
    trees: Mapping[str, Mapping[str, Any]],
    is_read: Callable[[str], bool],
    texts: Mapping[str, str] = MappingProxyType({}),
) -> tuple[dict[str, dict[str, Turn]], dict[str, Written]]:
    """The turns of trees that are read, by id, and what is written of each tree.

    The lines that a tree was finished with must be those that its row in `trees` states; further ones follow
    where a tree with a fault, or a recorded one, is continued.
    """
    turns: dict[str, dict[str, Turn]] = {}
    written: dict[str, Written] = {}
    for line, row in rows:
        if not isinstance(row.get("tree"), str) or is_read(row["tree"]):
            turn = read_row(path, row, partial(turn_from_row, texts=texts))
            add_turns(turns.setdefault(turn.tree_id, {}), [turn])
        tree = row["tree"]
        count, checksum = written.get(tree, (0, 0))
        count, checksum = written[tree] = (count + 1, zlib.crc32(line, checksum))
        if (ended := trees.get(tree)) is None:
            continue
        if count == ended["turns"] and checksum != ended["checksum"]:
            raise StoreError(f"{path}: the turns of tree {tree!r} are not those that it was finished with")
        if count > ended["turns"] > 0 and not ended["fault"]:
            raise StoreError(f"{path}: tree {tree!r} was finished with {ended['turns']} turns, but has more")
    return turns, written


def require_all(path: Path, trees: Iterable[Mapping[str, Any]], written: Mapping[str, Written]) -> None:
    """Reject trees that have lost turns: what is read of a run must not depend on a power loss."""
    for row in trees:
        count = written.get(row["tree"], (0,))[0]
        if count < row["turns"]:
            lost = f"{path} has {count} of the {row['turns']} turns of tree {row['tree']!r}"
            raise StoreError(f"{lost}: continue the run with the same command, which plays it again")
