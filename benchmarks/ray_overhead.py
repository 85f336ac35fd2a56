"""What acting and grading on Ray costs: processor time per turn of driver and workers, against one process.

    python benchmarks/ray_overhead.py --trees 4000 --workers 2

A scripted team answers immediately, so that only the machinery is measured: the engine, the grading of
integers, and on Ray two calls of a worker for each turn. Linux only (/proc).
"""

from __future__ import annotations

import argparse
import asyncio
import os
import time
from collections.abc import Mapping
from pathlib import Path

from mars_env.agents import make_agents
from mars_env.distributed import Fleet, Place, Placement
from mars_env.envs import Game, solve_verify_correct
from mars_env.grading import grader_for
from mars_env.models import ScriptedModel
from mars_env.rollout import Job, collect
from mars_env.types import Agent, Problem, Prompt

SEED = 7


def script(prompt: Prompt, sample: int, seed: int) -> str:
    if "Correctness: Correct" in str(prompt):
        return f"Step {seed % 5} is odd.\nCorrectness: {'Correct' if seed % 3 else 'Wrong'}"
    return f"We add and get \\boxed{{{seed % 16}}}."


def game() -> Game:
    return Game(solve_verify_correct(schedule="training"), grader_for("math"))


def team() -> Mapping[str, Agent]:
    return make_agents(ScriptedModel(script), game().rules.possible_agents)


def processor_seconds(pids: list[int]) -> float:
    rows = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in pids]
    return sum(int(row[11]) + int(row[12]) for row in rows) / os.sysconf("SC_CLK_TCK")


def report(name: str, turns: int, seconds: float, **processor: float) -> None:
    costs = ", ".join(f"{who} {1e6 * used / turns:.0f} us" for who, used in processor.items())
    print(f"{name}: {turns:,} turns, {turns / seconds:,.0f} per second; processor time per turn: {costs}")


async def main(trees: int, workers: int, concurrency: int) -> None:
    problems = [Problem(f"sum/{i}", f"What is {i} + {i}?", str(2 * i)) for i in range(8)]
    jobs = [Job(problem, sample) for sample in range(max(1, trees // 8)) for problem in problems]
    began, used = time.perf_counter(), time.process_time()
    played = await collect(game(), team(), jobs, seed=SEED, concurrency=concurrency)
    turns = sum(len(tree.turns) for tree in played)
    report("one process", turns, time.perf_counter() - began, engine=time.process_time() - used)
    async with Fleet(game, team, Placement(workers=Place(count=workers))) as fleet:
        while len(pids := await fleet.workers.pids()) < workers:
            await asyncio.sleep(0.1)
        there = processor_seconds(pids)
        began, used = time.perf_counter(), time.process_time()
        played = await collect(fleet.game, fleet.agents, jobs, seed=SEED, concurrency=concurrency)
        seconds = time.perf_counter() - began
        turns = sum(len(tree.turns) for tree in played)
        report(f"{workers} workers", turns, seconds, driver=time.process_time() - used,
               workers=processor_seconds(pids) - there)  # fmt: skip


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--trees", type=int, default=4000)
    options.add_argument("--workers", type=int, default=2)
    options.add_argument("--concurrency", type=int, default=256)
    asyncio.run(main(**vars(options.parse_args())))
