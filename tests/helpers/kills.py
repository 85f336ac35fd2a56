"""Runs that are killed with SIGKILL at random moments and resumed, with one process for each attempt."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from mars_env.loggers import read_jsonl
from mars_env.trainers.local import LocalTrainer
from mars_env.trainers.metrics import StepMetrics
from mars_env.types import Group

TURNS = "turns.jsonl"


class Recorded(LocalTrainer):
    """A trainer that records its input, and the age in updates of each turn of it."""

    directory: Path

    def step(self, groups: Sequence[Group]) -> StepMetrics:
        """One update, recorded before it runs."""
        rows = [
            {
                "attempt": os.getpid(),
                "step": self.steps + 1,
                "tree": turn.tree_id,
                "turn": turn.id,
                "policy": turn.policy,
                "age": self.policies[turn.policy].version - min(version for version, _ in c.versions),
            }
            for group in groups
            for turn in group.turns
            for c in turn.action.completions
        ]
        with (self.directory / TURNS).open("a", encoding="utf-8") as file:
            file.write("".join(json.dumps(row) + "\n" for row in rows))
            file.flush()
            os.fsync(file.fileno())
        return super().step(groups)


def logged(directory: Path) -> int:
    """The last step in a training run's metrics.jsonl."""
    path = directory / "metrics.jsonl"
    return max((row["step"] for row in read_jsonl(path)), default=0) if path.exists() else 0


def killed_at_random(run: Callable[[], None], directory: Path, kills: int) -> dict[str, int]:
    """Kill a training run `kills` times, each at a random moment; then let it end.

    Each attempt is a fork of this process, so that torch is imported once.

    Returns:
        How often it was ``killed``, and how many of these attempts left a checkpoint (``resumed``).

    Raises:
        SystemExit: It ended before it could be killed, or its last attempt failed.
    """
    moments = random.Random(0)
    resumed = 0
    for _ in range(kills):
        # A moment is a few steps later plus some milliseconds, so that it does not depend on the load.
        target = logged(directory) + moments.randint(0, 4)
        child = fork(run)
        while (
            logged(directory) < target
            and os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
        ):
            time.sleep(0.002)
        time.sleep(moments.uniform(0.0, 0.06))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        if os.WIFEXITED(status):
            raise SystemExit("the run ended before it could be killed: make it longer")
        resumed += any(directory.glob("step-*"))
    _, status = os.waitpid(fork(run), 0)
    if status:
        raise SystemExit("the last attempt failed")
    return {"killed": kills, "resumed": resumed}


def main(train: Callable[[Path, int], Any]) -> None:
    """What a script runs with DIRECTORY CHECKPOINT_EVERY KILLS; prints what the run that ended returned."""
    directory, every, kills = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    torch.set_num_threads(1)
    written = directory / "result.json"
    counts = killed_at_random(
        lambda: written.write_text(json.dumps(train(directory, every))), directory, kills
    )
    sys.stdout.write(json.dumps({"result": json.loads(written.read_text()), **counts}) + "\n")


def killed(script: ModuleType, *arguments: object, timeout: float = 400) -> dict[str, Any]:
    """What a script says that kills its own run, and lets it end then."""
    done = subprocess.run(
        [sys.executable, str(script.__file__), *map(str, arguments)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout or "{}")


def lasting(rows: Iterable[Mapping[str, Any]]) -> dict[int, list[Any]]:
    """The rows of updates whose weights were kept: what is done again after a kill takes their place."""
    kept: dict[int, list[Any]] = {}
    for (_, step), block in groupby(rows, key=lambda row: (row["attempt"], row["step"])):
        kept = {earlier: turns for earlier, turns in kept.items() if earlier < step} | {step: list(block)}
    return kept


def fork(run: Callable[[], None]) -> int:
    """Run a function in a fork of this process; returns its process id."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            run()
            status = 0
        finally:
            os._exit(status)
    return child
