"""New weights for a mixture of experts in vLLM on CPUs."""

from __future__ import annotations

import importlib
from typing import Any


class PackedExperts:
    """What `VLLMModel` adds to vLLM's workers on CPUs.

    Kernels for CPUs read the weights of experts in a packed order. vLLM 0.32 packs them when the model is
    loaded and not when its weights are reloaded: after that, the experts would compute with shuffled weights,
    and nothing would say so.
    """

    def pack_reloaded_experts(self) -> None:
        """From now on, reloaded experts are packed, too."""
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


EXTENSION = f"{__name__}.{PackedExperts.__name__}"
"""For vLLM's engine argument ``worker_extension_cls``."""

PACK_RELOADED = PackedExperts.pack_reloaded_experts.__name__
"""For vLLM's `collective_rpc`, once an engine has started."""
