"""The problems of a run, pass after pass, and a ledger of trees.

OpenRLHF stores the ledger in its checkpoints. Rollouts run ahead of training, so it says what was drawn but not
trained, too: a resumed run plays that again.
"""

import threading
from collections.abc import Collection, Iterator, Mapping
from itertools import islice
from typing import Any

import numpy as np

from mars_env.errors import StoreError
from mars_env.problems import ProblemSet
from mars_env.rollout.engine import Job
from mars_env.rollout.pipeline import UpdateBatch
from mars_env.seeds import derive_seed


class DrawnProblems:
    """Draws problems, each once in a pass, and notes what is trained.

    One thread may draw from it while another asks for its state.

    Args:
        problems: The problems.
        passes: Passes over the problems (``--train.num_episodes``).
        seed: Seed of the order of each pass.

    Attributes:
        updates: Number of batches so far, those of earlier runs included.
        trained: Ids of trained groups whose trees are not wholly trained.
    """

    def __init__(self, problems: ProblemSet, passes: int, seed: int) -> None:
        self._problems = {problem.id: problem for problem in problems}
        self._passes, self._seed = passes, seed
        self._lock = threading.Lock()
        self._drawn, self._rest = 0, self._all()
        self._resumed: list[Job] = []
        self._open: dict[str, Job] = {}
        self.trained: set[str] = set()
        self.updates = 0

    def __len__(self) -> int:
        return len(self._problems)

    def _all(self) -> Iterator[Job]:
        for sample in range(self._passes):
            order = np.random.default_rng(derive_seed(self._seed, "pass", sample)).permutation(len(self))
            problems = list(self._problems.values())
            yield from (Job(problems[i], sample) for i in order)

    def steps(self, size: int) -> Iterator[list[Job]]:
        """The remaining jobs, `size` at a time: first those that an earlier run had started."""
        resumed, self._resumed = self._resumed, []
        for first in range(0, len(resumed), size):
            yield resumed[first : first + size]
        while jobs := self._draw(size):
            yield jobs

    def _draw(self, size: int) -> list[Job]:
        with self._lock:
            jobs = list(islice(self._rest, size))
            self._drawn += len(jobs)
            self._open.update((job.tree_id, job) for job in jobs)
            return jobs

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
        """The ledger."""
        with self._lock:
            return {
                "drawn": self._drawn,
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
            self._drawn, self._rest = state["drawn"], islice(self._all(), state["drawn"], None)
            self._resumed = [Job(self._problems[id], sample) for id, sample in state["open"]]
            self._open = {job.tree_id: job for job in self._resumed}
            self.trained, self.updates = set(state["trained"]), state["updates"]
