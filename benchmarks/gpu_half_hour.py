"""What half an hour on one GPU runs, in the order of its worth; unattended, into one JSON file.

    python benchmarks/gpu_half_hour.py --out gpu.json [--budget 1800] [--only trainer-100m] [--small]

Each step (docs/limitations.md) is a process with a time limit of its own. Its result is written as soon as it
is there; a step that fails or takes too long is noted, and the next one runs. The same command runs what is
not done yet. `--small` takes tiny sizes, for a CPU.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from mars_env.files import write_atomically

ROOT = Path(__file__).resolve().parents[1]

PEAKS = {"H200": 989e12, "H100": 989e12, "A100": 312e12, "L40S": 362e12}
"""Dense operations a second in bfloat16, by a part of the card's name, from NVIDIA's data sheets (SXM)."""

SIZES = {
    "tiny": (64, 192, 3, 160),
    "100m": (768, 2048, 12, 8_000),
    "600m": (1536, 4096, 20, 16_000),
}
"""Width, feed-forward width, layers, vocabulary of the models of a whole step."""

SHAPES = {
    "tiny": (64, 192, 3, 4, 4, 16, 160),
    "0.6b": (1024, 3072, 28, 16, 8, 128, 151_936),
    "4b": (2560, 9728, 36, 32, 8, 128, 151_936),
}
"""Width, feed-forward width, layers, heads, heads of keys, their width, vocabulary: Qwen3's 0.6B and 4B."""


@dataclass(frozen=True, slots=True)
class Step:
    name: str
    command: tuple[str, ...]
    seconds: float
    purpose: str


def plan(small: bool = False) -> tuple[Step, ...]:
    python = sys.executable

    def own(name: str, *arguments: str) -> tuple[str, ...]:
        return (python, str(Path(__file__).resolve()), "--run", name, *arguments)

    marsrl = (python, "-m", "studies.marsrl")
    study = ("--quick",) if small else ("--check", "0", "--jobs", str(os.cpu_count() or 1))
    openrlhf = (python, "-m", "mars_env", "train")
    smoke = (str(ROOT / "examples" / "openrlhf" / "marsrl_smoke_1gpu.toml"),)
    smoke += ("--dry-run", "--gpu-memory", "24") if small else ()
    sizes = ("tiny", "tiny") if small else ("100m", "600m")
    shapes = ("tiny", "tiny") if small else ("0.6b", "4b")
    return (
        Step("machine", own("machine"), 60, "what is there: card, driver, torch, packages"),
        Step("trainer-100m", own("trainer", sizes[0]), 300, "the local trainer's whole step"),
        Step("trainer-600m", own("trainer", sizes[1]), 420, "the same, six times as large"),
        Step("update-0.6b", own("update", shapes[0], "full"), 240, "the update: plain, shared, lean; memory"),
        Step("update-4b-adapters", own("update", shapes[1], "adapters"), 300, "the same, adapters on 4B"),
        Step("update-4b-offload", own("update", shapes[1], "offload"), 300, "the same, all of 4B"),
        Step("vllm", own("vllm", sizes[1]), 300, "vLLM beside the trainer: refresh, probe, sleep, adapters"),
        Step("miniature", (*marsrl, *study), 600, "a seed of the miniature's study again, compared"),
        Step("install", own("install"), 180, "what of requirements-gpu.txt can be installed there"),
        Step("openrlhf", (*openrlhf, *smoke), 600, "MarsRL through OpenRLHF, where its stack is installed"),
    )


# --- the runner ---------------------------------------------------------------------------------------


def run_all(steps: Sequence[Step], out: Path, budget: float) -> int:
    """Run what is not done yet within so many seconds; returns how many steps have no result."""
    told: dict[str, Any] = json.loads(out.read_text(encoding="utf-8")) if out.exists() else {}
    until = time.monotonic() + budget
    for step in steps:
        if told.get(step.name, {}).get("status") == "done":
            print(f"{step.name}: done before")
            continue
        left = until - time.monotonic()
        if left < 1:
            told[step.name] = {"status": "no time left"}
        else:
            told[step.name] = run_one(step, min(step.seconds, left))
        write_atomically(out, json.dumps(told, indent=2) + "\n")
        print(f"{step.name}: {told[step.name]['status']}")
    return sum(told[step.name]["status"] != "done" for step in steps)


