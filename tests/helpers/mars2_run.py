"""Asynchronous MARS2 training of two policies, and a script that kills it at random moments.

    python mars2_run.py DIRECTORY CHECKPOINT_EVERY KILLS

writes the input of each update next to the checkpoints: turns.jsonl, with one line per turn.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import torch
from kills import killed_at_random
from tiny_team import made

from mars_env.loggers import JsonlLogger
from mars_env.rollout.pipeline import PipelineSettings
from mars_env.trainers import loop
from mars_env.trainers.local import LocalTrainer
from mars_env.trainers.metrics import StepMetrics
from mars_env.types import Group

STEPS, PROBLEMS, BOUND, SEED = 20, 3, 2, 3
TURNS = "turns.jsonl"


class Recorded(LocalTrainer):
    """A trainer that records its input and the age that it computes for it."""

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


def run(directory: Path, every: int) -> None:
    """Train to the end, continuing from what is in the directory."""
    env, players, settings = made(
        *(2, ["a", "b"]),
        steps=STEPS,
        problems_per_step=PROBLEMS,
        seed=SEED,
        pipeline=PipelineSettings(staleness=BOUND),
    )
    Recorded.directory = directory
    loop.LocalTrainer = Recorded  # type: ignore[misc]
    logger = JsonlLogger(directory / "metrics.jsonl")
    training = loop.train(
        env.game,
        players,
        env.problems,
        settings,
        directory=directory,
        checkpoint_every=every,
        loggers=[logger],
    )
    asyncio.run(training)


def main() -> None:
    """Kill the run the given number of times, then let it end."""
    directory, every, kills = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    torch.set_num_threads(1)
    counts = killed_at_random(lambda: run(directory, every), directory, kills)
    sys.stdout.write(json.dumps(counts) + "\n")


if __name__ == "__main__":
    main()
