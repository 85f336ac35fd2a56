"""Placement and memory, against cases computed by hand."""

from dataclasses import replace

import pytest
from openrlhf_arguments import arguments

from mars_env.errors import ConfigError
from mars_env.trainers.architecture import PRESETS, Architecture
from mars_env.trainers.memory import GIB
from mars_env.trainers.openrlhf.planning.placement import OVERHEAD, fits, gpu_pools, memory

TINY = Architecture(0, 8, 3, 2, 2, 4, 16, vocabulary=10)
LAYER = TINY.layer_bytes()
QWEN = PRESETS["Qwen/Qwen3-8B"]


def pools(args, model=QWEN):
    """The memory of each pool, with GPUs of 80 GiB."""
    return [memory(args, model, 80 * GIB, pool) for pool in gpu_pools(args)]


ALL, REFERENCE = {"train__colocate_all": True}, {"algo__kl__init_coef": 0.1}


@pytest.mark.parametrize(
    ("changes", "pools"),
    [
        ({}, "8 actor; 8 engines"),
        ({**REFERENCE, "ref__num_gpus_per_node": 2}, "8 actor; 2 reference; 8 engines"),
        ({**REFERENCE, "train__colocate_actor_ref": True}, "8 actor, reference; 8 engines"),
        (ALL, "8 actor, engines"),
        ({**ALL, **REFERENCE}, "8 actor, reference, engines"),
        ({**ALL, **REFERENCE, "train__async_enable": True}, "8 actor, reference; 8 engines"),
        ({"vllm__num_engines": 4, "vllm__tensor_parallel_size": 4}, "8 actor; 16 engines"),
        ({"vllm__num_engines": 3, "actor__num_nodes": 2}, "16 actor; 3 engines"),
    ],
)
def test_placement_is_that_of_openrlhf(changes, pools):
    found = gpu_pools(arguments(**changes))
    assert "; ".join(f"{pool.gpus} {', '.join(pool.components)}" for pool in found) == pools


@pytest.mark.parametrize(
    "changes",
    [
        {"vllm__num_engines": None},
        {**ALL, "vllm__num_engines": 4},
        {**REFERENCE, "train__colocate_actor_ref": True, "ref__num_nodes": 2},
    ],
)
def test_impossible_placements_are_refused(changes):
    with pytest.raises(ConfigError):
        gpu_pools(arguments(**changes))


def test_the_three_stages_of_zero():
    """The table of arXiv 1910.02054, figure 1: 7.5e9 parameters on 64 GPUs, in 10^9 bytes."""
    whole = {"actor__num_nodes": 8, "actor__num_gpus_per_node": 8}
    model = replace(TINY, parameters=7_500_000_000)
    for stage, gigabytes in ((0, 120), (1, 31.4), (2, 16.6), (3, 1.9)):
        actor, _ = pools(arguments(ds__zero_stage=stage, **whole), model)
        states = sum(actor.training[part] for part in ("weights", "gradients", "optimizer"))
        assert states / 1e9 == pytest.approx(gigabytes, abs=0.05)
        assert actor.host == 0


DYNAMIC = {"train__dynamic_batch_enable": True, "train__max_tokens_per_gpu": 3000}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"train__micro_batch_size": 2}, {"activations": 2000 * (3 * 16 + LAYER), "logits": 2000 * 10 * 12}),
        ({"actor__gradient_checkpointing_enable": False}, {"activations": 1000 * 3 * LAYER}),
        ({**DYNAMIC, "ds__ring_attn_size": 4}, {"logits": 3000 * 120}),  # the number is one GPU's
        ({**DYNAMIC, "train__max_tokens_per_gpu": 300}, {"logits": 1000 * 120}),  # one sample is not cut
    ],
)
def test_activations_by_micro_batch(changes, expected):
    actor, _ = pools(arguments(**changes), TINY)
    assert actor.training.items() >= expected.items()


def test_an_engine_takes_its_share_and_no_more():
    _, engines = pools(arguments())
    assert sum(engines.rollout.values()) == OVERHEAD + 40 * GIB
    assert engines.cache_tokens == (36 * GIB - 2 * QWEN.parameters) // 147_456
    _, engines = pools(arguments(vllm__gpu_memory_utilization=0.15))
    assert engines.rollout["engine: cache and activations"] == 0
    assert engines.cache_tokens < 0


def test_a_cache_has_to_hold_one_sequence():
    args = arguments(data__max_len=40_960, vllm__gpu_memory_utilization=0.25)
    _, engines = pools(args)
    assert 0 < engines.cache_tokens < 40_960
    assert not fits(args, QWEN, 80 * GIB)
    assert fits(arguments(data__max_len=engines.cache_tokens), QWEN, 80 * GIB)
