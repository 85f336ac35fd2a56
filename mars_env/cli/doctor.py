"""`mars-env doctor`: what is installed, what is missing, and how to install it."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

from rich.table import Table
from rich.text import Text

from mars_env import __version__, sandbox
from mars_env.cli.screen import Screen, say
from mars_env.errors import SandboxError
from mars_env.sync import run_sync

PARTS = {
    "hf": ("models in this process, the local trainer", ("torch", "transformers", "safetensors")),
    "datasets": ("real problem sets, parquet files", ("datasets", "pyarrow")),
    "plots": ("training curves", ("matplotlib",)),
    "viewer": ("formulas and programs in the page of a run", ("latex2mathml", "pygments")),
    "math-verify": ("grades comparable with those of other harnesses", ("math_verify",)),
    "tensorboard": ("metrics", ("tensorboard",)),
    "lora": ("adapters in the local trainer", ("peft",)),
    "trl": ("training with TRL", ("trl", "datasets")),
    "judges": ("what programs may import, as contest judges offer it", sandbox.OFFERED),
    "treequest": ("its search policies", ("treequest",)),
    "verifiers": ("training with verifiers", ("verifiers",)),
    "mcp": ("tools of MCP servers", ("mcp",)),
    "trackio": ("metrics", ("trackio",)),
    "wandb": ("metrics", ("wandb",)),
    "ray": ("play on many machines", ("ray",)),
    "vllm": ("fast rollouts on GPUs", ("vllm",)),
    "openrlhf": ("training at scale", ("openrlhf",)),
}
"""What each extra is for, and the packages that it brings."""

APART = ("vllm", "openrlhf")  # they pin other versions of torch and transformers


def installed(package: str) -> str | None:
    """The installed version of a package."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def doctor() -> None:
    """Say what is installed and what is missing."""
    console = Screen()
    console.print(f"mars_env {__version__}, Python {platform.python_version()}, {os.cpu_count()} cores")
    table = Table("extra", "for", "packages", "state", title="Optional parts")
    lacking = []
    for extra, (purpose, packages) in PARTS.items():
        numbers = {package: installed(package) for package in packages}
        if None in numbers.values():
            lacking.append(extra)
        state = "missing" if extra in lacking else Text("ready", style="green")
        texts = ", ".join(f"{package} {number or '-'}" for package, number in numbers.items())
        table.add_row(extra, purpose, texts, state)
    console.print(table)
    if installable := [extra for extra in lacking if extra not in APART]:
        say(f"to add what is missing: pip install 'mars-env[{','.join(installable)}]'")
    if apart := [extra for extra in lacking if extra in APART]:
        say(f"in separate environments (docs/dependencies.md): {', '.join(apart)}")
    console.print(f"device: {_device()}")
    sandboxes = Table("sandbox", "works", "without", title="Where programs can be run, best first")
    for probe in run_sync(sandbox.probe_all()):
        lacks = ", ".join(sorted(map(str, probe.missing))) or "nothing missing"
        works = Text("yes", style="green") if probe.works else f"no: {probe.why}"
        sandboxes.add_row(probe.name, works, lacks)
    console.print(sandboxes)
    console.print(f"programs may import: {_importable()}")


def _importable() -> str:
    try:
        numbers = run_sync(sandbox.importable())
    except SandboxError:
        return "nothing, since no sandbox works here"
    named = ", ".join(f"{name} {number}" for name, number in numbers.items())
    return f"the standard library{named and ', '}{named}"


def _device() -> str:
    if find_spec("torch") is None:
        return "none (torch is not installed)"
    import torch  # only here: it takes seconds

    if torch.cuda.is_available():
        return str(torch.cuda.get_device_name(0))
    return f"CPU, {torch.get_num_threads()} torch threads"
