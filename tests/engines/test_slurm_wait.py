"""The wait in the SLURM script, beside a real Ray: until all GPUs have joined, and no longer than it says."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

pytest.importorskip("ray")

BATCH = Path(__file__).parents[2] / "examples" / "openrlhf" / "slurm.sbatch"
WAIT = BATCH.read_text(encoding="utf-8").partition("<<'WAIT'\n")[2].partition("\nWAIT\n")[0]
RAY = str(Path(sys.executable).with_name("ray"))


def free_port():
    with closing(socket.socket()) as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def wait(port, gpus, seconds):
    env = os.environ | {"RAY_ADDRESS": f"127.0.0.1:{port}", "RAY_USAGE_STATS_ENABLED": "0"}
    return subprocess.run(
        [sys.executable, "-", str(gpus), "127.0.0.1", str(port), str(seconds)],
        input=WAIT, env=env, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip


@contextmanager
def head(port, gpus, folder):
    command = [RAY, "start", "--head", "--block", f"--port={port}", f"--num-gpus={gpus}", "--num-cpus=1"]
    command += ["--node-ip-address=127.0.0.1", "--include-dashboard=false", "--disable-usage-stats"]
    command += ["--object-store-memory=100000000", f"--temp-dir={folder}"]
    started = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        started.terminate()
        started.wait(60)


def test_an_absent_head_is_not_waited_for_longer_than_said():
    began = time.monotonic()
    ended = wait(free_port(), gpus=2, seconds=1)
    assert ended.returncode == 1
    assert "not all of the 2 GPUs joined Ray within 1 seconds (WAIT_SECONDS)" in ended.stderr
    assert time.monotonic() - began < 60  # ray.init alone tries for minutes


def test_it_goes_on_once_all_gpus_are_there_and_ends_where_some_are_missing():
    port = free_port()
    # A short path: Ray's sockets are below it, and their paths have at most 107 characters.
    with (
        tempfile.TemporaryDirectory(prefix="ray", ignore_cleanup_errors=True) as folder,
        head(port, 2, folder),
    ):
        here = wait(port, gpus=2, seconds=60)
        assert here.returncode == 0, here.stderr
        missing = wait(port, gpus=3, seconds=2)
    assert missing.returncode == 1
    assert "not all of the 3 GPUs joined Ray" in missing.stderr
