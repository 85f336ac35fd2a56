"""What OpenRLHF, DeepSpeed and vLLM ask of a GPU, done by the CPU. For tests alone."""

import importlib.abc
import importlib.util
import os
import sys
from datetime import timedelta

PATIENCE = timedelta(seconds=300)


class Device(str):
    """The CPU as a device: `tensor.to` takes it, and ``f"cuda:{device}"`` is a well-formed name."""

    def __format__(self, spec):
        return "0"


def torch_(torch):
    """Calls of torch.cuda that are not behind a check."""
    from torch.distributed import device_mesh

    device = Device("cpu")
    for name in ("set_device", "empty_cache", "synchronize", "current_stream"):
        setattr(torch.cuda, name, lambda *args, **kwargs: None)  # each its own: torch.compile asks for that
    torch.cuda.current_device = lambda: device
    make_mesh = device_mesh.init_device_mesh

    def init_device_mesh(device_type, *args, **kwargs):
        return make_mesh("cpu" if device_type == "cuda" else device_type, *args, **kwargs)

    device_mesh.init_device_mesh = torch.distributed.init_device_mesh = init_device_mesh


def fused_adam(module):
    """AdamW of torch in the place of the fused kernel, which would be compiled for a minute and a half."""
    import torch

    class FusedAdam(torch.optim.AdamW):
        def __init__(self, params, adam_w_mode=True, **options):
            assert adam_w_mode
            super().__init__(params, **options)

    module.FusedAdam = FusedAdam


def gloo(module):
    """Ranks of one machine talk by Gloo alone, and gathers end before they return.

    What is quicker would be compiled for a minute. DeepSpeed starts several gathers of weights and waits for
    the last one (`_allgather_params_coalesced`). NCCL's end in their order; Gloo's do not, and under load
    a rank computed with weights that had not arrived.
    """
    module.build_shm_op = lambda: None
    for name in ("all_gather", "all_gather_into_tensor"):
        setattr(module.TorchBackend, name, waited_for(getattr(module.TorchBackend, name)))


def waited_for(gather):
    """The same gather, but it has ended when it returns."""

    def gathered(*args, **kwargs):
        handle = gather(*args, **kwargs)
        if handle is not None:
            handle.wait()
        return handle

    return gathered


def weight_sync_group(module):
    """A Gloo group in the place of NCCL's, for the trainer and the engines' workers."""
    import torch.distributed as dist

    class Group:
        def __init__(self, rank, world_size, address, port):
            store = dist.TCPStore(address, port, world_size, rank == 0, timeout=PATIENCE)
            self.gloo = dist.ProcessGroupGloo(dist.PrefixStore("weights", store), rank, world_size, PATIENCE)

        def broadcast(self, tensor, src=0, stream=None):
            options = dist.BroadcastOptions()
            options.rootRank, options.rootTensor = src, 0
            self.gloo.broadcast([tensor], options).wait()

    def stateless_init_process_group(master_address, master_port, rank, world_size, device):
        return Group(rank, world_size, master_address, master_port)

    module.stateless_init_process_group = stateless_init_process_group


def engine_worker(module):
    """Weights are received on the CPU."""
    import torch

    def update_weight(self, name, dtype, shape, empty_cache=False):
        assert dtype == self.model_config.dtype
        weight = torch.empty(shape, dtype=dtype)
        self._model_update_group.broadcast(weight, src=0)
        self.model_runner.model.load_weights(weights=[(name, weight)])

    module.WorkerWrap.update_weight = update_weight


def vllm_gemm(module):
    """vLLM's kernels for CPUs repack weights, and cannot take new ones after that; the plain one can."""
    import torch

    def dispatch_cpu_unquantized_gemm(layer, remove_weight=False):
        layer.cpu_linear = torch.nn.functional.linear

    module.dispatch_cpu_unquantized_gemm = dispatch_cpu_unquantized_gemm


def vllm_experts(module):
    """The same for the experts of a mixture."""
    import torch

    linear, silu = torch.nn.functional.linear, torch.nn.functional.silu

    def process_weights_after_loading(self, layer):
        """Leave them as they were loaded."""

    def apply(self, output, hidden_states, w1, w2, topk_weights, topk_ids, *args, **kwargs):
        total = torch.zeros_like(hidden_states, dtype=torch.float32)
        for expert in topk_ids.unique().tolist():
            rows, places = torch.where(topk_ids == expert)
            gate, up = linear(hidden_states[rows], w1[expert]).chunk(2, -1)
            made = linear(silu(gate) * up, w2[expert])
            total.index_add_(0, rows, made.float() * topk_weights[rows, places, None])
        output.copy_(total)

    experts = module.CPUUnquantizedExperts
    experts.process_weights_after_loading, experts.apply = process_weights_after_loading, apply


def weights_in_float32(module):
    """OpenRLHF's trainer knows bfloat16 and float16 alone."""
    import torch

    module.convert_to_torch_dtype = lambda param_dtype: torch.float32


def deepspeed_in_float32(module):
    """DeepSpeed without bfloat16."""

    def changed(configure):
        def configured(*args, **kwargs):
            config = configure(*args, **kwargs)
            config["bf16"]["enabled"] = False
            return config

        return configured

    module.get_train_ds_config = changed(module.get_train_ds_config)
    module.get_eval_ds_config = changed(module.get_eval_ds_config)


def engines_in_float32(module):
    """OpenRLHF makes all engines with bfloat16."""
    check = module.EngineArgs.__post_init__

    def __post_init__(self):
        self.dtype = "float32"
        check(self)

    module.EngineArgs.__post_init__ = __post_init__


AFTER_IMPORT = {
    "torch": torch_,
    "deepspeed.ops.adam.fused_adam": fused_adam,
    "deepspeed.comm.torch": gloo,
    "openrlhf.utils.distributed_util": weight_sync_group,
    "openrlhf.trainer.ray.vllm_worker_wrap": engine_worker,
    "vllm.model_executor.layers.utils": vllm_gemm,
    "vllm.model_executor.layers.fused_moe.experts.cpu_moe": vllm_experts,
}

FLOAT32 = {
    "openrlhf.utils.utils": weights_in_float32,
    "openrlhf.utils.deepspeed.deepspeed_utils": deepspeed_in_float32,
    "vllm.engine.arg_utils": engines_in_float32,
}


class Loader(importlib.abc.Loader):
    """A module's own loader, followed by what changes the module."""

    def __init__(self, loader, change):
        self.loader, self.change = loader, change

    def create_module(self, spec):
        return self.loader.create_module(spec)

    def exec_module(self, module):
        self.loader.exec_module(module)
        self.change(module)

    def __getattr__(self, name):
        return getattr(self.loader, name)


class Finder(importlib.abc.MetaPathFinder):
    """Finds the modules of `AFTER_IMPORT` where they are."""

    def __init__(self):
        self.searching = set()

    def find_spec(self, name, path=None, target=None):
        if name not in AFTER_IMPORT or name in self.searching:
            return None
        self.searching.add(name)
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self.searching.discard(name)
        if spec is not None and spec.loader is not None:
            spec.loader = Loader(spec.loader, AFTER_IMPORT[name])
        return spec


def install():
    """Change what is imported from now on."""
    if os.environ.get("MARS_ENV_OPENRLHF_FLOAT32") == "1":
        AFTER_IMPORT.update(FLOAT32)
    sys.meta_path.insert(0, Finder())
