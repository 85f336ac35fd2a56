"""Installed packages that programs may import: those that judges of programming contests offer."""

import functools
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

OFFERED = ("mpmath", "networkx", "numpy", "scipy", "sortedcontainers", "sympy")
"""What programs may import if it is installed (extra ``judges``); each depends on others of these alone."""


@functools.cache
def folders_of(names: tuple[str, ...]) -> dict[str, str]:
    """The folders of those packages that are installed, by name; ``name.libs`` is that of its libraries."""
    folders: dict[str, str] = {}
    for name in names:
        try:
            folder = Path(str(distribution(name).locate_file(name))).resolve()
        except PackageNotFoundError:
            continue
        if (folder / "__init__.py").is_file():
            folders[name] = str(folder)
            if Path(f"{folder}.libs").is_dir():
                folders[f"{name}.libs"] = f"{folder}.libs"
    return folders
