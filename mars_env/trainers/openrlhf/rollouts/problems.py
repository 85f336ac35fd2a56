"""OpenRLHF's data loader draws the problems. It needs a file of ids, and a ledger of trees.

OpenRLHF stores the loader's position in its checkpoints. Rollouts run ahead of training, so the position
alone would lose problems at a resume: the ledger is stored with it, and says what was drawn but not trained.
"""

import json
import threading
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from mars_env.errors import ConfigError, StoreError
from mars_env.files import write_atomically, writing
from mars_env.problems import ProblemSet
from mars_env.rollout.engine import Job
from mars_env.rollout.pipeline import UpdateBatch

INPUT, SOURCE = "input", "datasource"
"""Fields of the file: the problem's id, and the name of the set."""


def write_ids(problems: ProblemSet, path: Path, **more: str) -> Path:
    """Write problems' ids as a data set for OpenRLHF, a line each, with `more` fields, and its folder."""
    if not len(problems):
        raise ConfigError(f"the problem set {problems.name!r} is empty: there is nothing to train on")
    rows = ({INPUT: problem.id, SOURCE: problems.name, **more} for problem in problems)
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, "".join(json.dumps(row) + "\n" for row in rows))
    return path


def require_plain(path: str | Path) -> None:
    """Reject a path that OpenRLHF would read as several data sets, or as a part of one, with ConfigError."""
    if any(mark in str(path) for mark in ",@"):
        raise ConfigError(
            f"OpenRLHF cannot read {str(path)!r}, since it divides names of data sets at ',' and '@': give a "
            "folder without them"
        )


class DrawnProblems:
    """OpenRLHF's loader with the ledger; it replaces the loader in everything that OpenRLHF does with it.

    One thread may draw from it while another asks for its state.

    Args:
        loader: OpenRLHF's stateful data loader; gives batches of one row, the id in the second field.
        problems: The problems.
        passes: Passes over the problems (``--train.num_episodes``).

    Attributes:
        updates: Number of batches so far, those of earlier runs included.
        trained: Ids of trained groups whose trees are not wholly trained.
    """

    def __init__(self, loader: Any, problems: ProblemSet, passes: int) -> None:
        self._loader, self._passes = loader, passes
        self._problems = {problem.id: problem for problem in problems}
        self._lock = threading.Lock()
        self._rows: Iterator[Any] | None = None
        self._pass = 0
        self._resumed: list[Job] = []
        self._open: dict[str, Job] = {}
        self.trained: set[str] = set()
        self.updates = 0

    def __len__(self) -> int:
        return len(self._loader)

    def steps(self, size: int) -> Iterator[list[Job]]:
        """The remaining jobs, `size` at a time: first those that an earlier run had started."""
        resumed, self._resumed = self._resumed, []
        for first in range(0, len(resumed), size):
            yield resumed[first : first + size]
        while jobs := self._draw(size):
            yield jobs

    def note(self, batch: UpdateBatch, lost: Collection[str] = ()) -> None:
        """Record that a batch goes to the trainer, so that it is not trained again after a resume.

        Trees in `lost` could not be played: they stay open, and a resumed run plays them again.
        """
        with self._lock:
            self.updates += 1
            self.trained.update(group.id for group in batch.groups)
            for tree in batch.trained_tree_ids:
                if tree not in lost:
                    self._open.pop(tree, None)
            closed = tuple(f"{tree}/" for tree in self._open)
            self.trained = {id for id in self.trained if id.startswith(closed)}

    def state_dict(self) -> dict[str, Any]:
        """The loader's state and the ledger, which OpenRLHF stores in its checkpoints."""
        with self._lock:
            return {
                "loader": self._loader.state_dict(),
                "pass": self._pass,
                "open": [(job.problem.id, job.sample) for job in self._open.values()],
                "trained": sorted(self.trained),
                "updates": self.updates,
            }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a state; StoreError if it belongs to a run with other problems."""
        with self._lock:
            if unknown := [id for id, _ in state["open"] if id not in self._problems]:
                raise StoreError(
                    f"the checkpoint's run had started the problem {unknown[0]!r}, which does not exist now: "
                    "resume with the same problems, or give another --ckpt.path"
                )
            self._loader.load_state_dict(state["loader"])
            self._pass, self.updates = state["pass"], state["updates"]
            self._resumed = [Job(self._problems[id], sample) for id, sample in state["open"]]
            self._open = {job.tree_id: job for job in self._resumed}
            self.trained = set(state["trained"])

    def _draw(self, size: int) -> list[Job]:
        with self._lock:
            jobs: list[Job] = []
            while len(jobs) < size and self._pass < self._passes:
                if self._rows is None:
                    self._rows = iter(self._loader)
                row = next(self._rows, None)
                if row is None:
                    self._rows, self._pass = None, self._pass + 1
                    continue
                jobs.append(Job(self._problems[row[1][0]], self._pass))
            self._open.update((job.tree_id, job) for job in jobs)
            return jobs
