"""How fast programs are judged: by this library, with a process per program, with an interpreter per test.

    python benchmarks/code_grading.py            # about a minute on two idle cores
    python benchmarks/code_grading.py --programs 60 --out figures.json

docs/benchmarks.md names the contenders. Each has its own process, which imports only what it needs (forking a
larger process is slower). They take turns, a few programs at a time, so that other load affects all equally.
CPU is user and system time of a contender's whole process tree; ``machine_cpu`` is the time that all
processors were busy meanwhile, which means something only on an idle machine.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import inspect
import io
import itertools
import json
import multiprocessing
import os
import platform
import resource
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

WORKERS = 3
TESTS = 5
SECONDS = 6

Item = tuple[dict[str, Any], str]
"""A row of a problem, and a program."""


def items(count: int) -> list[Item]:
    """Programs that read standard input, with five tests each; repeated, each with a different comment."""
    from mars_env.problems.programs import programs_problems

    chosen = []
    for problem in programs_problems():
        if problem.reference["form"] == "stdin" and len(problem.reference["tests"]) >= TESTS:
            tests = [{key: t[key] for key in ("input", "output")} for t in problem.reference["tests"][:TESTS]]
            row = {"id": problem.id, "prompt": problem.statement, "mode": "stdin", "tests": tests}
            chosen.append((row, problem.reference["solutions"][0]))
    return [(row, f"{s}# {i}\n") for i in range(count) for row, s in [chosen[i % len(chosen)]]]


# --- other harnesses, imitated ---


def patched_run(program: str, tests: list[dict[str, str]]) -> bool:
    """Run a program on its tests in this process, with patched input and output, and compare."""

    def late(*_: Any) -> None:
        raise TimeoutError

    signal.signal(signal.SIGALRM, late)
    code = compile(program, "<program>", "exec")
    for test in tests:
        out = io.StringIO()
        before = sys.stdin
        sys.stdin = io.StringIO(test["input"])
        signal.alarm(SECONDS)
        try:
            with contextlib.redirect_stdout(out):
                exec(code, {"__name__": "__main__"})  # noqa: S102  (what such harnesses do)
        except SystemExit:
            pass
        except BaseException:
            return False
        finally:
            signal.alarm(0)
            sys.stdin = before
        if out.getvalue().split() != test["output"].split():
            return False
    return True


def _forked_target(program: str, tests: list[dict[str, str]], results: Any) -> None:
    results.append(patched_run(program, tests))


def forked(item: Item) -> bool:
    with multiprocessing.get_context("fork").Manager() as manager:
        results = manager.list()
        arguments = (item[1], item[0]["tests"], results)
        process = multiprocessing.get_context("fork").Process(target=_forked_target, args=arguments)
        process.start()
        process.join(timeout=(SECONDS + 1) * TESTS)
        process.kill()
        return list(results) == [True]


SOURCE = f"""
import contextlib, io, json, signal, sys
from typing import Any
{inspect.getsource(patched_run)}
SECONDS = {SECONDS}
print(patched_run(*json.load(sys.stdin)))
"""


def interpreter_per_program(item: Item) -> bool:
    data = json.dumps([item[1], item[0]["tests"]])
    done = subprocess.run([sys.executable, "-c", SOURCE], input=data, capture_output=True, text=True)
    return done.stdout.strip() == "True"


def interpreter_per_test(item: Item) -> bool:
    for test in item[0]["tests"]:
        command = [sys.executable, "-c", item[1]]
        done = subprocess.run(command, input=test["input"], capture_output=True, text=True, timeout=60)
        if done.stdout.split() != test["output"].split():
            return False
    return True


# --- measuring ---


def in_threads(function: Callable[[Item], bool]) -> Callable[[list[Item]], int]:
    def run(batch: list[Item]) -> int:
        with ThreadPoolExecutor(WORKERS) as pool:
            return sum(pool.map(function, batch))

    return run


def ours(backend: str) -> Callable[[list[Item]], int]:
    from mars_env.grading.code.grader import CodeGrader
    from mars_env.problems.code import code_problem_from_row
    from mars_env.types import Verdict

    grader = CodeGrader(backend=backend, run_all=True)

    async def grade_all(batch: list[Item]) -> int:
        work = [(code_problem_from_row(row), program) for row, program in batch]
        grades = await asyncio.gather(*(grader.grade(*item) for item in work))
        return sum(g.verdict is Verdict.CORRECT for g in grades)

    return lambda batch: asyncio.run(grade_all(batch))


CONTENDERS: dict[str, Callable[[], Callable[[list[Item]], int]]] = {
    "forked": lambda: in_threads(forked),
    "interpreter per program": lambda: in_threads(interpreter_per_program),
    "interpreter per test": lambda: in_threads(interpreter_per_test),
    "bubblewrap": lambda: ours("bubblewrap"),
    "landlock": lambda: ours("landlock"),
}


def work(name: str) -> None:
    """A contender's process: reads batches as lines of JSON, writes verdicts and times."""
    run = CONTENDERS[name]()
    for line in sys.stdin:
        batch = json.loads(line)
        started = time.perf_counter()
        right = run(batch)
        print(json.dumps([right, time.perf_counter() - started, cpu_so_far()]), flush=True)


