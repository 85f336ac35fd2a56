"""Where the rows of each tree are in a run, so that one tree is read without the others."""

import json
import threading
from pathlib import Path

from mars_env.errors import StoreError
from mars_env.rollout.row_files import open_file
from mars_env.rollout.store import TREES, TURNS, tree_from_rows
from mars_env.types import Problem, Tree


class TreeIndex:
    """An index of the rows of a run that a `Store` has opened. Later it reads only the rows that are new."""

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        self._ends = {TREES: 0, TURNS: 0}
        self._starts: dict[tuple[str, str], list[int]] = {}
        self._lock = threading.Lock()
        self._catch_up()

    def tree(self, tree_id: str, problem: Problem) -> Tree:
        """A finished tree. May be called from any thread."""
        with self._lock:
            self._catch_up()
        lines = self._lines(TREES, tree_id)
        if not lines:
            raise StoreError(f"{self._path} has no finished tree {tree_id!r}")
        return tree_from_rows(self._path, json.loads(lines[-1]), self._lines(TURNS, tree_id), problem)

    def _catch_up(self) -> None:
        for name, start in self._ends.items():
            with open_file(self._path / name, "rb") as file:
                file.seek(start)
                for line in file:
                    if not line.endswith(b"\n"):
                        break  # it is being written
                    self._starts.setdefault((name, json.loads(line)["tree"]), []).append(start)
                    start += len(line)
            self._ends[name] = start

    def _lines(self, name: str, tree_id: str) -> list[bytes]:
        lines = []
        with open_file(self._path / name, "rb") as file:
            for start in self._starts.get((name, tree_id), ()):
                file.seek(start)
                lines.append(file.readline())
        return lines
