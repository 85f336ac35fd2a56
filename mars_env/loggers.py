"""Loggers of a run's metrics: console, JSON lines, TensorBoard, trackio, Weights & Biases."""

import json
import math
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from mars_env.errors import MissingExtra, StoreError
from mars_env.files import jsonl_rows, write_atomically, writing
from mars_env.lazy import needs

_COUNTED = {
    "interrupted": "{} turns ENDED by the context, a filter or a fault",
    "overlong_prompts": "{} of them by a prompt that filled the context alone",
    "reward_faults": "{} turns WITHOUT A REWARD because it failed",
}


@runtime_checkable
class Logger(Protocol):
    """Takes metrics: of training steps, or of a run while it plays."""

    def start(self, step: int) -> None:
        """Start, or continue after a resume: steps after `step` will be logged again."""

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Log the metrics of one step."""

    def close(self) -> None:
        """Write whatever is not written yet; by default nothing."""
        return


class ConsoleLogger(Logger):
    """Prints one line a step, and one for each of several policies, to the standard output of the time.

    Example:
        >>> ConsoleLogger().log(3, {"role/solver/reward": 0.5, "policy/mars/loss": 0.01})
        step 3  solver reward 0.500  mars loss 0.010
    """

    SHOWN = ("reward", "loss", "entropy", "grad_norm", "rollout_gap")

    def start(self, step: int) -> None:
        """Print where a resumed run continues."""
        if step:
            self._write(f"continuing after step {step}")

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Print what `SHOWN` names, and counts of faults."""
        parts, policies = [f"step {step}"], dict[str, str]()
        for name, value in values.items():
            kind, _, rest = name.partition("/")
            owner, _, metric = rest.rpartition("/")
            figure = f"{metric.replace('_', ' ')} {value:.3f}"
            if metric in self.SHOWN and kind == "policy":
                policies[owner] = f"{policies.get(owner, owner)} {figure}"
            elif metric in self.SHOWN:
                parts.append(f"{owner} {figure}")
            elif metric in _COUNTED and value:
                parts.append(f"{owner} {_COUNTED[metric].format(f'{value:.0f}')}")
        lines = [f"  {line}" for line in policies.values()] if len(policies) > 1 else []
        if not lines:
            parts += policies.values()
        if "advantages/kept" in values:
            parts.append(f"kept {values['advantages/kept']:.0f} of {values['advantages/turns']:.0f} turns")
            groups = values["advantages/groups"]
            differ = groups - values["advantages/small"] - values["advantages/uniform"]
            parts.append(f"rewards differ in {differ:.0f} of {groups:.0f} groups")
        if "seconds/waited" in values:
            parts.append(f"{values['seconds/waited']:.1f} + {values['seconds/update']:.1f} s")
        self._write("\n".join(["  ".join(parts), *lines]))

    def _write(self, text: str) -> None:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()


class JsonlLogger(Logger):
    """A line for each step: ``{"step": 3, "role/solver/reward": 0.5, ...}``; null for what is not finite.

    A line torn by a kill is dropped at the next start.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def start(self, step: int) -> None:
        """Drop the rows after `step`, which a resumed run writes again."""
        rows = [row for row in read_jsonl(self.path) if row["step"] <= step] if self.path.exists() else []
        with writing(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(self.path, "".join(json.dumps(row) + "\n" for row in rows))

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Append one row."""
        row = {"step": step} | {name: v if math.isfinite(v) else None for name, v in values.items()}
        with writing(self.path), self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row, allow_nan=False) + "\n")


def read_jsonl(path: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """The rows that a `JsonlLogger` wrote, without an incomplete last line; else a `StoreError`."""
    lines = Path(path).read_bytes().splitlines(keepends=True)
    if lines and not lines[-1].endswith(b"\n"):
        lines.pop()  # the process was killed while it wrote this line: the step counts as not logged
    rows = []
    for place, row in jsonl_rows(Path(path), lines, StoreError):
        if not isinstance(row.get("step"), int):
            raise StoreError(f"{place}: not a row of metrics; move the file away to start again")
        rows.append(row)
    return rows


class TensorBoardLogger(Logger):
    """TensorBoard event files; needs the extra ``tensorboard``."""

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        with needs("tensorboard", "TensorBoardLogger needs tensorboard"):
            from torch.utils.tensorboard import SummaryWriter
        self._make: Any = SummaryWriter
        self._directory = str(directory)
        self._writer: Any = None

    def start(self, step: int) -> None:
        """Open a file; TensorBoard then hides later steps that earlier files contain."""
        with writing(self._directory):
            self._writer = self._make(self._directory, purge_step=step + 1 if step else None)

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Write one scalar for each metric."""
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def close(self) -> None:
        """Close the file."""
        if self._writer is not None:
            self._writer.close()


class RunLogger(Logger):
    """A run of trackio or W&B, which share their interface; needs the extra of that name.

    `settings` are those of its ``init``. A resumed run's repeated steps trackio shows twice, W&B not at all.
    """

    def __init__(self, library: str, **settings: Any) -> None:
        if library not in ("trackio", "wandb"):
            raise MissingExtra(f"RunLogger knows trackio and wandb, not {library!r}")
        with needs(library, f"RunLogger needs {library}"):
            self._library: Any = __import__(library)
        self._settings = settings
        self._run: Any = None

    def start(self, step: int) -> None:
        """Open the run."""
        self._run = self._library.init(**self._settings)

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Log the metrics of a step."""
        self._run.log(dict(values), step=step)

    def close(self) -> None:
        """Finish the run."""
        if self._run is not None:
            self._run.finish()
            self._run = None
