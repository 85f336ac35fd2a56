"""How often ZeRO-3 gathers the weights in an update, counted in DeepSpeed itself on two ranks of a CPU."""

import json
import socket
import subprocess
import sys

import openrlhf_on_cpu
import pytest

pytest.importorskip("openrlhf")

RANK = openrlhf_on_cpu.SHIM.parents[1] / "helpers" / "zero3_rank.py"
RANKS = 2
PATIENCE = 400


def gathers(updates, recompute):
    """How often the weights were gathered, for each update; an update is a number of micro-batches."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    env = {
        **openrlhf_on_cpu.environment(""),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "WORLD_SIZE": str(RANKS),
    }
    asked = json.dumps({"updates": updates, "recompute": recompute})
    started = [
        subprocess.Popen(
            [sys.executable, "-W", "ignore", RANK, asked],
            env={**env, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )
        for rank in range(RANKS)
    ]  # fmt: skip
    try:
        texts = [process.communicate(timeout=PATIENCE)[0] for process in started]
    finally:
        for process in started:
            process.kill()
    assert all(process.returncode == 0 for process in started), texts[0][-3000:]
    return json.loads(next(line for line in texts[0].splitlines() if line.startswith("[")))


@pytest.mark.parametrize("recompute", [True, False], ids=["checkpointing", "plain"])
def test_fewer_micro_batches_gather_less(recompute):
    """The plan counts two gathers a micro-batch (`planning.costs.gathers`), as the most there can be."""
    _, rows, dynamic = gathers([2, 6, 2], recompute)  # the first update shows DeepSpeed the order of layers
    assert rows == pytest.approx(3 * dynamic, rel=0.02)
    assert 1.5 < rows / 6 <= 2.0
