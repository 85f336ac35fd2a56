"""Installed packages that programs may import: those that judges of programming contests offer.

A bare interpreter has only the standard library; LeetCode adds ``sortedcontainers`` and ``numpy``, AtCoder
adds more. Programs see, read-only, those of `OFFERED` that are installed where the library runs, and no other
installed packages. ``pip install 'mars-env[judges]'`` installs all of them.
"""

from __future__ import annotations

import functools
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

OFFERED = ("mpmath", "networkx", "numpy", "scipy", "sortedcontainers", "sympy")
"""What programs may import if it is installed. Each depends only on others in this list."""


@functools.cache
def package_folder(name: str) -> str | None:
    """The folder of an installed package; None if it is not installed.

    Example:
        >>> package_folder("numpy").endswith("numpy"), package_folder("no such package")
        (True, None)
    """
    try:
        folder = Path(str(distribution(name).locate_file(name))).resolve()
    except PackageNotFoundError:
        return None
    return str(folder) if (folder / "__init__.py").is_file() else None


def folders_of(names: tuple[str, ...]) -> dict[str, str]:
    """The folders of those packages that are installed, by name; ``name.libs`` is that of its libraries.

    Example:
        >>> sorted(folders_of(("numpy", "no such package")))[0]
        'numpy'
    """
    found: dict[str, str] = {}
    for name in names:
        folder = package_folder(name)
        if folder is not None:
            found[name] = folder
            if Path(f"{folder}.libs").is_dir():
                found[f"{name}.libs"] = f"{folder}.libs"
    return found
