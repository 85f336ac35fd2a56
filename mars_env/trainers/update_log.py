"""What a run keeps beside its checkpoints: a file with one line for each update, which survives a kill."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mars_env.files import write_atomically


@dataclass(frozen=True, slots=True)
class UpdateLog:
    """Lines of updates, each written to disk before its update.

    A line counts once there is a checkpoint of its update or of a later one. A run that was killed continues
    from a checkpoint, and `resumed` removes the lines of the updates that were lost with it.

    Attributes:
        path: The file; None: nothing is kept.
    """

    path: Path | None

    @classmethod
    def resumed(
        cls, directory: str | Path | None, name: str, steps: int
    ) -> tuple[UpdateLog, list[dict[str, Any]]]:
        """The log of a run of which so many updates are done, and their rows.

        Example:
            >>> import tempfile
            >>> folder = tempfile.mkdtemp()
            >>> log, rows = UpdateLog.resumed(folder, "seen.jsonl", 0)
            >>> log.write(1, {"seen": "a"}); log.write(2, {"seen": "b"})
            >>> UpdateLog.resumed(folder, "seen.jsonl", 1)[1]  # the second update was lost
            [{'step': 1, 'seen': 'a'}]
        """
        if directory is None:
            return cls(None), []
        path, kept = Path(directory) / name, ""
        rows: list[dict[str, Any]] = []
        for line in path.read_text(encoding="utf-8").splitlines(keepends=True) if path.exists() else ():
            row = _row(line)
            if row is None or row["step"] > steps:
                break
            kept += line
            rows.append(row)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, kept)
        return cls(path), rows

    def write(self, step: int, row: Mapping[str, Any]) -> None:
        """Add the line of an update."""
        if self.path is None:
            return
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"step": step, **row}) + "\n")
            file.flush()
            os.fsync(file.fileno())


def _row(line: str) -> dict[str, Any] | None:
    """A line; None if it is incomplete because the process was killed."""
    try:
        row = json.loads(line)
    except ValueError:  # then its update came after the newest checkpoint
        return None
    return row if isinstance(row, dict) else None
