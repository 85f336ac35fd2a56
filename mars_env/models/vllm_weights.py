"""How weights reach vLLM's workers: through memory that both processes map, without a file."""

import importlib
import math
import mmap
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mars_env.errors import ConfigError

_ALIGNED = 64
"""Every tensor begins at a multiple of so many bytes."""


class WorkerExtension:
    """What `VLLMModel` adds to vLLM's workers: for vLLM's engine argument ``worker_extension_cls``."""

    model_runner: Any

    def load_shared_weights(self, path: str, layout: Sequence[tuple[str, str, Sequence[int], int]]) -> None:
        """Reload the weights in place, from what `shared` wrote."""
        torch = importlib.import_module("torch")
        with Path(path).open("rb") as file:
            memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)

        def tensor(dtype: str, shape: Sequence[int], offset: int) -> Any:
            flat = torch.frombuffer(
                memory, dtype=getattr(torch, dtype), count=math.prod(shape), offset=offset
            )
            return flat.view(*shape)

        weights = ((name, tensor(dtype, shape, offset)) for name, dtype, shape, offset in layout)
        self.model_runner.reload_weights(weights_iterator=weights)

    def pack_reloaded_experts(self) -> None:
        """From now on, reloaded experts are packed, too.

        Kernels for CPUs read the weights of experts in a packed order. vLLM 0.32 packs them when the model is
        loaded and not when its weights are reloaded: the experts would then compute with shuffled weights.
        """
        methods = importlib.import_module("vllm.model_executor.layers.fused_moe.unquantized_fused_moe_method")
        method = methods.UnquantizedFusedMoEMethod
        method._setup_kernel = _packing(method._setup_kernel)


def _packing(setup: Any) -> Any:
    """The method of vLLM that puts the weights into the kernel's order, with the step it leaves out."""

    def setup_kernel(self: Any, layer: Any, w13: Any, w2: Any) -> None:
        if self.moe_kernel is None:  # the first load, which is complete
            setup(self, layer, w13, w2)
            return
        packed: list[None] = []
        experts = self.moe_kernel.fused_experts
        pack = experts.process_weights_after_loading
        experts.process_weights_after_loading = lambda layer: packed.append(pack(layer))
        try:
            setup(self, layer, w13, w2)
        finally:
            del experts.process_weights_after_loading
        if not packed:
            pack(layer)

    return setup_kernel


EXTENSION = f"{__name__}.{WorkerExtension.__name__}"
LOAD_SHARED = WorkerExtension.load_shared_weights.__name__
PACK_RELOADED = WorkerExtension.pack_reloaded_experts.__name__


@contextmanager
def shared(tensors: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Tensors in memory that other processes of this user can map: arguments of `load_shared_weights`.

    The memory has no name that could outlive the process, and no limit such as that of ``/dev/shm``.
    """
    torch = importlib.import_module("torch")
    layout, size = [], 0
    for name, tensor in tensors.items():
        layout.append((name, str(tensor.dtype).removeprefix("torch."), list(tensor.shape), size))
        size += -(-tensor.numel() * tensor.element_size() // _ALIGNED) * _ALIGNED
    handle = os.memfd_create("mars-env-weights")
    try:
        os.ftruncate(handle, size)
        memory = mmap.mmap(handle, size)
        for tensor, (*_, offset) in zip(tensors.values(), layout, strict=True):
            room = torch.frombuffer(memory, dtype=tensor.dtype, count=tensor.numel(), offset=offset)
            room.copy_(tensor.detach().flatten())
        yield {"path": f"/proc/{os.getpid()}/fd/{handle}", "layout": layout}
    finally:
        os.close(handle)


def complete_weights(state: Mapping[str, Any], config: Any) -> dict[str, Any]:
    """The tensors of a whole state dict, each once.

    vLLM would keep the old weights where new ones are missing, and say so only in its log.

    Raises:
        ConfigError: Parameters are missing.
    """
    import torch
    from transformers import AutoModelForCausalLM

    with torch.device("meta"):
        needed = set(AutoModelForCausalLM.from_config(config).state_dict())
    if missing := sorted(needed - {*state}):
        lacks = f"{len(missing)} of the model's {len(needed)} parameters are missing, {missing[0]} for one"
        raise ConfigError(f"{lacks}: give the whole state dict, adapters merged")
    once: dict[tuple[int, Any], Any] = {}
    tensors = {}
    for name in sorted(needed, key=lambda name: "lm_head" in name):  # one that shares the input's is left out
        tensor = state[name]
        if once.setdefault((tensor.data_ptr(), tensor.shape), name) == name:
            tensors[name] = tensor
    return tensors
