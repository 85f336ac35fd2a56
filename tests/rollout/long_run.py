"""Plays many episodes of a scripted team into a store; run as a process of its own, which tests kill.

    python long_run.py DIRECTORY EPISODES CONCURRENCY

Writes a row of JSON every thousand episodes: how many are finished, and the process's memory in MiB.
"""

import asyncio
import json
import os
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "helpers"))

from sums_team import game, script, stored, sums, team

from mars_env.models import ScriptedModel
from mars_env.rollout import Job

PROBLEMS = sums(100)


def memory():
    """Resident memory in MiB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


async def main(directory, episodes, concurrency):
    jobs = [Job(problem, sample) for sample in range(episodes // 100) for problem in PROBLEMS]
    agents, done = team(model=ScriptedModel(script)), 0
    async for _ in stored(directory, game(), agents, jobs, PROBLEMS, seed=7, concurrency=concurrency):
        done += 1
        if done % 1000 == 0:
            sys.stdout.write(json.dumps({"finished": done, "mib": memory()}) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
