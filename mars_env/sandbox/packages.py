"""Installed packages that programs may import: what judges of programming contests offer.

A bare interpreter has the standard library alone; LeetCode adds ``sortedcontainers`` and ``numpy``, AtCoder
more. Programs see those of `OFFERED` that are installed where the library runs, read-only, and nothing else
that lies beside them. ``pip install 'mars-env[judges]'`` brings all of them.
"""

from __future__ import annotations

import functools
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

OFFERED = ("mpmath", "networkx", "numpy", "scipy", "sortedcontainers", "sympy")
"""What programs may import where it is installed. Each needs nothing but others of these."""


@functools.cache
def package_folder(name: str) -> str | None:
    """Where a package lies that is installed under its own name; None where there is none.

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
    """The folders of those packages that are installed, by name; with ``name.libs``, libraries that it loads.

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
