"""The wait in the SLURM script, beside a real Ray: until all GPUs have joined, and no longer than it says."""

import os
import socket
import subprocess
import sys
from contextlib import closing

from openrlhf_on_cpu import EXAMPLES

BATCH = EXAMPLES / "slurm.sbatch"
WAIT = BATCH.read_text(encoding="utf-8").partition("<<'WAIT'\n")[2].partition("\nWAIT\n")[0]


def wait(address, gpus, seconds):
    env = os.environ | {"RAY_ADDRESS": address, "RAY_USAGE_STATS_ENABLED": "0"}
    return subprocess.run(
        [sys.executable, "-", str(gpus), *address.split(":"), str(seconds)],
        input=WAIT, env=env, capture_output=True, text=True, check=False, timeout=400,
    )  # fmt: skip


def test_an_absent_head_is_not_waited_for_longer_than_said():
    with closing(socket.socket()) as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
    ended = wait(address, gpus=2, seconds=1)
    assert ended.returncode == 1
    assert "not all of the 2 GPUs joined Ray within 1 seconds (WAIT_SECONDS)" in ended.stderr


def test_it_goes_on_once_all_gpus_are_there_and_ends_where_some_are_missing(cluster):
    here = wait(cluster["RAY_ADDRESS"], gpus=8, seconds=300)
    assert here.returncode == 0, here.stderr
    missing = wait(cluster["RAY_ADDRESS"], gpus=9, seconds=2)
    assert missing.returncode == 1
    assert "not all of the 9 GPUs joined Ray" in missing.stderr
