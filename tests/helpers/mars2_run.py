"""Asynchronous MARS2 training of two policies, and a script that kills it at random moments.

    python mars2_run.py DIRECTORY CHECKPOINT_EVERY KILLS

writes the input of each update next to the checkpoints.
"""

import asyncio
from pathlib import Path

from kills import Recorded, main
from tiny_team import made

from mars_env.loggers import JsonlLogger
from mars_env.rollout.pipeline import PipelineSettings
from mars_env.trainers import loop

STEPS, PROBLEMS, BOUND, SEED = 14, 3, 2, 3


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


if __name__ == "__main__":
    main(run)
