"""Mutation testing of the core with cosmic-ray: are changes of a module noticed by the module's own tests?

    python benchmarks/mutants.py                             # 300 mutants, drawn with seed 2026 (hours)
    python benchmarks/mutants.py --only advantages -n 10     # ten of one module

Works on a copy of the checkout. Prints a row for each module, then the mutants that survived. Status 1 if
fewer than 97% are killed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SEED, BAR = 2026, 0.97
CORE = {
    "mars_env/trainers/advantages.py": "tests/trainers/test_advantages.py",
    "mars_env/trainers/losses.py": "tests/trainers/test_losses.py",
    "mars_env/trainers/tree_credit.py": "tests/trainers/test_tree_credit.py",
    "mars_env/rollout/staleness.py": "tests/rollout/test_pipeline.py",
    "mars_env/rollout/segments.py": "tests/rollout/test_pipeline_segments.py",
    "mars_env/rollout/pipeline.py": "tests/rollout/test_pipeline.py",
    "mars_env/rollout/store.py": "tests/rollout/test_store.py tests/rollout/test_runs_of_strangers.py",
    "mars_env/rollout/row_files.py": "tests/rollout/test_store.py tests/rollout/test_runs_of_strangers.py",
    "mars_env/envs/verdicts.py": "tests/envs/test_verdicts.py",
    "mars_env/envs/rewards.py": "tests/rollout/test_rewards_that_fail.py tests/envs",
    "mars_env/envs/visibility.py": "tests/envs/test_visibility.py",
    "mars_env/envs/growers.py": "tests/envs/test_growers.py",
    "mars_env/search/search.py": "tests/search/test_search.py",
    "mars_env/grading/math/evaluate.py": "tests/grading/math",
    "mars_env/grading/math/compare.py": "tests/grading/math",
    "mars_env/evaluation/statistics.py": "tests/evaluation/test_statistics.py",
}
"""Each core module and its own tests."""


def cosmic_ray(*arguments: str, folder: Path) -> str:
    """Run cosmic-ray in a folder; returns what it prints."""
    environment = {**os.environ, "PYTHONPATH": f"{folder}:{os.environ.get('PYTHONPATH', '')}"}
    command = [sys.executable, "-m", "cosmic_ray.cli", *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"cosmic-ray {arguments[0]} failed: {done.stderr[-2000:]}")
    return done.stdout


def sessions(folder: Path, only: str) -> dict[str, list[str]]:
    """A session for each module, in a file `MODULE.sqlite`; the ids of its mutants."""
    found = {}
    for module, tests in CORE.items():
        if only not in module:
            continue
        name = Path(module).stem
        command = f"{sys.executable} -m pytest -x -q -n 0 -p no:cacheprovider {tests}"
        config = f"""[cosmic-ray]
module-path = "{module}"
timeout = 300.0
excluded-modules = []
test-command = "{command}"
[cosmic-ray.distributor]
name = "local"
"""
        (folder / f"{name}.toml").write_text(config)
        cosmic_ray("init", f"{name}.toml", f"{name}.sqlite", folder=folder)
        lines = cosmic_ray("dump", f"{name}.sqlite", folder=folder).splitlines()
        found[name] = [json.loads(line)[0]["job_id"] for line in lines]
    return found


def keep(session: Path, chosen: set[str]) -> None:
    """Leave only the chosen mutants in a session."""
    with sqlite3.connect(session) as database:
        marks = ",".join("?" * len(chosen))
        for table in ("mutation_specs", "work_items"):
            database.execute(f"DELETE FROM {table} WHERE job_id NOT IN ({marks})", [*chosen])


def main() -> None:
    """Draw the mutants, run them, and print what survived."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="Part of a module's path.")
    parser.add_argument("-n", type=int, default=300, help="Number of mutants.")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "copy"
        ignored = shutil.ignore_patterns(".git", ".venv*", "__pycache__", ".*_cache", "site")
        shutil.copytree(ROOT, folder, symlinks=True, ignore=ignored)
        found = sessions(folder, given.only)
        every = [(module, job) for module, jobs in found.items() for job in jobs]
        # The ids are random: a mutant is drawn by its place.
        drawn = random.Random(SEED).sample(range(len(every)), min(given.n, len(every)))
        chosen: dict[str, set[str]] = {}
        for place in drawn:
            chosen.setdefault(every[place][0], set()).add(every[place][1])
        killed, survivors = 0, []
        for module, jobs in chosen.items():
            cosmic_ray("baseline", f"{module}.toml", folder=folder)  # the tests pass without a mutant
            keep(folder / f"{module}.sqlite", jobs)
            cosmic_ray("exec", f"{module}.toml", f"{module}.sqlite", folder=folder)
            lines = cosmic_ray("dump", f"{module}.sqlite", folder=folder).splitlines()
            lived = [line for line in map(json.loads, lines) if line[1]["test_outcome"] != "killed"]
            killed += len(jobs) - len(lived)
            survivors += [line[1]["diff"] for line in lived]
            print(f"| {module} | {len(jobs) - len(lived)} of {len(jobs)} |", flush=True)
    print(f"killed {killed} of {len(drawn)}")
    for diff in survivors:
        print(diff)
    sys.exit(killed < BAR * len(drawn))


if __name__ == "__main__":
    main()
