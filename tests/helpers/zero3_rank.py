"""One rank of DeepSpeed's ZeRO-3: makes updates of a small model, and counts the gathers of its weights.

Started by tests/engines/test_zero3_gathers.py, once for each rank, with torch.distributed's variables.
"""

import json
import os
import sys

import deepspeed
import torch
import torch.distributed
from deepspeed.comm.torch import TorchBackend
from openrlhf.utils.deepspeed.deepspeed_utils import get_train_ds_config
from transformers import Qwen3Config, Qwen3ForCausalLM

LAYERS, WIDTH = 6, 64


def config(layer):
    """OpenRLHF's, with limits in the relation to a layer that they have to a layer of a 30 B model."""
    made = get_train_ds_config(offload=False, adam_offload=False, stage=3, param_dtype="fp32", zpg=1)
    made["zero_optimization"] |= {
        "stage3_max_live_parameters": int(1.6 * layer),
        "stage3_max_reuse_distance": int(1.6 * layer),
        "stage3_param_persistence_threshold": 0,
        "stage3_prefetch_bucket_size": layer // 10,
        "reduce_bucket_size": layer,
        "sub_group_size": 10**9,
    }
    made |= {"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 10**6}
    made["optimizer"] = {"type": "AdamW", "params": {"lr": 1e-3, "torch_adam": True}}
    return made


def counted(gather, sizes):
    """The same gather; `sizes` gets the elements of each."""

    def gathered(self, output_tensor, *args, **kwargs):
        sizes.append(output_tensor.numel())
        return gather(self, output_tensor, *args, **kwargs)

    return gathered


def main():
    """Take the passes of each update, and whether layers are recomputed; print gathers of all weights."""
    asked = json.loads(sys.argv[1])
    torch.set_num_threads(1)
    torch.manual_seed(0)
    deepspeed.init_distributed("gloo")
    model = Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=64,
            hidden_size=WIDTH,
            intermediate_size=4 * WIDTH,
            num_hidden_layers=LAYERS,
            num_attention_heads=4,
            num_key_value_heads=4,
            head_dim=16,
            attn_implementation="eager",
        )
    )
    if asked["recompute"]:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    sizes = [sum(p.numel() for p in layer.parameters()) for layer in model.model.layers]
    engine, *_ = deepspeed.initialize(
        model=model, model_parameters=model.parameters(), config=config(sizes[0])
    )
    engine.train()
    gathered = []
    TorchBackend.all_gather_into_tensor = counted(TorchBackend.all_gather_into_tensor, gathered)
    found = []
    for passes in asked["updates"]:
        gathered.clear()
        for number in range(passes):
            engine.set_gradient_accumulation_boundary(number == passes - 1)
            ids = torch.randint(64, (1, 12))
            engine.backward(engine(input_ids=ids, labels=ids, use_cache=False).loss)
            engine.step()
        found.append(sum(gathered) / sum(p.ds_numel for p in model.parameters()))
    if os.environ["RANK"] == "0":
        sys.stdout.write(json.dumps(found) + "\n")
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
