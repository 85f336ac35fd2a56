"""A tiny run of SPELL that is a function of its seed, and a script that kills it at random moments.

python spell_run.py DIRECTORY CHECKPOINT_EVERY KILLS
"""

import asyncio
import json
import sys
from pathlib import Path

import torch
from kills import killed_at_random
from toy_training import digest

from mars_env.loggers import JsonlLogger
from mars_env.trainers.local import LocalTrainer
from mars_env.trainers.miniature import lookups
from mars_env.trainers.spell import MEMORY, SpellSettings, train_spell
from mars_env.trainers.team import make_team

STEPS = 12


def train(directory, every):
    """Train a tiny team on look-ups; returns a digest of weights and optimiser, and the memory's file."""
    torch.set_num_threads(1)
    settings = lookups.run_settings(seed=7, steps=STEPS, clusters=4, rate=1e-3)
    spell = SpellSettings(group=4, verifiers=4, questions=4, tries=1, fresh=2, verifier_turns=4.0)
    players = make_team(settings, lookups.NAMES, [lookups.warm_started(steps=60)], agent=lookups.player)
    made = []
    step = LocalTrainer.step
    LocalTrainer.step = lambda self, groups: (made.append(self), step(self, groups))[1]
    try:
        asyncio.run(
            train_spell(
                players, lookups.clusters(7, 12), settings, spell, directory=directory,
                checkpoint_every=every, loggers=[JsonlLogger(Path(directory) / "metrics.jsonl")],
            )
        )  # fmt: skip
    finally:
        LocalTrainer.step = step
    return digest(made[-1]), (Path(directory) / MEMORY).read_text()


def main():
    """Kill the run the given number of times, each at a random moment, then let it end."""
    directory, every, kills = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    written = directory / "result.json"
    counts = killed_at_random(
        lambda: written.write_text(json.dumps(train(directory, every))), directory, kills
    )
    digest, memory = json.loads(written.read_text())
    sys.stdout.write(json.dumps({"digest": digest, "memory": memory, **counts}) + "\n")


if __name__ == "__main__":
    main()
