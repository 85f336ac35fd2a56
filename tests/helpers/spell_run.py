"""A tiny run of SPELL that is a function of its seed.

What is asked depends on what is remembered, so a wrong memory changes everything after it.
"""

import asyncio
import json
import sys
from pathlib import Path

from spell_team import Script
from toy_training import digest

from mars_env.agents import RoleAgent
from mars_env.loggers import JsonlLogger
from mars_env.methods.spell.training import MEMORY, SpellRun, SpellSettings, spell_game, train_spell
from mars_env.seeds import derive_seed
from mars_env.trainers import LocalTrainer, make_team
from mars_env.types import Grade

sys.path.append(str(Path(__file__).parents[2]))

from studies.spell import lookups

STEPS = 15


class Coin:
    """A rule that half of all answers pass."""

    async def grade(self, problem, text):
        return Grade.correct() if derive_seed(problem.statement, text) % 2 else Grade.wrong("tails")


def agent(name, model):
    """A random Responder; the others are scripts."""
    if name == lookups.NAMES[0]:
        return Script(lambda seen, i: json.dumps({"question": f"Q {derive_seed(str(seen))}", "answer": "1"}))
    if name == lookups.NAMES[2]:
        return Script(lambda seen, i: "NO")
    return RoleAgent(model, sampling=lookups.SAMPLING, prompt="R{{ question[-1] }}:", thinking=None)


def train(directory, every):
    """Train, resuming from the directory; returns a digest of all weights, and the text of the memory."""
    settings = lookups.run_settings(seed=7, steps=STEPS, clusters=4, rate=1e-3)
    settings = settings.model_copy(
        update={"train": settings.train.model_copy(update={"train_roles": ("responder",)})}
    )
    spell = SpellSettings(group=4, verifiers=2, questions=3, tries=2, fresh=1)
    players = make_team(settings, lookups.NAMES, [lookups.warm_started(steps=1)], agent=agent)
    made = []
    step = LocalTrainer.step
    LocalTrainer.step = lambda self, groups: (made.append(self), step(self, groups))[1]
    try:
        asyncio.run(
            train_spell(
                SpellRun(players, lookups.clusters(7, 6), settings, spell, spell_game(spell, Coin())),
                directory=directory,
                checkpoint_every=every,
                loggers=[JsonlLogger(Path(directory) / "metrics.jsonl")],
            )
        )
    finally:
        LocalTrainer.step = step
    return digest(made[-1]), (Path(directory) / MEMORY).read_text()
