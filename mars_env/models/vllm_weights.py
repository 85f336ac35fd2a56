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

    def weight_checksums(self) -> dict[str, tuple[str, list[int], int]]:
        """The type, shape and checksum of each of `readable_tensors`, as plain data."""
        sums = importlib.import_module("mars_env.models.checksums").checksums
        tensors = readable_tensors(self.model_runner.get_model())
        return {name: (dtype, [*shape], value) for name, (dtype, shape, value) in sums(tensors).items()}

    def pack_reloaded_experts(self) -> None:
        """From now on, reloaded experts are packed, too.

        Kernels for CPUs read the weights of experts in a packed order. vLLM 0.32 packs them when the model is
        loaded and not when its weights are reloaded: the experts would then compute with shuffled weights.
        """
        methods = importlib.import_module("vllm.model_executor.layers.fused_moe.unquantized_fused_moe_method")
        method = methods.UnquantizedFusedMoEMethod
        method._setup_kernel = _packing(method._setup_kernel)


def _packing(setup: Any) -> Any:
    """The method of vLLM with the step that it leaves out."""

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


EXTENSION = f"mars_env.models.vllm_worker.{WorkerExtension.__name__}"
LOAD_SHARED = WorkerExtension.load_shared_weights.__name__
WEIGHT_CHECKSUMS = WorkerExtension.weight_checksums.__name__
PACK_RELOADED = WorkerExtension.pack_reloaded_experts.__name__


def readable_tensors(model: Any) -> dict[str, Any]:
    """The parameters of one of vLLM's models by their names in a checkpoint, in its layout.

    Fused ones (``qkv_proj``) are taken apart, and rows that pad the vocabulary left out, and so are
    parameters that are packed for a kernel, quantised or divided between workers.
    """
    fused = getattr(model, "packed_modules_mapping", {})
    tensors: dict[str, Any] = {}
    for name, parameter in model.named_parameters():
        path, _, leaf = name.rpartition(".")
        module, (parent, dot, last) = model.get_submodule(path), path.rpartition(".")
        if not _is_plain(module, parameter):
            continue
        parts, sizes = fused.get(last, ()), getattr(module, "output_partition_sizes", ())
        if parts and len(parts) == len(sizes):
            pieces = zip(parts, parameter.split(list(sizes)), strict=True)
            tensors |= {f"{parent}{dot}{module_name}.{leaf}": piece for module_name, piece in pieces}
        else:
            tensors[name] = parameter[: getattr(module, "org_vocab_size", None)]
    return tensors


def _is_plain(module: Any, parameter: Any) -> bool:
    """Whether a layer of vLLM's computes with this very parameter, whole and as it was loaded."""
    packed = hasattr(module, "cpu_linear") or getattr(module, "tp_size", 1) > 1
    return not packed and str(parameter.dtype) in ("torch.float32", "torch.bfloat16", "torch.float16")


@contextmanager
def shared(tensors: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Tensors in memory that other processes of this user can map: arguments of `load_shared_weights`.

    Unlike a file in ``/dev/shm`` it has no limit, and no name that could outlive the process.
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
    """The tensors of a whole state dict, each once; a `ConfigError` if parameters are missing.

    vLLM would keep the old weights there, and say so only in its log.
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
