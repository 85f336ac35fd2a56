"""Runs that are killed with SIGKILL at random moments and resumed, with one process for each attempt."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from itertools import groupby
from pathlib import Path
from types import ModuleType
from typing import Any

from mars_env.loggers import read_jsonl


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
