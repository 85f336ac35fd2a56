"""The miniature: a transformer of 165 thousand parameters that plays solve-verify-correct on arithmetic."""

from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mars_env.models.hf import HFModel

CHECKPOINT: Final = Path(__file__).parent / "checkpoint"
"""The shipped checkpoint, as `studies.marsrl.warm_start` made it."""


def load(
    checkpoint: str | Path = CHECKPOINT, *, name: str = "miniature", context: int | None = None
) -> "HFModel":
    """A fresh copy of the miniature on the CPU, to sample from and to train; for `context` see `HFModel`."""
    from mars_env.models.hf import HFModel  # the path of the checkpoint is known without torch

    return HFModel(checkpoint, device="cpu", name=name, context=context)
