"""A record of what was trained, as JSON lines: updates in one file, their samples in another."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from mars_env.rollout.pipeline import UpdateBatch
from mars_env.trainers.rollouts import UpdateLog
from mars_env.trainers.sample_files import sample_to_row
from mars_env.trainers.samples import TurnSample

UPDATES: Final = "trained.jsonl"
"""One line per update: its number, the policies' versions, groups and their ages, dropped turns."""

SAMPLES: Final = "samples.jsonl"
"""One line per sample: the number of its update, and its row (`mars_env.trainers.sample_files`)."""


class UpdateRecord:
    """Writes a record into a folder, which is created if it does not exist; without one nothing.

    Lines of later updates than those done are removed, since their weights are lost.
    """

    def __init__(self, directory: str | Path | None, updates: int) -> None:
        self._updates, _ = UpdateLog.resumed(directory, UPDATES, updates)
        self._samples, _ = UpdateLog.resumed(directory, SAMPLES, updates)

    def note(
        self, update: int, versions: Mapping[str, int], batch: UpdateBatch, samples: Sequence[TurnSample]
    ) -> None:
        """Record an update, numbered from 1; `versions` are the trained policies' before it."""
        self._samples.write(update, *map(sample_to_row, samples))
        line = {
            "versions": dict(versions),
            "groups": [group.id for group in batch.groups],
            "ages": batch.ages,
            "trees": batch.trained_tree_ids,
            "samples": len(samples),
            "dropped": batch.dropped,
        }
        self._updates.write(update, line)