def run_one(step: Step, seconds: float) -> dict[str, Any]:
    """Run a step in a process group of its own, which is killed at the limit."""
    began = time.monotonic()
    command = " ".join(step.command)
    row: dict[str, Any] = {"purpose": step.purpose, "command": command, "limit": round(seconds)}
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), *sys.path[1:2]]))}
    # Into a file: a pipe stays open as long as any process that the step left behind, such as one of Ray's.
    with tempfile.TemporaryFile() as told:
        process = None
        try:
            with _unbroken():
                process = subprocess.Popen(
                    step.command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=told,
                    stderr=subprocess.STDOUT, start_new_session=True,
                    preexec_fn=_breakable,  # this program has one thread
                )  # fmt: skip
            status = "done" if process.wait(seconds) == 0 else "failed"
        except OSError as error:
            return row | {"status": "failed", "output": str(error)}
        except subprocess.TimeoutExpired:
            status = "out of time"
        finally:
            if process is not None:
                _end(process)
        told.seek(0)
        output = told.read().decode(errors="replace")
    row |= {"status": status, "seconds": round(time.monotonic() - began, 1), "exit": process.returncode}
    result = last_json(output)
    if status == "done" and result is not None:
        return row | {"result": result}
    return row | {"output": output[-2000:]}


@contextmanager
def _unbroken() -> Iterator[None]:
    """SIGTERM waits: a process that has just started must be known before it can be ended."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    try:
        yield
    finally:
        _breakable()


def _breakable() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill what is left of a step's process group, also where the program itself is interrupted."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def last_json(output: str) -> Any:
    *_, last = output.strip().splitlines() or [""]
    try:
        found = json.loads(last)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


# --- the steps that are our own -----------------------------------------------------------------------


def machine() -> dict[str, Any]:
    import torch

    told: dict[str, Any] = {"platform": platform.platform(), "python": platform.python_version()}
    told |= {"cores": os.cpu_count(), "torch": torch.__version__, "cuda": torch.version.cuda}
    if torch.cuda.is_available():
        card = torch.cuda.get_device_properties(0)
        told |= {"card": card.name, "card_bytes": card.total_memory}
    return told | {"packages": stack()}


def stack() -> dict[str, str | None]:
    names = ("openrlhf", "torch", "vllm", "transformers", "deepspeed", "ray", "flash-attn")
    packages = {package.name.lower(): package.version for package in distributions()}
    return {name: packages.get(name) for name in names}


def install(seconds: float = 20) -> dict[str, Any]:
    """What of requirements-gpu.txt pip finds, each line by itself and for so many seconds at most."""
    requirements = (ROOT / "requirements-gpu.txt").read_text(encoding="utf-8").splitlines()
    lines = [line.strip() for line in requirements if line.strip() and not line.startswith("#")]
    pip = (sys.executable, "-m", "pip", "install", "--dry-run", "--quiet", "--no-input", "--no-deps")
    found = {}
    for line in lines:
        try:
            ended = subprocess.run([*pip, line], capture_output=True, text=True, timeout=seconds, check=False)
        except subprocess.TimeoutExpired:
            found[line] = f"no answer within {seconds:g} s"
            continue
        *_, last = ended.stderr.strip().splitlines() or [""]
        found[line] = "found" if ended.returncode == 0 else last[-300:]
    return {"installed": stack(), "index": found}


def card_of(device: str) -> tuple[str, float | None]:
    import torch

    card = torch.cuda.get_device_name(0) if device == "cuda" else "CPU"
    return card, next((found for part, found in PEAKS.items() if part in card), None)


def trainer(size: str, steps: int = 4) -> dict[str, Any]:
    """The whole step of trainer.py with a new model: sampling, grading, update.

    The first step is left out, since it warms up. Operations are 2 a weight for a sampled token and 6 for a
    trained one; the share is theirs of the card's peak. `estimate` is what `train --dry-run` says.
    """
    import torch
    from trainer import GROUP, GROUPS, LIMIT, PROMPT, new_model, reward, task

    from mars_env.trainers import TrainConfig, train
    from mars_env.trainers.architecture import architecture
    from mars_env.trainers.memory import Shape, estimate

    device = "cuda" if torch.cuda.is_available() else "cpu"
    model, tokenizer = new_model(SIZES[size])
    model.to(device)
    sampled, rows = [0], []

    def count(number: int) -> None:
        sampled[0] += number

    class Log:
        def start(self, step: int) -> None:
            self.mark = time.perf_counter()

        def log(self, step: int, figures: Mapping[str, float]) -> None:
            if device == "cuda":
                torch.cuda.synchronize()
            now = time.perf_counter()
            rows.append((now - self.mark, figures["seconds/update"], sampled[0]))
            self.mark, sampled[0] = now, 0

        def close(self) -> None:
            pass

    config = TrainConfig(learning_rate=1e-6, autocast=device == "cuda", token_budget=8192)
    made = task((model, tokenizer), "early", steps + 1, config, count, partial(reward, workload="early"))
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    asyncio.run(train(*made, loggers=[Log()]))

    parameters = sum(weight.numel() for weight in model.parameters())
    whole, update, drawn = (sum(column) for column in zip(*rows[1:], strict=True))
    trained = drawn + steps * GROUPS * GROUP * PROMPT
    operations = 2.0 * parameters * drawn + 6.0 * parameters * trained
    card, peak = card_of(device)
    estimated = estimate(architecture(model.config.to_dict()), config, Shape(PROMPT, LIMIT, GROUPS * GROUP))
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    if device == "cuda":
        used = torch.cuda.max_memory_allocated()
    return {
        "card": card,
        "parameters": parameters,
        "steps": steps,
        "seconds_a_step": whole / steps,
        "seconds_an_update": update / steps,
        "sampled_tokens_a_second": drawn / whole,
        "trained_tokens_a_second_of_update": trained / update,
        "share_of_peak": None if peak is None else operations / whole / peak,
        "memory_bytes": used,
        "memory_is": "allocated on the card" if device == "cuda" else "of the process",
        "estimate_bytes": estimated.peak,
    }


def update(size: str, kind: str, steps: int = 2) -> dict[str, Any]:
    """The local trainer's update on the rows of `marsrl`, by the ways of trainer.py; the first one warms up.

    `full` has float32 weights and keeps all activations but in `lean`; the other kinds are always lean.
    Lengths are 16 times those of trainer.py (prompts of 384 to 2,432 tokens, 1,024 sampled). Operations are
    6 a trained weight and 4 a frozen one, for each token of each row, also where a way computes fewer. The
    kind `offload` has all weights, and the optimiser on the host.
    """
    import torch
    from trainer import LEAN, LIMIT, ROLES, WAYS, group_of, rows_of
    from transformers import AutoModelForCausalLM, Qwen3Config

    from mars_env.trainers import LocalTrainer, TrainConfig
    from mars_env.trainers.architecture import architecture
    from mars_env.trainers.lora import add_adapters
    from mars_env.trainers.memory import Shape, estimate
    from mars_env.trainers.policy import Policy

    device = "cuda" if torch.cuda.is_available() else "cpu"
    card, peak = card_of(device)
    hidden, inner, layers, heads, keys, width, tokens = SHAPES[size]
    times = 1 if size == "tiny" else 16
    shape = Qwen3Config(
        vocab_size=tokens, hidden_size=hidden, intermediate_size=inner, num_hidden_layers=layers,
        num_attention_heads=heads, num_key_value_heads=keys, head_dim=width, tie_word_embeddings=True,
        dtype="float32" if kind == "full" else "bfloat16",
    )  # fmt: skip
    rows = rows_of("marsrl", tokens, times)
    read, length = sum(len(p) + len(c) for p, c in rows), times * (ROLES[-1] + LIMIT)
    text = Shape(length - times * LIMIT, times * LIMIT)
    found: dict[str, Any] = {"card": card, "tokens": read}
    for way in WAYS if kind == "full" else WAYS[:2]:
        lean = LEAN if way == "lean" or kind != "full" else {}
        config = TrainConfig(
            shared_prefixes=way != "plain", learning_rate=1e-6, autocast=device == "cuda",
            offload=kind == "offload", **lean | {"token_budget": 3 * length},
        )  # fmt: skip
        torch.manual_seed(0)
        with torch.device(device):
            model: Any = AutoModelForCausalLM.from_config(shape, dtype=shape.dtype)
        rank = 16 if kind == "adapters" else None
        policy = Policy(add_adapters(model, ["model"], rank)["model"] if rank else model)
        own, group, seconds = LocalTrainer({"model": policy}, config), group_of(rows), []
        if device == "cuda":
            torch.cuda.reset_peak_memory_stats()
        for _ in range(steps + 1):
            began = time.perf_counter()
            own.step([group])
            if device == "cuda":
                torch.cuda.synchronize()
            seconds.append(time.perf_counter() - began)
        took = sum(seconds[1:]) / steps
        operations = read * sum((6.0 if w.requires_grad else 4.0) * w.numel() for w in model.parameters())
        found[way] = {
            "seconds": took,
            "tokens_a_second": read / took,
            "share_of_peak": None if peak is None else operations / took / peak,
            "memory_bytes": torch.cuda.max_memory_allocated() if device == "cuda" else None,
            "estimate_bytes": estimate(architecture(shape.to_dict()), config, text, adapter_rank=rank).peak,
        }
        del model, policy, own
        if device == "cuda":
            torch.cuda.empty_cache()
    return found


def vllm(size: str, refreshes: int = 3) -> dict[str, Any]:
    """vLLM beside a new model of this process: seconds of refreshes and probes, memory while it sleeps.

    The model, then two adapters on it, as `make_team` makes them for ``engine.name = "vllm"``.
    """
    import torch
    from trainer import new_model

    from mars_env.models import HFModel
    from mars_env.rollout import PipelineSettings
    from mars_env.trainers import RunSettings
    from mars_env.trainers.lora import add_adapters
    from mars_env.trainers.policy import Policy
    from mars_env.trainers.samplers import Refresher, sampling_models
    from mars_env.trainers.tables import EngineSettings

    device = "cuda" if torch.cuda.is_available() else "cpu"
    found: dict[str, Any] = {"parameters": 0, "device": device}
    with tempfile.TemporaryDirectory() as folder:
        model, tokenizer = new_model(SIZES[size])
        found["parameters"] = sum(weight.numel() for weight in model.parameters())
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        for kind in ("full", "adapters"):
            base = HFModel(folder, name="one", device=device, dtype="float32")
            trained = {"one": base}
            if kind == "adapters":
                made = add_adapters(base.module, ["one", "two"])
                trained = {name: HFModel((each, base.tokenizer), name=name) for name, each in made.items()}
            engine = EngineSettings(name="vllm", arguments={"enforce_eager": True})
            settings = RunSettings(pipeline=PipelineSettings(staleness=0), engine=engine)
            engines = sampling_models(trained, settings)
            bring = Refresher(engines)
            policies = {name: Policy(each.module) for name, each in trained.items()}
            rows = []
            for version in range(refreshes):
                for policy in policies.values():
                    with torch.no_grad():
                        for weight in policy.model.parameters():
                            weight.add_(torch.randn_like(weight), alpha=1e-4)
                    policy.version = version
                free = torch.cuda.mem_get_info()[0] if device == "cuda" else 0
                bring.sleep()
                freed = torch.cuda.mem_get_info()[0] - free if device == "cuda" else 0
                began = time.perf_counter()
                probing = bring(policies)
                refreshed = time.perf_counter()
                read = probing if isinstance(probing, dict) else asyncio.run(probing)
                seconds = {"refresh": refreshed - began, "probe": time.perf_counter() - refreshed}
                rows.append(seconds | {"freed_bytes": freed, **read})
            found[kind] = rows
            for engine in engines.values():
                getattr(engine, "base", engine).close()
    return found


OWN: Mapping[str, Callable[..., dict[str, Any]]] = {
    each.__name__: each for each in (machine, trainer, update, vllm, install)
}


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("gpu.json"))
    parser.add_argument("--budget", type=float, default=1800, help="seconds in all")
    parser.add_argument("--only", action="append", help="this step; repeatable")
    parser.add_argument("--small", action="store_true", help="tiny sizes, for a CPU")
    parser.add_argument("--run", nargs="+", metavar=("STEP", "ARGUMENT"), help="one step in this process")
    told = parser.parse_args(argv)
    if told.run:
        name, *arguments = told.run
        print(json.dumps(OWN[name](*arguments)))
        return 0
    steps = plan(told.small)
    if unknown := sorted(set(told.only or ()) - {step.name for step in steps}):
        parser.error(f"there is no step {unknown[0]}; there are: {', '.join(step.name for step in steps)}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # which ends the step that is running, too
    chosen = [step for step in steps if not told.only or step.name in told.only]
    return 1 if run_all(chosen, told.out, told.budget) else 0


if __name__ == "__main__":
    sys.exit(main())
