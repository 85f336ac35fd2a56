"""A policy: the weights that are trained, with their optimiser and their count of updates."""

from dataclasses import dataclass, field
from typing import Any

from mars_env.lazy import needs

with needs("hf", "the local trainer needs torch and transformers"):
    import torch

    from mars_env.trainers.optimiser import Optimiser


@dataclass(slots=True, eq=False)
class Policy:
    """Weights that are trained, and their optimiser. Turns name it in `Turn.policy`.

    Args:
        model: A causal language model of transformers, float32 (see `TrainConfig.offload`), on the device
            where it is trained; perhaps the module from which an `HFModel` samples.
        tokenizer: Is saved in its checkpoints.
        reference: A frozen model for the KL term and for preferences. A resumed run needs the same one.

    Attributes:
        version: Number of steps that have changed the weights.
        updates: Number of optimiser updates.
        skipped: Number of the last updates, in a row, that were not finite and left out.
        shares: Whether tokens that rows share are computed once, see `TrainConfig.shared_prefixes`.
    """

    model: Any
    tokenizer: Any = None
    reference: Any = None
    version: int = field(default=0, init=False)
    updates: int = field(default=0, init=False)
    skipped: int = field(default=0, init=False)
    shares: bool = field(default=False, init=False)
    optimiser: Optimiser = field(init=False, repr=False)

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return next(self.model.parameters()).device
