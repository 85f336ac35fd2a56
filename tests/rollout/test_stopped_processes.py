"""The command line, stopped by signals: a run keeps what it has, and continues."""

import os
import signal
import subprocess

import pytest
from command_line import command
from sums_team import told

import mars_env
from mars_env.rollout import read_run

AGENT = """
import asyncio
import itertools
import os
import sys

calls = itertools.count(1)


async def agent(observation, seed):
    "Where it is told to, it answers ten times, then it hangs."
    if next(calls) > 10 and "HANG" in os.environ:
        print("ready", file=sys.stderr, flush=True)
        await asyncio.sleep(3600)
    return f"\\\\boxed{{{seed % 9}}}"
"""


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
