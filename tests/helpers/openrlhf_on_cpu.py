"""A Ray with pretended GPUs, so that OpenRLHF trains on a CPU: for its tests and its benchmark."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

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
    "--actor.num_nodes": "1",
    "--actor.num_gpus_per_node": "1",
    "--vllm.num_engines": "1",
    "--vllm.gpu_memory_utilization": "0.3",
    "--vllm.enforce_eager": None,
    "--data.max_len": "256",
    "--rollout.max_new_tokens": "64",
    "--algo.advantage.is_correction_level": "token",
    "--algo.advantage.is_correction_mode": "clip",
    "--algo.advantage.is_correction_threshold": "5",
    "--ds.attn_implementation": "eager",
}
"""OpenRLHF's flags for the miniature; a flag with the value None has no value."""

STEADY = {
    **MINIATURE,
    "--actor.lr_scheduler": "constant",
    "--actor.lr_warmup_ratio": "0",
    "--logger.wandb.run_name": "run",
}
"""The same at a constant learning rate."""

APART = ("--train.colocate_all=false", "--vllm.enable_sleep=false", "--ds.enable_sleep=false")
"""Engine and trainer do not share a GPU."""

MARS2_LOSS = {
    "--actor.policy_loss_type": "gspo",
    "--actor.loss_agg_mode": "seq-mean-token-mean",
    "--actor.eps_clip_low_high": "3e-4 4e-4",
}
"""The loss of MARS2, as the settings files of examples/openrlhf have it."""


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


def words(flags):
    """Flags and their values as words of a command line."""
    found = []
    for name, value in flags.items():
        several = name.endswith((".betas", "_low_high"))
        found += [name, *([] if value is None else str(value).split() if several else [str(value)])]
    return found


def command(flags, *more):
    """The launcher's command line."""
    return [sys.executable, "-W", "ignore", "-m", "mars_env.trainers.openrlhf", *more, *words(flags)]


def folders(folder):
    """Flags for what a run writes, all in one folder."""
    return {
        "--ckpt.path": folder / "checkpoints",
        "--ckpt.output_dir": folder / "model",
        "--mars.record": folder / "record",
        "--logger.tensorboard_dir": folder / "board",
    }


def launched(folder, environment, flags, *more):
    """The folder of a run of the launcher to its end, which must be a good one."""
    ended_well(command({**folders(folder), **flags}, *more), folder, environment)
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


def logged(board, kind):
    """What OpenRLHF's TensorBoard logger wrote: figures by step; kind is ``"train"`` or ``"eval"``."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = {}
    for file in sorted(Path(board).rglob("events.out.tfevents.*")):
        events = EventAccumulator(str(file))
        events.Reload()
        for tag in events.Tags()["scalars"]:
            for scalar in events.Scalars(tag) if tag.startswith(f"{kind}/") else ():
                found.setdefault(scalar.step, {})[tag.removeprefix(f"{kind}/")] = scalar.value
    return found


def updates(folder):
    """What the record of a run says of its updates."""
    return _recorded(folder, "UPDATES")


def samples(folder):
    """The rows that a run trained on."""
    return _recorded(folder, "SAMPLES")


def _recorded(folder, name):
    from mars_env.trainers.openrlhf.rollouts import record
    from mars_env.trainers.rollouts import read_lines

    return read_lines(folder / "record" / getattr(record, name))
