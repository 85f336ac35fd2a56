"""In an environment made by ``make``, a test that lacks what ``make`` installs fails; it is not skipped."""

import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest

MADE = (Path(sys.prefix) / "installed").exists()
"""Whether this environment was made by ``make``, which installs the extra ``dev`` and bubblewrap."""


def needed(module: str, extra: str) -> ModuleType:
    """Import a module that ``make`` installs; skip in another environment without it.

    Raises:
        ModuleNotFoundError: It is missing although ``make`` made this environment.
    """
    if MADE:
        return importlib.import_module(module)
    found: ModuleType = pytest.importorskip(module, reason=f"{module} comes with the extra {extra}")
    return found
