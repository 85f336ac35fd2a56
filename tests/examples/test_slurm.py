"""The SLURM script with stand-ins: a head, workers that join it, training on the head."""

import os
import subprocess
from pathlib import Path

BATCH = Path(__file__).parents[2] / "examples" / "openrlhf" / "slurm.sbatch"


def run(tmp_path, *arguments, gpus_join=True):
    told = tmp_path / "told"
    for name, body in {
        "scontrol": "printf 'node1\\nnode2\\nnode3\\n'",
        "srun": f'echo "$RAY_ADDRESS" "$@" >>{told}',
        "python": "exit 0" if gpus_join else "exit 1",
    }.items():
        command = tmp_path / name
        command.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
        command.chmod(0o755)
    env = os.environ | {
        "PATH": f"{tmp_path}:{os.environ['PATH']}", "SLURM_JOB_NODELIST": "node[1-3]",
        "SLURM_JOB_NUM_NODES": "3", "RAY_ADDRESS": "",
    }  # fmt: skip
    ended = subprocess.run(
        ["bash", str(BATCH), *arguments], env=env, capture_output=True, text=True, check=False
    )
    return ended, sorted(told.read_text(encoding="utf-8").splitlines()) if told.exists() else []


def test_workers_join_the_head_and_training_starts_once(tmp_path):
    ended, told = run(tmp_path, "marsrl_multinode.toml", "--steps", "3")
    assert ended.returncode == 0, ended.stderr
    [head] = [line for line in told if "--head" in line]
    assert "--nodelist=node1" in head
    assert "--port=6379" in head
    workers = [line for line in told if "--address=node1:6379" in line]
    assert [f"--nodelist=node{i}" in line for i, line in zip((2, 3), workers, strict=True)] == [True, True]
    [trained] = [line for line in told if "marsrl_multinode.toml" in line]
    assert trained.startswith("node1:6379 ")
    assert trained.endswith("mars-env train marsrl_multinode.toml --steps 3")
    assert len(told) == 4


def test_nothing_is_trained_where_nodes_are_missing(tmp_path):
    ended, told = run(tmp_path, "marsrl_multinode.toml", gpus_join=False)
    assert ended.returncode != 0
    assert not any("marsrl_multinode.toml" in line for line in told)
