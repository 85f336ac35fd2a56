"""What a training step reports, and where to: console, jsonl, TensorBoard, trackio, W&B. No torch in here."""

from __future__ import annotations

import json
import math
import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from rich.console import Console

from mars_env.envs.rewards import REWARD_FAULT
from mars_env.errors import MissingExtra, StoreError
from mars_env.files import write_whole
from mars_env.trainers.advantages import AdvantageStats, TurnKey, turn_key
from mars_env.types import Group, Turn


@dataclass(frozen=True, slots=True)
class StepMetrics:
    """What one training step did.

    Attributes:
        step: Number of steps done, this one included.
        seconds: Wall-clock time of the update, rollouts left out.
        advantages: How many turns got an advantage, and why the others did not.
        roles: By role: ``turns``, ``trained`` (turns that entered the loss), ``reward`` (mean of the known
            ones), ``truncated`` (fraction cut off by their own limit), ``tokens`` (sampled, a turn); where
            there are any, ``interrupted`` (turns cut off by the context or a filter, which are not trained),
            ``reward_faults`` (turns without a reward because the reward failed, which are not trained).
        policies: By policy: ``loss``, ``grad_norm``, ``learning_rate``, ``updates``, ``completions``,
            ``tokens``, and means over trained tokens: ``ratio``, ``clipped``, ``entropy``, ``rollout_gap``
            (absolute difference of the rollout's and the trainer's log-probabilities), and what the settings
            switch on: ``kl``, ``importance`` and ``vetoed``, ``mastered``. Empty where nothing was trained.
    """

    step: int
    seconds: float = 0.0
    advantages: AdvantageStats = field(default_factory=AdvantageStats)
    roles: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    policies: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def flat(self) -> dict[str, float]:
        """All figures under one name each, as loggers want them.

        Example:
            >>> StepMetrics(3, roles={"solver": {"reward": 0.5}}).flat()["role/solver/reward"]
            0.5
        """
        values: dict[str, float] = {"seconds/update": self.seconds}
        values |= {f"advantages/{name}": float(count) for name, count in self.advantages.asdict().items()}
        for kind, tables in (("role", self.roles), ("policy", self.policies)):
            values |= {f"{kind}/{of}/{name}": v for of, table in tables.items() for name, v in table.items()}
        return values


def role_metrics(groups: Sequence[Group], trained: frozenset[TurnKey]) -> dict[str, dict[str, float]]:
    """Rewards, lengths and trained turns of a batch, by role.

    Args:
        groups: The batch.
        trained: Keys of the turns that enter the loss.

    Example:
        >>> from mars_env.trainers.advantages import _example_group
        >>> role_metrics([_example_group("g", [1.0, 0.0, None])], frozenset({("g", "0")}))["solver"]
        {'turns': 3.0, 'trained': 1.0, 'truncated': 0.0, 'tokens': 0.0, 'reward': 0.5}
    """
    turns: defaultdict[str, list[Turn]] = defaultdict(list)
    for group in groups:
        for turn in group.turns:
            turns[turn.role].append(turn)
    table: dict[str, dict[str, float]] = {}
    for role, own in sorted(turns.items()):
        tokens = [len(c.token_ids) or c.completion_tokens for turn in own for c in turn.action.completions]
        rewards = [turn.reward for turn in own if turn.reward is not None]
        table[role] = {
            "turns": float(len(own)),
            "trained": float(sum(turn_key(turn) in trained for turn in own)),
            "truncated": sum(t.action.truncated and not t.action.interrupted for t in own) / len(own),
            "tokens": sum(tokens) / len(own),
        }
        if interrupted := sum(bool(turn.action.interrupted) for turn in own):
            table[role]["interrupted"] = float(interrupted)
        if failed := sum(REWARD_FAULT in turn.info for turn in own):
            table[role]["reward_faults"] = float(failed)
        if rewards:
            table[role]["reward"] = sum(rewards) / len(rewards)
    return table


