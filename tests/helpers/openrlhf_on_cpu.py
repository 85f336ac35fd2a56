"""A Ray with pretended GPUs, so that OpenRLHF trains on a CPU: for its tests and its benchmark."""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

from mars_env.loggers import read_jsonl
from mars_env.rollout.row_files import rows_of
from mars_env.trainers.rollouts import LEDGER, SAMPLES

ROOT = Path(__file__).parents[2]
SHIM = ROOT / "tests" / "engines" / "openrlhf_shim"
EXAMPLES = ROOT / "examples" / "openrlhf"

ENGINES = {
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_LOGGING_LEVEL": "WARNING",
    "OMP_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",
}

MINIATURE = {
    "backend": "openrlhf",
    "openrlhf.actor.num_nodes": 1,
    "openrlhf.actor.num_gpus_per_node": 1,
    "openrlhf.vllm.num_engines": 1,
    "openrlhf.vllm.gpu_memory_utilization": 0.3,
    "openrlhf.vllm.enforce_eager": True,
    "openrlhf.ds.attn_implementation": "eager",
    "engine.context": 256,
    "sampling.max_tokens": 64,
    "sampling.temperature": 1.0,
    "checkpoint_every": 100,
}
"""Settings of a run file for the miniature, by path."""

APART = {
    "openrlhf.train.colocate_all": False,
    "openrlhf.vllm.enable_sleep": False,
    "openrlhf.ds.enable_sleep": False,
}
"""Engine and trainer do not share a GPU."""


def environment(address, float32=False):
    """The environment of a run's processes, which can import the helpers. OpenRLHF's dtype is bfloat16."""
    found = [
        *map(str, (SHIM, Path(__file__).parent, EXAMPLES)),
        *filter(None, [os.environ.get("PYTHONPATH")]),
    ]
    return {
        **ENGINES,
        **os.environ,
        "PYTHONPATH": os.pathsep.join(found),
        "MARS_ENV_OPENRLHF_ON_CPU": "1",
        "MARS_ENV_OPENRLHF_FLOAT32": str(int(float32)),
        "DS_ACCELERATOR": "cpu",
        "RAY_ADDRESS": address,
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
        "RAY_worker_niceness": "0",  # 15 by default, which makes it very slow next to other work
        "PYTHONUNBUFFERED": "1",
    }


@contextmanager
def ray_on_cpus(gpus=4, float32=False):
    """A separate Ray; yields the environment for processes that join it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    env = environment(f"127.0.0.1:{port}", float32)
    ray = Path(sys.executable).with_name("ray")
    with tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp", ignore_cleanup_errors=True) as sockets:
        head = subprocess.Popen(
            [
                ray, "start", "--head", "--block", "--disable-usage-stats", "--include-dashboard=false",
                f"--num-gpus={gpus}", "--num-cpus=12", f"--port={port}", f"--temp-dir={sockets}",
            ],
            env={name: value for name, value in env.items() if name != "RAY_ADDRESS"},
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        try:
            yield env
        finally:
            os.killpg(head.pid, signal.SIGTERM)
            head.wait(60)


def words(settings):
    """Settings by path as words of the command line."""
    texts = {k: v if isinstance(v, str) else json.dumps(v, default=str) for k, v in settings.items()}
    return [f"--{path}={text}" for path, text in texts.items()]


def command(source, settings):
    """`mars-env train` of an environment's id or of a run file."""
    return [sys.executable, "-W", "ignore", "-m", "mars_env", "train", source, *words(settings)]


def folders(folder):
    """Settings for what a run writes, all in one folder."""
    return {"out": str(folder), "logging.record": True}


def launched(folder, environment, source, settings):
    """The folder of a run to its end, which must be a good one."""
    ended_well(command(source, {**folders(folder), **settings}), folder, environment)
    return folder


def ended_well(words, folder, env, timeout=800):
    """Run a command in a folder to its end."""
    log = folder / f"log-{time.monotonic_ns()}.txt"
    with log.open("wb") as out:
        done = subprocess.run(
            list(map(str, words)), env=env, cwd=folder, stdout=out, stderr=out, timeout=timeout, check=False
        )
    assert done.returncode == 0, log.read_text(errors="replace")[-5000:]


def weights(path):
    """The tensors of a checkpoint of transformers, by name."""
    from safetensors.torch import load_file

    return load_file(Path(path) / "model.safetensors")


def checkpoint_step(checkpoints):
    """The newest step that is completely on disk."""
    latest = Path(checkpoints) / "_actor" / "latest"
    tag = latest.read_text() if latest.exists() else ""  # empty for a moment while DeepSpeed writes it
    return int(tag.removeprefix("global_step") or 0)


def logged(folder, policy="policy"):
    """The metrics of a run by update, those of one policy without its name."""
    prefix = f"policy/{policy}/"
    rows = read_jsonl(folder / "metrics.jsonl")
    return {row["step"]: {name.removeprefix(prefix): value for name, value in row.items()} for row in rows}


def updates(folder):
    """What the ledger of a run says of its updates."""
    return [row for _, row in rows_of(folder / "checkpoints" / LEDGER)]


def samples(folder):
    """The rows that a run trained on."""
    return [row for _, row in rows_of(folder / "checkpoints" / SAMPLES)]
