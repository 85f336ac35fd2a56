"""How much memory a training takes, estimated from a model's sizes before anything starts; needs no torch.

Good enough to choose settings, but not to the last gigabytes: allocators lose some memory to fragments, and a
GPU's libraries take about a GiB. AdamW in mixed precision keeps 2 bytes a parameter of weights, 2 of
gradients and 12 of optimizer (ZeRO, arXiv 1910.02054, section 3.1); in float32 4, 4 and 8.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from mars_env.trainers.architecture import Architecture
from mars_env.trainers.config import TrainConfig

GIB: Final = 2**30


@dataclass(frozen=True, slots=True)
class Memory:
    """What one device holds, in bytes by part, and what belongs to it in the host's memory.

    `cache_tokens` fit into the cache of one engine, below 0 where its weights do not fit; None without one.
    """

    rollout: Mapping[str, float]
    training: Mapping[str, float]
    host: float = 0.0
    cache_tokens: int | None = None

    @property
    def peak(self) -> float:
        """Bytes of the device at the fuller of both times."""
        return max(sum(self.rollout.values()), sum(self.training.values()))

    def describe(self, room: float) -> list[str]:
        """Lines for people to read: each part in GiB, and what is missing of `room` bytes."""
        lines = []
        for name, parts in (("rollout", self.rollout), ("training", self.training)):
            listed = ", ".join(f"{part} {size / GIB:.1f}" for part, size in parts.items() if size >= GIB / 20)
            lines.append(f"{name:<8} {sum(parts.values()) / GIB:6.1f} GiB  {listed}".rstrip())
        verdict = f"{self.peak / GIB:.1f} of {room / GIB:g} GiB"
        if self.peak > room:
            verdict += f": IT DOES NOT FIT, {(self.peak - room) / GIB:,.1f} GiB are missing"
        lines.append(f"at most  {verdict}")
        if self.host:
            lines.append(f"host     {self.host / GIB:6.1f} GiB")
        return lines


@dataclass(frozen=True, slots=True)
class Shape:
    """The rows of a micro-batch: how many tokens are read and sampled, and how many rows sample at once."""

    prompt: int
    sampled: int
    rows: int = 8


def activations(
    model: Architecture, tokens: float, *, checkpointing: bool, itemsize: int = 2, autocast: bool = False
) -> float:
    """Bytes of activations that a backward pass over a micro-batch of so many tokens needs on one device.

    Weights have `itemsize` bytes; with `autocast` those of 4 bytes compute in 2.
    """
    layer = model.layer_bytes(itemsize, autocast=autocast)
    if checkpointing:  # each layer's input, and one layer in full
        return tokens * (itemsize * model.hidden * model.layers + layer)
    return tokens * layer * model.layers


def estimate(
    model: Architecture, train: TrainConfig, shape: Shape, *, adapter_rank: int | None = None
) -> Memory:
    """The memory of a policy that is trained in this process, and samples there too.

    With `adapter_rank` adapters of all matrices are trained in place of the weights, which then have the
    checkpoint's own type.

    Example:
        >>> from mars_env.trainers.architecture import PRESETS
        >>> memory = estimate(PRESETS["Qwen/Qwen3-0.6B"], TrainConfig(), Shape(512, 512))
        >>> round(memory.training["optimizer"] / GIB, 1)
        4.4
    """
    itemsize = 2 if train.offload else 4
    trained = model.parameters
    added = 0
    if adapter_rank is not None:
        itemsize = model.itemsize
        widths = model.linear_layers().values()
        trained = added = adapter_rank * model.layers * sum(map(sum, widths))
    weights = itemsize * model.parameters + 4.0 * added
    length = shape.prompt + shape.sampled
    rows = max(1, min(shape.rows, train.token_budget // length))
    update = {
        "activations": activations(
            model,
            rows * length,
            checkpointing=train.gradient_checkpointing,
            itemsize=itemsize,
            autocast=train.autocast,
        ),
        "logits": _logits(model, train, rows * shape.sampled, itemsize),
        "gradients": 4.0 * added if adapter_rank is not None else _gradients(model, train, itemsize),
    }
    if train.autocast and itemsize == 4 and not train.gradient_checkpointing:
        update["weights in 16 bits"] = 2.0 * model.parameters
    held = {"weights": weights}
    if not train.offload:
        held["optimizer"] = 8.0 * trained
    if train.kl_coefficient and adapter_rank is None:
        held["reference"] = weights
    cache = shape.rows * length * model.kv_bytes() * itemsize / 2
    return Memory(held | {"keys and values": cache}, held | update, 16.0 * trained * train.offload)


def _logits(model: Architecture, train: TrainConfig, sampled: int, itemsize: int) -> float:
    """Four copies in float32 of the logits that are there at once; and the output layer, if it is shorter."""
    size = model.vocabulary * model.hidden
    copies = 0.0 if itemsize == 4 else 4.0 * size
    return 16.0 * min(sampled * model.vocabulary, max(train.most_logits, model.vocabulary)) + copies


def _gradients(model: Architecture, train: TrainConfig, itemsize: int) -> float:
    """Gradients, and new ones of the output layer before they are added; tied layers give two, and a sum."""
    new = itemsize * model.vocabulary * model.hidden * (3 if model.tied else 1)
    return new if train.offload else new + 4.0 * model.parameters
