"""How much memory a training takes, before it starts: the update itself is run on tensors without values.

An estimate: allocators lose some memory to fragments, and a GPU's libraries take about a GiB.
"""

import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from transformers import AutoModelForCausalLM, PreTrainedConfig

from mars_env.errors import ConfigError, explained
from mars_env.models.hf import require_cache
from mars_env.trainers.checkpoints import trained_parameters
from mars_env.trainers.config import TrainConfig
from mars_env.trainers.forward import logprobs_at, training
from mars_env.trainers.lora import LoRASettings, linear_layers

GIB: Final = 2**30


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes that one policy takes.

    Attributes:
        parameters: How many its model has.
        weights: Its weights.
        optimiser: AdamW's moments on the device.
        update: Gradients and what a pass through the model keeps, at the most.
        reference: Weights of a reference model.
        cache: Keys and values of a sampler in this process, which is idle in an update.
        host: In the host's memory, with `TrainConfig.offload`.
    """

    parameters: int
    weights: int
    optimiser: int
    update: int
    reference: int
    cache: int
    host: int

    @property
    def peak(self) -> int:
        """Bytes on the device at the fuller of both times."""
        return self.weights + self.optimiser + self.reference + max(self.update, self.cache)


@dataclass(frozen=True, slots=True)
class Shape:
    """The rows of a micro-batch: how many tokens are read and sampled, and how many rows sample at once."""

    prompt: int
    sampled: int
    rows: int = 8


class _Peak(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """The most bytes of tensors that were alive at once, of those made in here."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.most: int = 0
        self.now: int = 0
        self._known: set[int] = set()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        made = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(made):
            if isinstance(leaf, torch.Tensor):
                self._count(leaf.untyped_storage())
        return made

    def _count(self, storage: torch.UntypedStorage) -> None:
        key, size = storage._cdata, storage.nbytes()
        if key in self._known:
            return
        self._known.add(key)
        self.now += size
        self.most = max(self.most, self.now)
        weakref.finalize(storage, partial(self._freed, key, size))

    def _freed(self, key: int, size: int) -> None:
        self._known.discard(key)
        self.now -= size


def estimate(
    config: PreTrainedConfig, train: TrainConfig, shape: Shape, *, lora: LoRASettings | None = None
) -> Memory:
    """The memory of a policy with this architecture (an ``AutoConfig``), trained in this process.

    With `lora` adapters are trained in place of the weights, which then have the checkpoint's own type. A
    `ConfigError` if its layers cannot be run without values, as experts in float32 cannot, or if `HFModel`
    cannot sample from it.
    """
    short = torch.bfloat16 if train.offload else torch.float32
    dtype = (config.dtype or torch.float32) if lora else short
    length = shape.prompt + shape.sampled
    rows = max(1, min(shape.rows, train.token_budget // length))
    cannot = explained(ConfigError, f"the memory of {config.model_type} cannot be estimated", RuntimeError)
    with cannot, FakeTensorMode():
        model: Any = AutoModelForCausalLM.from_config(config, dtype=dtype).eval()
        require_cache(model, config.model_type)
        weights = sum(p.nbytes for p in model.parameters())
        parameters = sum(p.numel() for p in model.parameters())
        trained: list[torch.Tensor] = [*trained_parameters(model).values()]
        own = sum(p.numel() for p in trained)
        if lora is not None:
            trained = _adapted(model, lora)
            own = sum(lora.rank * sum(p.shape) for p in trained)
        if train.gradient_checkpointing:
            model.gradient_checkpointing_enable({"use_reentrant": False})
        if train.offload or lora is not None:
            for parameter in trained:
                parameter.register_post_accumulate_grad_hook(_dropped)  # type: ignore[no-untyped-call]
        update = _peak_of_updates(model, train, rows, shape) + (4 * own if lora is not None else 0)
    text = config.get_text_config(decoder=True)
    heads = getattr(text, "num_key_value_heads", None) or text.num_attention_heads
    width = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
    cache = 2 * text.num_hidden_layers * heads * width * shape.rows * length * dtype.itemsize
    added = 0 if lora is None else 4 * own
    return Memory(
        parameters=parameters,
        weights=weights + added,
        optimiser=0 if train.offload else 8 * own,
        update=update,
        reference=weights if train.kl_coefficient and lora is None else 0,
        cache=cache,
        host=16 * own if train.offload else 0,
    )


def _adapted(model: Any, lora: LoRASettings) -> list[torch.Tensor]:
    """The matrices that get adapters: these keep what gradients of the matrices would; others are frozen."""
    found: list[torch.Tensor] = [
        layer.weight
        for name, layer in linear_layers(model).items()
        if lora.targets is None or name.rpartition(".")[2] in lora.targets
    ]
    model.requires_grad_(False)
    for parameter in found:
        parameter.requires_grad_(True)
    return found


def _dropped(parameter: torch.Tensor) -> None:
    parameter.grad = None


def _peak_of_updates(model: Any, train: TrainConfig, rows: int, shape: Shape) -> int:
    """The most bytes of two micro-batches: the second one has the first one's gradients."""
    length, count = shape.prompt + shape.sampled - 1, rows * shape.sampled
    ids, tokens = torch.zeros(rows, length, dtype=torch.long), torch.zeros(count, dtype=torch.long)
    read = (torch.zeros(count, dtype=torch.long), torch.zeros(count, dtype=torch.long))
    peak = _Peak()
    with training(model, shared=False), peak:
        for _ in range(2):
            logp, entropy = logprobs_at(model, ids, read, tokens, torch.ones(count), train)
            logp.sum().backward()  # type: ignore[no-untyped-call]
            del logp, entropy
    return peak.most


def described(memory: Memory, room: float) -> str:
    """A table of the parts in GiB, and whether they fit into so many bytes."""
    parts = {
        "weights": memory.weights,
        "optimiser": memory.optimiser,
        "reference": memory.reference,
        "update: gradients, activations, logits": memory.update,
        "sampling: keys and values": memory.cache,
    }
    lines = [f"  {name:40} {size / GIB:8.2f} GiB" for name, size in parts.items() if size]
    fits = "fits into" if memory.peak <= room else "does not fit into"
    lines.append(f"  {'peak':40} {memory.peak / GIB:8.2f} GiB, {fits} {room / GIB:g} GiB")
    if memory.host:
        lines.append(f"  {'in the memory of the host':40} {memory.host / GIB:8.2f} GiB")
    return "\n".join([f"{memory.parameters / 1e6:,.1f} million parameters, estimated:", *lines])
