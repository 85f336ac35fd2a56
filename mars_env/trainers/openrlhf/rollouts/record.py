"""A record of what was trained, as JSON lines: updates in one file, their samples in another."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from mars_env.files import write_atomically
from mars_env.rollout.pipeline import UpdateBatch
from mars_env.trainers.sample_files import sample_to_row
from mars_env.trainers.samples import TurnSample

UPDATES: Final = "trained.jsonl"
"""One line per update: its number, the policies' versions, groups and their ages, dropped turns."""

SAMPLES: Final = "samples.jsonl"
"""One line per sample: the number of its update, and its row (`mars_env.trainers.sample_files`)."""


class UpdateRecord:
    """Writes a record into a folder. After a resume it continues after the checkpoint's last update.

    Args:
        directory: The folder; created if it does not exist.
        updates: Updates done. Lines of later updates are removed, since their weights are lost.
    """

    def __init__(self, directory: str | Path, updates: int) -> None:
        self._directory = Path(directory)
        self._directory.mkdir(parents=True, exist_ok=True)
        for name in (UPDATES, SAMPLES):
            path = self._directory / name
            kept = [row for row in read_lines(path) if row["update"] <= updates] if path.exists() else []
            write_atomically(path, "".join(map(_line, kept)))

    def note(
        self, update: int, versions: Mapping[str, int], batch: UpdateBatch, samples: Sequence[TurnSample]
    ) -> None:
        """Record an update, numbered from 1; `versions` are the trained policies' before it."""
        self._append(SAMPLES, ({"update": update, **sample_to_row(sample)} for sample in samples))
        line = {
            "update": update,
            "versions": dict(versions),
            "groups": [group.id for group in batch.groups],
            "ages": batch.ages,
            "trees": batch.trained_tree_ids,
            "samples": len(samples),
            "dropped": batch.dropped,
        }
        self._append(UPDATES, [line])

    def _append(self, name: str, rows: Iterable[Mapping[str, Any]]) -> None:
        with (self._directory / name).open("a", encoding="utf-8") as file:
            file.writelines(map(_line, rows))


def read_lines(path: str | Path) -> list[dict[str, Any]]:
    """The lines of a record's file; an incomplete last line is left out."""
    lines = Path(path).read_text(encoding="utf-8").splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith("\n")]


def _line(row: Mapping[str, Any]) -> str:
    return json.dumps(row, allow_nan=False) + "\n"