def cpu_so_far() -> float:
    """CPU seconds of this process and of its ended descendants."""
    used = (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    return sum(u.ru_utime + u.ru_stime for u in used)


class Contender:
    def __init__(self, name: str, warm_up: list[Item]) -> None:
        command = [sys.executable, __file__, "--work", name]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.right, self.seconds, self.machine = 0, 0.0, 0.0
        *_, self.cpu_before = self.ask(warm_up)

    def ask(self, batch: list[Item]) -> tuple[int, float, float]:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps(batch) + "\n")
        self.process.stdin.flush()
        right, seconds, cpu = json.loads(self.process.stdout.readline())
        return right, seconds, cpu

    def run(self, batch: list[Item]) -> None:
        before = busy_seconds()
        right, seconds, _ = self.ask(batch)
        self.right += right
        self.seconds += seconds
        self.machine += busy_seconds() - before

    def end(self, programs: int) -> dict[str, float]:
        """End it and all its descendants; returns what it used per program."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        _, _, used = os.wait4(self.process.pid, 0)
        cpu = used.ru_utime + used.ru_stime - self.cpu_before
        return {
            "programs_per_second": round(programs / self.seconds, 1),
            "cpu_ms_per_program": round(1000 * cpu / programs, 1),
            "machine_cpu_ms_per_program": round(1000 * self.machine / programs, 1),
            "correct": self.right,
        }


def busy_seconds() -> float:
    """CPU seconds of the whole machine since its start, without idle and waiting time."""
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    numbers = list(map(int, fields))
    return (sum(numbers[:8]) - numbers[3] - numbers[4]) / os.sysconf("SC_CLK_TCK")


def start_up(backend: str, rounds: int) -> dict[str, float]:
    """Median milliseconds to start a fork server, fork a sandbox, run an empty program in it, and end it."""
    from mars_env.sandbox import BACKENDS, Job, Limits
    from mars_env.sandbox.service import on_service_loop

    async def times() -> list[tuple[float, ...]]:
        found = []
        for _ in range(rounds):
            at = [time.perf_counter()]
            spawner = await BACKENDS[backend]().start({})
            at.append(time.perf_counter())
            box = await spawner.box()
            at.append(time.perf_counter())
            await box.run(Job(source="pass"), Limits())
            at.append(time.perf_counter())
            await box.close()
            at.append(time.perf_counter())
            await spawner.close()
            found.append(tuple(b - a for a, b in itertools.pairwise(at)))
        return found

    columns = zip(*asyncio.run(on_service_loop(times())), strict=True)
    medians = [round(1000 * statistics.median(column), 1) for column in columns]
    return dict(zip(("server_ms", "box_ms", "run_ms", "end_ms"), medians, strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", type=int, default=200)
    parser.add_argument("--batch", type=int, default=25)
    parser.add_argument("--only", nargs="+", choices=list(CONTENDERS), default=list(CONTENDERS))
    parser.add_argument("--out", type=Path)
    parser.add_argument("--work", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(options.work)
        return
    from mars_env.errors import SandboxError

    all_items = items(options.programs)
    starts: dict[str, dict[str, float]] = {}
    names = list(options.only)
    for backend in [name for name in names if name in ("bubblewrap", "landlock")]:
        try:
            starts[backend] = start_up(backend, 20)
        except SandboxError as error:
            names.remove(backend)
            print(f"{backend} is left out: {error}")
    contenders = {name: Contender(name, all_items[:4]) for name in names}
    for first in range(0, len(all_items), options.batch):
        for contender in contenders.values():
            contender.run(all_items[first : first + options.batch])
    figures = {
        "machine": f"{os.cpu_count()} cores, Linux {platform.release()}, Python {platform.python_version()}",
        "load": [round(x, 1) for x in os.getloadavg()],
        "programs": len(all_items),
        "tests_each": TESTS,
        "start_up": starts,
        "contenders": {name: contender.end(len(all_items)) for name, contender in contenders.items()},
    }
    text = json.dumps(figures, indent=2)
    print(text)
    if options.out is not None:
        options.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
