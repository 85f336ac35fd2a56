"""Three thousand episodes, 512 at once, in one process on a scripted model."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from mars_env.rollout import read_run

EPISODES, CONCURRENCY = 3000, 512
GROWTH_MIB = 8.0
"""Memory that the last two thousand episodes may add: 4 KiB each, less than half of what a tree takes."""


def played(directory):
    script = Path(__file__).with_name("long_run.py")
    command = [sys.executable, str(script), str(directory), str(EPISODES), str(CONCURRENCY)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=800)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.slow
def test_memory_stays_bounded_and_the_store_is_complete_and_in_order(tmp_path):
    memory = played(tmp_path)
    assert [row["finished"] for row in memory] == list(range(1000, EPISODES + 1, 1000))
    assert memory[-1]["mib"] - memory[0]["mib"] < GROWTH_MIB, memory

    run = read_run(tmp_path)
    assert [tree.id for tree in run.trees] == [f"sum/{i}#{n}" for i in range(100) for n in range(30)]
    assert not any(tree.fault for tree in run.trees)
    assert all(tree.final is not None for tree in run.trees)
    stored = {}
    for row in map(json.loads, (tmp_path / "turns.jsonl").read_text().splitlines()):
        rows = stored.setdefault(row["tree"], [])
        assert row["parent"] == (rows[-1] if rows else None)  # every turn stands after the one it answers
        rows.append(row["id"])
    assert stored == {tree.id: [turn.id for turn in tree.turns] for tree in run.trees}
