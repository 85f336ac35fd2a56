"""The command line, stopped by signals and by a full disk: a run keeps what it has, and continues."""

import os
import signal
import subprocess

import pytest
from command_line import command
from full_disk import full_disk
from sums_team import game, stored, sums, team, told

import mars_env
from mars_env.errors import StoreError
from mars_env.rollout import Job, read_run

PROBLEMS = sums(6)
AGENT = '''
import asyncio
import os
import sys

from mars_env.types import Action


class Hanging:
    """Where it is told to, it answers ten times, then it hangs."""

    policy, calls = "hanging", 0

    async def act(self, observation, n, seed):
        self.calls += 1
        if self.calls > 10 and "HANG" in os.environ:
            print("ready", file=sys.stderr, flush=True)
            await asyncio.sleep(3600)
        return [Action(f"\\\\boxed{{{seed % 9}}}")] * n


agent = Hanging()
'''


async def test_a_full_disk_ends_the_run_in_one_sentence_and_the_run_resumes(tmp_path):
    jobs = [Job(problem, sample) for sample in range(20) for problem in PROBLEMS]

    async def run(directory):
        async for _ in stored(directory, game(), team(), jobs, PROBLEMS, concurrency=16):
            pass

    await run(tmp_path / "whole")
    with full_disk(50_000), pytest.raises(StoreError):
        await run(tmp_path / "full")
    written = (tmp_path / "full" / "turns.jsonl").read_bytes()
    assert len(written) <= 50_000 and written.endswith(b"\n")
    await run(tmp_path / "full")
    whole, resumed = (read_run(tmp_path / name).trees for name in ("whole", "full"))
    assert list(map(told, resumed)) == list(map(told, whole))
    assert (tmp_path / "full" / "turns.jsonl").read_bytes().startswith(written)


def finished(folder):
    """The trees of the whole run, started or continued in this process."""
    how = {"limit": 5, "samples": 4, "concurrency": 2, "out": folder}
    mars_env.evaluate("arithmetic-solve", agents="hanging_agent:agent", **how)
    return list(map(told, read_run(folder).trees))


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL], ids=lambda how: how.name)
def test_a_run_that_is_stopped_continues_as_if_it_had_not_been(tmp_path, monkeypatch, how):
    (tmp_path / "hanging_agent.py").write_text(AGENT)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    whole, stopped = finished(tmp_path / "whole"), tmp_path / "stopped"
    arguments = ["arithmetic-solve", "--agents", "hanging_agent:agent", "--limit", 5, "--n", 4]
    called = command("evaluate", *arguments, "--concurrency", 2, "--out", stopped)
    environment = {**os.environ, "HANG": "1"}
    process = subprocess.Popen(called, stderr=subprocess.PIPE, text=True, env=environment)
    assert "ready\n" in iter(process.stderr.readline, "")
    process.send_signal(how)
    _, errors = process.communicate()
    assert process.returncode == (-how if how is signal.SIGKILL else 128 + how)
    assert "Traceback" not in errors
    left = (stopped / "turns.jsonl").read_bytes()
    assert left.count(b"\n") == 10
    assert finished(stopped) == whole
    assert (stopped / "turns.jsonl").read_bytes().startswith(left)
