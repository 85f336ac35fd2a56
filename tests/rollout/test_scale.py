"""Ten thousand episodes, 1,024 at once, in one process on a scripted model (about 15 CPU seconds in all)."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from sums_team import told

from mars_env.rollout import read_run

EPISODES, CONCURRENCY = 10_000, 1024
GROWTH_MIB = 8.0
"""Memory that the last nine thousand episodes may add: under 1 KiB each, a tenth of what a tree takes."""


def player(directory):
    script = Path(__file__).with_name("long_run.py")
    return [sys.executable, str(script), str(directory), str(EPISODES), str(CONCURRENCY)]


def played(directory):
    done = subprocess.run(player(directory), capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def kill_when(directory, turns):
    """Start a player and end it by SIGKILL as soon as so many turns are stored."""
    process = subprocess.Popen(player(directory), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    file, until, seen, offset = directory / "turns.jsonl", time.monotonic() + 200, 0, 0
    while process.poll() is None and time.monotonic() < until:
        if file.exists():
            with file.open("rb") as rows:
                rows.seek(offset)
                new = rows.read()
            seen, offset = seen + new.count(b"\n"), offset + len(new)
        if seen >= turns:
            os.kill(process.pid, signal.SIGKILL)
            break
        time.sleep(0.005)
    _, errors = process.communicate(timeout=20)
    assert process.returncode == -signal.SIGKILL, f"it was to be killed at {turns} turns: {errors.decode()}"


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """An uninterrupted run: its directory and its memory while it ran."""
    directory = tmp_path_factory.mktemp("scale") / "whole"
    return directory, played(directory)


@pytest.mark.slow
def test_memory_stays_bounded_and_the_store_is_complete_and_in_order(whole):
    directory, memory = whole
    assert [row["finished"] for row in memory] == list(range(1000, EPISODES + 1, 1000))
    assert memory[-1]["mib"] - memory[0]["mib"] < GROWTH_MIB, memory

    run = read_run(directory)
    assert [tree.id for tree in run.trees] == [f"sum/{i}#{n}" for i in range(100) for n in range(100)]
    assert not any(tree.fault for tree in run.trees)
    assert all(tree.final is not None for tree in run.trees)
    stored = {}
    for row in map(json.loads, (directory / "turns.jsonl").read_text().splitlines()):
        rows = stored.setdefault(row["tree"], [])
        assert row["parent"] == (rows[-1] if rows else None)  # every turn stands after the one it answers
        rows.append(row["id"])
    assert stored == {tree.id: [turn.id for turn in tree.turns] for tree in run.trees}


@pytest.mark.slow
def test_a_run_killed_at_a_random_moment_resumes_to_the_uninterrupted_one(whole, tmp_path):
    expected = read_run(whole[0])
    turns = sum(len(tree.turns) for tree in expected.trees)
    killed = tmp_path / "killed"
    at = random.SystemRandom().randrange(turns // 20, turns * 9 // 10)
    kill_when(killed, at)
    left = (killed / "turns.jsonl").read_bytes()
    played(killed)

    assert list(map(told, read_run(killed).trees)) == list(map(told, expected.trees)), at
    stored = (killed / "turns.jsonl").read_bytes()
    assert stored.count(b"\n") == turns, at  # nothing was lost, nothing played twice
    assert stored.startswith(left[: left.rfind(b"\n") + 1]), at