@runtime_checkable
class Logger(Protocol):
    """Where figures go."""

    def start(self, step: int) -> None:
        """Begin, or go on after a resume: what was logged of steps after `step` will be logged again."""
        ...

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Take the figures of one step."""
        ...

    def close(self) -> None:
        """Write what is not yet written."""
        ...


class ConsoleLogger:
    """One line a step: rewards by role, what was kept, loss, entropy, gradient norm.

    Example:
        >>> logger = ConsoleLogger(Console(width=60, force_terminal=False, color_system=None))
        >>> logger.log(3, {"role/solver/reward": 0.5, "policy/mars/loss": 0.01, "policy/mars/lr": 1e-6})
        step 3  solver reward 0.500  mars loss 0.010
    """

    SHOWN = ("reward", "loss", "entropy", "grad_norm", "rollout_gap")

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console()

    def start(self, step: int) -> None:
        """Say where a resumed run goes on."""
        if step:
            self.console.print(f"going on after step {step}", highlight=False)

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Print the line."""
        parts = [f"step {step}"]
        for name, value in values.items():
            _, _, rest = name.partition("/")
            owner, _, what = rest.rpartition("/")
            if what in self.SHOWN:
                parts.append(f"{owner} {what.replace('_', ' ')} {value:.3f}")
            elif what == "interrupted" and value:
                parts.append(f"{owner} {value:.0f} turns CUT OFF by the context or a filter")
            elif what == "reward_faults" and value:
                parts.append(f"{owner} {value:.0f} turns WITHOUT A REWARD because it failed")
        if "advantages/kept" in values:
            parts.append(f"kept {values['advantages/kept']:.0f} of {values['advantages/turns']:.0f} turns")
        if "seconds/waited" in values:
            parts.append(f"{values['seconds/waited']:.1f} + {values['seconds/update']:.1f} s")
        self.console.print("  ".join(parts), highlight=False, markup=False, soft_wrap=True)

    def close(self) -> None:
        """Nothing is held back."""


class JsonlLogger:
    """One JSON object a line: ``{"step": 3, "role/solver/reward": 0.5, ...}``; each step stands there once.

    Figures that are not finite are written as null. A line torn by a kill is dropped at the next start.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def start(self, step: int) -> None:
        """Keep the rows up to `step`, drop the others (which a resumed run writes again)."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        rows = [row for row in read_jsonl(self.path) if row["step"] <= step] if self.path.exists() else []
        write_whole(self.path, "".join(json.dumps(row) + "\n" for row in rows))

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Append one row."""
        row = {"step": step} | {name: v if math.isfinite(v) else None for name, v in values.items()}
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row, allow_nan=False) + "\n")

    def close(self) -> None:
        """Rows are written at once."""


def read_jsonl(path: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """The rows that a `JsonlLogger` wrote; a torn last line is left out.

    Raises:
        StoreError: A line before the last is not a JSON object with a step.
    """
    lines = Path(path).read_text(encoding="utf-8").splitlines(keepends=True)
    rows: list[dict[str, Any]] = []
    for number, line in enumerate(lines, 1):
        if not line.endswith("\n"):
            break  # a kill tore it; its step has not been finished as far as this file goes
        try:
            row = json.loads(line)
        except ValueError:
            row = None
        if not isinstance(row, dict) or not isinstance(row.get("step"), int):
            raise StoreError(f"{path}, line {number}: not a row of metrics; move the file away to start anew")
        rows.append(row)
    return rows


class TensorBoardLogger:
    """TensorBoard event files; needs the extra ``tensorboard``."""

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise MissingExtra(
                "TensorBoardLogger needs tensorboard: pip install 'mars-env[tensorboard]'"
            ) from error
        self._make: Any = SummaryWriter
        self._directory = str(directory)
        self._writer: Any = None

    def start(self, step: int) -> None:
        """Open a file; TensorBoard hides what earlier files hold of later steps."""
        self._writer = self._make(self._directory, purge_step=step + 1 if step else None)

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Write one scalar for each figure."""
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def close(self) -> None:
        """Close the file."""
        if self._writer is not None:
            self._writer.close()


class RunLogger:
    """A run of trackio or W&B, which share their interface; needs the extra of that name.

    Both keep what was logged: the steps that a resumed run repeats are shown twice by trackio, and left out
    by W&B.

    Args:
        library: ``"trackio"`` or ``"wandb"``.
        settings: For the library's ``init``: ``project="..."``, ``name="..."``, ``resume="allow"`` ...
    """

    def __init__(self, library: str, **settings: Any) -> None:
        if library not in ("trackio", "wandb"):
            raise MissingExtra(f"RunLogger knows trackio and wandb, not {library!r}")
        try:
            self._library: Any = __import__(library)
        except ImportError as error:
            raise MissingExtra(f"RunLogger needs {library}: pip install 'mars-env[{library}]'") from error
        self._settings = settings
        self._run: Any = None

    def start(self, step: int) -> None:
        """Open the run."""
        self._run = self._library.init(**self._settings)

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Log the figures of a step."""
        self._run.log(dict(values), step=step)

    def close(self) -> None:
        """Finish the run."""
        if self._run is not None:
            self._run.finish()
            self._run = None
