"""Plays many episodes of a scripted team into a store; run as a process of its own, which tests kill.

    python long_run.py DIRECTORY EPISODES CONCURRENCY

Writes a row of JSON every thousand episodes: how many are finished, and the process's memory in MiB.
"""

import asyncio
import json
import os
import sys
from pathlib import Path

from mars_env.agents import make_agents
from mars_env.envs import Game, SolveVerifyCorrect
from mars_env.envs.solve_verify_correct import TRAINING
from mars_env.grading import grader_for
from mars_env.models import ScriptedModel
from mars_env.rollout import Job, Store, play_all
from mars_env.types import Problem

PROBLEMS = [Problem(f"sum/{i}", f"What is {i} + {i}?", str(2 * i)) for i in range(100)]
SEED = 7


def script(prompt, sample, seed):
    if "Correctness: Correct" in prompt[-1]["content"]:
        return f"Step {seed % 5} is odd.\nCorrectness: {'Correct' if seed % 3 else 'Wrong'}"
    return f"We add and get \\boxed{{{seed % 200}}}."


def memory():
    """Resident memory in MiB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


async def main(directory, episodes, concurrency):
    game = Game(SolveVerifyCorrect(TRAINING), grader_for("math"))
    agents = make_agents(ScriptedModel(script), game.rules.possible_agents)
    jobs = [Job(problem, sample) for sample in range(episodes // 100) for problem in PROBLEMS]
    done = 0
    with Store(directory, {"seed": SEED, "episodes": episodes}, PROBLEMS) as store:
        owed = [job for job in jobs if job.tree_id not in store.finished]
        async for _ in play_all(game, agents, owed, seed=SEED, concurrency=concurrency, journal=store):
            done += 1
            if done % 1000 == 0:
                sys.stdout.write(json.dumps({"finished": done, "mib": memory()}) + "\n")
                sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
