"""`mars-env doctor`: what is installed, what is missing, and how to install it."""

from __future__ import annotations

import os
import platform
from importlib.util import find_spec

from rich.table import Table
from rich.text import Text

from mars_env import __version__, sandbox
from mars_env.cli.screen import Screen, say
from mars_env.errors import SandboxError
from mars_env.sync import run_sync
from mars_env.trainers.openrlhf.versions import installed

PARTS = {
    "hf": ("torch", "transformers", "safetensors"),
    "datasets": ("datasets", "pyarrow"),
    "plots": ("matplotlib",),
    "viewer": ("latex2mathml", "pygments"),
    "math-verify": ("math_verify",),
    "tensorboard": ("tensorboard",),
    "lora": ("peft",),
    "trl": ("trl", "datasets"),
    "judges": sandbox.OFFERED,
    "treequest": ("treequest",),
    "verifiers": ("verifiers",),
    "trackio": ("trackio",),
    "wandb": ("wandb",),
    "ray": ("ray",),
    "vllm": ("vllm",),
    "openrlhf": ("openrlhf",),
}
"""Optional packages by the extra that brings them."""

APART = ("vllm", "openrlhf")
"""Extras that pin other versions of torch and transformers."""

PURPOSES = {
    "hf": "models in this process, the local trainer, the miniature",
    "datasets": "real problem sets, parquet files",
    "plots": "training curves",
    "viewer": "formulas and programs in the page of a run",
    "math-verify": "grades comparable with those of other harnesses",
    "tensorboard": "metrics",
    "lora": "adapters in the local trainer",
    "trl": "training with TRL",
    "judges": "what programs may import, as contest judges offer it",
    "treequest": "its search policies",
    "verifiers": "training with verifiers",
    "trackio": "metrics",
    "wandb": "metrics",
    "ray": "play on many machines",
    "vllm": "fast rollouts on GPUs",
    "openrlhf": "training at scale",
}


def doctor() -> None:
    """Say what is installed and what is missing."""
    console = Screen()
    console.print(f"mars_env {__version__}, Python {platform.python_version()}, {os.cpu_count()} cores")
    table = Table("extra", "for", "packages", "state", title="Optional parts")
    lacking = []
    for extra, packages in PARTS.items():
        found = {package: installed(package) for package in packages}
        if None in found.values():
            lacking.append(extra)
        state = "missing" if extra in lacking else Text("ready", style="green")
        shown = ", ".join(f"{package} {number or '-'}" for package, number in found.items())
        table.add_row(extra, PURPOSES[extra], shown, state)
    console.print(table)
    if together := [extra for extra in lacking if extra not in APART]:
        say(f"to add what is missing: pip install 'mars-env[{','.join(together)}]'")
    if apart := [extra for extra in lacking if extra in APART]:
        say(f"in environments of their own (docs/dependencies.md): {', '.join(apart)}")
    console.print(f"device: {_device()}")
    sandboxes = Table("sandbox", "works", "without", title="Where programs can be run, best first")
    probes = run_sync(sandbox.doctor())
    working = [probe.name for probe in probes if probe.works]
    for probe in probes:
        lacks = ", ".join(sorted(map(str, probe.missing))) or "nothing missing"
        sandboxes.add_row(
            probe.name, Text("yes", style="green") if probe.works else f"no: {probe.why}", lacks
        )
    console.print(sandboxes)
    if working:
        console.print(_limits(working))
    console.print(f"programs may import: {_importable()}")


def _limits(working: list[str]) -> Table:
    """What enforces each limit in the sandboxes that work."""
    held = {name: sandbox.held_here(name) for name in working}
    table = Table(
        "limit of a program", *held, title="What enforces limits here (docs/sandbox.md explains the words)"
    )
    for limit in next(iter(held.values())):
        ways = [column[limit] for column in held.values()]
        shown = [Text(str(way), style="yellow" if way is sandbox.How.SHARED else "") for way in ways]
        table.add_row(limit, *shown)
    return table


def _importable() -> str:
    """What programs may import in the best sandbox, with versions."""
    try:
        found = run_sync(sandbox.importable())
    except SandboxError:
        return "nothing, since no sandbox works here"
    named = ", ".join(f"{name} {number}" for name, number in found.items())
    return f"the standard library{named and ', '}{named}"


def _device() -> str:
    """The device that models in this process would use."""
    if find_spec("torch") is None:
        return "none (torch is not installed)"
    import torch  # only here: it takes seconds

    if torch.cuda.is_available():
        return str(torch.cuda.get_device_name(0))
    return f"CPU, {torch.get_num_threads()} torch threads"
