"""OpenRLHF's arguments, as far as mars_env reads them before a run starts."""

from copy import deepcopy
from types import SimpleNamespace as S

BASE = S(
    actor=S(
        num_nodes=1, num_gpus_per_node=8, gradient_checkpointing_enable=True,
        model_name_or_path="Qwen/Qwen3-8B", policy_loss_type="ppo",
    ),
    ref=S(num_nodes=1, num_gpus_per_node=8, offload=False),
    vllm=S(num_engines=8, tensor_parallel_size=1, gpu_memory_utilization=0.5, enable_sleep=False),
    train=S(
        colocate_all=False, colocate_actor_ref=False, async_enable=False, dynamic_batch_enable=False,
        micro_batch_size=1, max_tokens_per_gpu=16192, enable_ema=False, async_queue_size=1, batch_size=64,
    ),
    rollout=S(micro_batch_size=2, top_p=1.0, temperature=1.0, max_new_tokens=64),
    algo=S(
        kl=S(init_coef=0.0, use_loss=False),
        advantage=S(estimator="reinforce"),
    ),
    ds=S(
        zero_stage=2, adam_offload=False, tensor_parallel_size=1, grad_accum_dtype=None, ring_attn_size=1,
        attn_implementation="flash_attention_2", enable_sleep=False, lora=S(rank=0),
    ),
    data=S(max_len=1000),
)  # fmt: skip


def arguments(**changes):
    """The base with some fields replaced: ``ds__zero_stage=3``."""
    args = deepcopy(BASE)
    for name, value in changes.items():
        *path, last = name.split("__")
        place = args
        for step in path:
            place = getattr(place, step)
        assert hasattr(place, last)
        setattr(place, last, value)
    return args
