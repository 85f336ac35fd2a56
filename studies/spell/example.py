"""SPELL on a CPU: a tiny policy asks about tables, answers, compares, and remembers what it could solve.

python -m studies.spell.example
"""

import asyncio
import tempfile
from pathlib import Path

import torch

import mars_env
from mars_env.methods.spell.rewards import outcomes
from mars_env.methods.spell.training import MEMORY, SpellRun, SpellSettings, train_spell
from mars_env.trainers import make_team
from studies.spell.lookups import clusters, player, run_settings, warm_started

SETTINGS = run_settings(seed=0, steps=4, clusters=8, rate=3e-4)
SPELL = SpellSettings(group=8, verifiers=4, fresh=2, questions=8, tries=1, verifier_turns=4.0)


def show(step, trees):
    """What became of the questions of a batch."""
    found = [outcome for tree in trees for outcome in outcomes(tree)]
    kinds = {kind: sum(each.kind == kind for each in found) for kind in dict.fromkeys(f.kind for f in found)}
    print(f"update {step + 1}: {kinds}, for example {found[0].turn.text}")


def main(warm_start=300):
    """Train, and print the questions and what is remembered of them."""
    torch.set_num_threads(1)
    env = mars_env.make("reports-spell", problems=clusters(0, 16))  # look-ups instead of reports
    team = make_team(SETTINGS, env.possible_agents, [warm_started(steps=warm_start)], agent=player)
    with tempfile.TemporaryDirectory() as folder:
        run = SpellRun(team, env.problems, SETTINGS, SPELL)
        asyncio.run(train_spell(run, directory=folder, on_trees=show))
        print(f"remembered: {(Path(folder) / MEMORY).read_text().count('question')} questions")


if __name__ == "__main__":
    main()
