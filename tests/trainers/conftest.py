"""The toy run of toy_training.py, which is also a script, for the tests of this folder."""

from __future__ import annotations

from types import ModuleType

import pytest
import torch
import toy_training


@pytest.fixture
def toy() -> ModuleType:
    """The module toy_training, with one thread for torch (two under contention are many times slower)."""
    torch.set_num_threads(1)
    return toy_training
