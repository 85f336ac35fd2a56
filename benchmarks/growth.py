"""Time and memory a turn, from small runs to large ones: what is stored, resumed, read, reported, exported.

    python benchmarks/growth.py                      # 10,000 and 100,000 turns
    python benchmarks/growth.py --turns 10000 1000000 --without search

Each step runs in a process of its own. Times are CPU seconds, memory is the growth of the process's peak.
The last column is the largest value of a turn over the value of the smallest run; the bar is 1.5.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

BAR = 1.5
SAMPLES = 4
"""Episodes of each problem, the same in runs of every size."""


def play(folder: Path, turns: int) -> None:
    import asyncio

    from mars_env.agents import make_agents
    from mars_env.envs import Game, solve_verify_correct
    from mars_env.grading import grader_for
    from mars_env.models import ScriptedModel
    from mars_env.rollout import Job, Store, play_all
    from mars_env.types import Problem

    def script(prompt, sample, seed):  # type: ignore[no-untyped-def]
        if "Correctness: Correct" in prompt[-1]["content"]:
            return f"Step {seed % 5} is odd.\nCorrectness: {'Correct' if seed % 3 else 'Wrong'}"
        return f"We add and get \\boxed{{{seed % 20}}}."

    count = turns // (5 * SAMPLES)
    problems = [Problem(f"sum/{i}", f"What is {i} + {i}?", str(i % 20)) for i in range(count)]
    game = Game(solve_verify_correct(schedule="training"), grader_for("math"))
    agents = make_agents(ScriptedModel(script), game.rules.possible_agents)

    async def played() -> None:
        with Store(folder, {"title": "arithmetic-solve-verify-correct", "seed": 1}, problems) as store:
            jobs = (Job(problem, sample) for problem in problems for sample in range(SAMPLES))
            owed = (job for job in jobs if job.tree_id not in store.finished)
            async for _ in play_all(game, agents, owed, seed=1, concurrency=64, journal=store):
                pass

    asyncio.run(played())


def resume(folder: Path, turns: int) -> None:
    play(folder, turns)


def read(folder: Path, turns: int) -> None:
    from mars_env.rollout import read_run

    read_run(folder)


def report(folder: Path, turns: int) -> None:
    from mars_env.evaluation.metrics import measure
    from mars_env.evaluation.trees import final_answer
    from mars_env.rollout import read_run

    measure(read_run(folder).trees, final_answer)


def compare(folder: Path, turns: int) -> None:
    from mars_env.api import compare

    compare(folder, folder)


def page(folder: Path, turns: int) -> None:
    from mars_env.rollout import read_run
    from mars_env.viewer import write_page

    write_page(folder / "report.html", read_run(folder).trees, title="growth")


def export(folder: Path, turns: int) -> None:
    from mars_env.rollout import read_run
    from mars_env.rollout.exports import turn_rows, write_jsonl

    write_jsonl(turn_rows(read_run(folder).trees), folder / "rows.jsonl")


def serve(folder: Path, turns: int) -> None:
    """Index it as a server does when it starts, then give a stored answer a hundred times."""
    from mars_env.rollout.store import stored_problems
    from mars_env.rollout.tree_index import TreeIndex

    index, problem = TreeIndex(folder), next(iter(stored_problems(folder).values()))
    for _ in range(100):
        index.tree(f"{problem.id}#0", problem)


def search(folder: Path, turns: int) -> None:
    """Grow one search tree of so many nodes, without a language model."""
    from mars_env.search import Search, SearchSettings

    grown = Search(SearchSettings(calls=turns, stop_at=None), ["solver_0"], 1)
    for number in range(turns):
        [ask] = grown.ask(1)
        grown.tell(ask.id, (number * 7919 % 101) / 101)


STEPS: dict[str, Callable[[Path, int], None]] = {
    each.__name__: each for each in (play, resume, read, report, compare, page, export, serve, search)
}


def step(name: str, folder: Path, turns: int) -> None:
    """Run one step, and print its CPU seconds and MiB."""
    import mars_env.rollout  # noqa: F401 (imports are not what grows)

    before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    STEPS[name](folder, turns)
    seconds = time.process_time() - began
    memory = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    print(json.dumps([seconds, memory]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--without", nargs="+", choices=STEPS, default=[])
    parser.add_argument("--step", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.step:
        name, folder, turns = given.step
        step(name, Path(folder), int(turns))
        return
    steps = [name for name in STEPS if name not in given.without]
    measured: dict[tuple[str, int], tuple[float, float]] = {}
    for turns in given.turns:
        with tempfile.TemporaryDirectory() as folder:
            for name in steps:
                command = [sys.executable, __file__, "--step", name, folder, str(turns)]
                output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
                measured[name, turns] = tuple(json.loads(output.splitlines()[-1]))
    sizes = " | ".join(f"{turns:,} turns" for turns in given.turns)
    print(f"| µs a turn, KiB a turn | {sizes} | ratio of time |\n|---|{'---:|' * (len(given.turns) + 1)}")
    missed = False
    for name in steps:
        values = [(measured[name, turns], turns) for turns in given.turns]
        cells = [f"{1e6 * s / turns:,.0f}, {1024 * m / turns:,.1f}" for (s, m), turns in values]
        times = [s / turns for (s, _), turns in values]
        ratio = max(times) / times[0]
        missed |= ratio > BAR
        print(f"| {name} | {' | '.join(cells)} | {ratio:.2f} |")
    sys.exit(missed)


if __name__ == "__main__":
    main()
