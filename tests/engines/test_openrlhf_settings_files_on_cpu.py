"""Settings files of examples/openrlhf, run to their end on a CPU: only sizes and placement differ."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import openrlhf_on_cpu
import pytest
from tiny_checkpoint import tiny_checkpoint

from mars_env.trainers.openrlhf.rollouts.record import SAMPLES
from mars_env.trainers.rollouts import read_lines

pytest.importorskip("openrlhf")

EXAMPLES = Path(__file__).parents[2] / "examples" / "openrlhf"
HELPERS = Path(openrlhf_on_cpu.__file__).parent
PATIENCE = 420

SMALL = {
    "--mars.problems": 2,
    "--mars.group": 4,
    "--mars.branches": 1,
    "--data.max_len": 4096,
    "--vllm.gpu_memory_utilization": 0.3,
    "--ds.attn_implementation": "eager",
    "--rollout.max_new_tokens": 12,
    "--rollout.batch_size": 2,
    "--rollout.micro_batch_size": 4,
    "--train.batch_size": 24,
    "--train.micro_batch_size": 4,
    "--actor.adam.lr": 1e-2,
    "--actor.lr_warmup_ratio": 0,
}

APART = [f"--{name}=false" for name in ("train.colocate_all", "vllm.enable_sleep", "ds.enable_sleep")]
"""Engine and trainer do not share a GPU."""


@pytest.fixture(scope="module")
def cluster():
    with openrlhf_on_cpu.ray_on_cpus(gpus=2, paths=(HELPERS, EXAMPLES)) as env:
        yield env


@pytest.mark.parametrize(
    ("file", "roles", "more"),
    [
        ("marsrl_smoke_1gpu", ("solver", "verifier", "corrector"), {}),
        (
            "custom_environment",
            ("solver",),  # the custom Assessor keeps its own reward: a random model states no probability
            {"--mars.env": "calibration:arithmetic-assessed", "--mars.problem_options": "{}"},
        ),
    ],
)
def test_a_file_trains_at_its_smallest(cluster, tmp_path, file, roles, more):
    base = tiny_checkpoint(tmp_path / "base")
    rewards = ", ".join(f'"{role}": "tiny_checkpoint:varied"' for role in roles)
    flags = SMALL | more | {
        "--mars.rewards": "{" + rewards + "}",
        "--mars.record": tmp_path / "record",
        "--actor.model_name_or_path": base,
        "--ckpt.output_dir": tmp_path / "model",
        "--ckpt.path": tmp_path / "checkpoints",
        "--logger.tensorboard_dir": tmp_path / "board",
    }  # fmt: skip
    words = [str(word) for pair in flags.items() for word in pair] + ["--vllm.enforce_eager", *APART]
    log = tmp_path / "log.txt"
    with log.open("wb") as output:
        ended = subprocess.run(
            [sys.executable, "-m", "mars_env.trainers.openrlhf", f"--config={EXAMPLES / file}.toml", *words],
            env=cluster, cwd=tmp_path, stdout=output, stderr=output, timeout=PATIENCE, check=False,
        )  # fmt: skip
    assert ended.returncode == 0, log.read_text(errors="replace")[-4000:]

    from safetensors.torch import load_file

    before, after = (load_file(path / "model.safetensors") for path in (base, tmp_path / "model"))
    assert before.keys() == after.keys()
    assert any(not before[name].equal(after[name]) for name in before)
    samples = read_lines(tmp_path / "record" / SAMPLES)
    assert {row["role"] for row in samples if row["advantage"]} == set(
        roles
    )  # groups without a difference count, too
    assert {row["policy"] for row in samples} == {"actor"}
    assert openrlhf_on_cpu.logged(tmp_path / "board", "train")[1]["rollout/num_samples"] == len(samples)
