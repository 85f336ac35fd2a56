"""Placement and memory, against cases computed by hand."""

from __future__ import annotations

import pytest
from openrlhf_arguments import arguments

from mars_env.errors import ConfigError
from mars_env.trainers.openrlhf.planning.resources import (
    CONTEXT,
    GIB,
    LIVE_PARAMETERS,
    REDUCE_BUCKET,
    Pool,
    activations,
    actor_states,
    describe,
    engine,
    excess,
    loading,
    memory,
    placement,
)
from mars_env.trainers.openrlhf.planning.sizes import PRESETS, Architecture

TINY = Architecture(8, 3, 2, 2, 4, 16, vocabulary=10)


@pytest.mark.parametrize(
    ("changes", "pools"),
    [
        ({}, (Pool(8, ("actor",)), Pool(8, ("engines",)))),
        (
            {"algo__kl__init_coef": 0.1, "ref__num_gpus_per_node": 2},
            (Pool(8, ("actor",)), Pool(2, ("reference",)), Pool(8, ("engines",))),
        ),
        (
            {"algo__kl__init_coef": 0.1, "train__colocate_actor_ref": True, "vllm__num_engines": 3},
            (Pool(8, ("actor", "reference")), Pool(3, ("engines",))),
        ),
        ({"train__colocate_all": True}, (Pool(8, ("actor", "engines")),)),
        (
            {"train__colocate_all": True, "algo__kl__init_coef": 0.1},
            (Pool(8, ("actor", "reference", "engines")),),
        ),
        (
            {"train__colocate_all": True, "train__async_enable": True, "algo__kl__init_coef": 0.1},
            (Pool(8, ("actor", "reference")), Pool(8, ("engines",))),
        ),
        (
            {"vllm__num_engines": 4, "vllm__tensor_parallel_size": 4, "actor__num_nodes": 2},
            (Pool(16, ("actor",)), Pool(16, ("engines",))),
        ),
    ],
)
def test_placement_is_that_of_openrlhf(changes, pools):
    assert placement(arguments(**changes)) == pools


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"vllm__num_engines": None}, "rollouts need engines"),
        (
            {"train__colocate_all": True, "vllm__num_engines": 4},
            "must be the actor's 8: set --vllm.num_engines 8 --vllm.tensor_parallel_size 1",
        ),
        (
            {"train__colocate_actor_ref": True, "algo__kl__init_coef": 0.1, "ref__num_nodes": 2},
            "set --ref.num_nodes 1 --ref.num_gpus_per_node 8",
        ),
    ],
)
def test_impossible_placements_are_refused(changes, message):
    with pytest.raises(ConfigError, match=message):
        placement(arguments(**changes))


def test_the_three_stages_of_zero():
    """The table of arXiv 1910.02054, figure 1: 7.5e9 parameters on 64 GPUs, in 10^9 bytes."""
    whole = {"actor__num_nodes": 8, "actor__num_gpus_per_node": 8}
    for stage, gigabytes in ((0, 120), (1, 31.4), (2, 16.6), (3, 1.9)):
        states, host = actor_states(arguments(ds__zero_stage=stage, **whole), 7_500_000_000)
        states.pop("buffers")
        assert sum(states.values()) / 1e9 == pytest.approx(gigabytes, abs=0.05)
        assert host == 0


def test_buffers_are_bounded_by_the_model():
    assert actor_states(arguments(), 1000)[0]["buffers"] == 2000
    assert actor_states(arguments(), 10**10)[0]["buffers"] == 2 * REDUCE_BUCKET
    live = actor_states(arguments(ds__zero_stage=3), 10**10)[0]["buffers"]
    assert live == 2 * REDUCE_BUCKET + 2 * LIVE_PARAMETERS


def test_offload_moves_optimiser_and_gradients_to_the_host():
    states, host = actor_states(arguments(ds__adam_offload=True), 8_000)
    assert states == {"weights": 16_000, "buffers": 16_000}
    assert host == (2 + 12) * 8_000 / 8


def test_tensor_parallel_gradients_in_32_bits():
    states, _ = actor_states(arguments(ds__tensor_parallel_size=2, ds__grad_accum_dtype="fp32"), 8_000)
    assert states["weights"] == 2 * 4_000
    assert states["gradients"] == 4 * 4_000 / 4
    assert states["optimiser"] == 12 * 4_000 / 4


def test_activations_by_micro_batch():
    assert activations(arguments(train__micro_batch_size=2), TINY) == {
        "activations": 2000 * (3 * 16 + 304),
        "logits": 2000 * 10 * 12,
    }
    assert (
        activations(arguments(actor__gradient_checkpointing_enable=False), TINY)["activations"]
        == 1000 * 3 * 304
    )
    ring = activations(arguments(ds__ring_attn_size=4), TINY)
    assert ring["logits"] == 250 * 120
    dynamic = arguments(train__dynamic_batch_enable=True, train__max_tokens_per_gpu=3000)
    assert activations(dynamic, TINY)["logits"] == 3000 * 120
    over_ring = arguments(
        train__dynamic_batch_enable=True, train__max_tokens_per_gpu=3000, ds__ring_attn_size=4
    )
    assert activations(over_ring, TINY)["logits"] == 3000 * 120, "the number is one GPU's"
    longer = arguments(train__dynamic_batch_enable=True, train__max_tokens_per_gpu=300)
    assert activations(longer, TINY)["logits"] == 1000 * 120, "one sample is not cut"
    eager = activations(arguments(ds__attn_implementation="eager"), TINY)
    assert eager["activations"] == 1000 * (3 * 16 + 304 + 5 * 2 * 1000)


def test_experts_are_on_the_host_twice_while_they_load():
    dense, sparse = PRESETS["Qwen/Qwen3-14B"], PRESETS["Qwen/Qwen3-30B-A3B"]
    assert loading(arguments(), dense) == 8 * 2 * dense.parameters
    assert loading(arguments(), sparse) == 8 * 4 * sparse.parameters


def test_what_sleeps_is_locked_in_the_host_s_memory():
    model = PRESETS["Qwen/Qwen3-8B"]
    together = {"train__colocate_all": True, "vllm__gpu_memory_utilization": 0.6}
    [awake] = memory(arguments(**together), model, 80 * GIB)
    assert awake.pinned == 0
    sleeping = arguments(**together, vllm__enable_sleep=True, ds__enable_sleep=True)
    [asleep] = memory(sleeping, model, 80 * GIB)
    assert asleep.pinned == (2 + 12) * model.parameters / 8 + 2 * model.parameters  # states, engine's weights
    assert asleep.host == 8 * asleep.pinned
    text = describe([asleep], sleeping, 80 * GIB, gpus_per_node=4)
    assert f"pinned   {4 * asleep.pinned / GIB:6.1f} GiB of it locked on a node" in text
    offloaded = arguments(ds__adam_offload=True, train__enable_ema=True)
    actor, _ = memory(offloaded, model, 80 * GIB)
    assert actor.pinned == (2 + 12) * model.parameters / 8
    assert actor.host == 8 * (actor.pinned + 2 * model.parameters)  # the average is there, and not locked
    shared = {"algo__kl__init_coef": 0.1, "train__colocate_actor_ref": True, "ref__offload": True}
    actor, _ = memory(arguments(**shared), model, 80 * GIB)
    assert actor.pinned == 2 * model.parameters


def test_an_engine_takes_its_share_and_no_more():
    parts, tokens = engine(arguments(), PRESETS["Qwen/Qwen3-8B"], 80 * GIB)
    assert sum(parts.values()) == 40 * GIB
    assert parts["engine: weights"] == 2 * 8_190_735_360
    assert tokens == (40 * GIB - 2 * 8_190_735_360 - CONTEXT) // 147_456
    parts, tokens = engine(arguments(vllm__gpu_memory_utilization=0.2), PRESETS["Qwen/Qwen3-8B"], 80 * GIB)
    assert parts["engine: cache"] == 0
    assert tokens < 0


def test_a_cache_has_to_hold_one_sequence():
    model, context = PRESETS["Qwen/Qwen3-8B"], 40_960
    args = arguments(data__max_len=context, vllm__gpu_memory_utilization=0.25)
    _, tokens = engine(args, model, 80 * GIB)
    assert 0 < tokens < context
    assert excess(args, model, 80 * GIB) >= (context - tokens) * model.kv_bytes()


def test_engines_that_sleep_make_room_for_training():
    together = {"train__colocate_all": True, "vllm__gpu_memory_utilization": 0.6}
    model = PRESETS["Qwen/Qwen3-8B"]
    [awake] = memory(arguments(**together), model, 80 * GIB)
    [asleep] = memory(arguments(**together, vllm__enable_sleep=True), model, 80 * GIB)
    rollout, training = awake.phases
    assert (rollout.name, training.name) == ("rollout", "training")
    assert training.total - asleep.phases[1].total == pytest.approx(48 * GIB)
    assert asleep.host == 8 * 2 * model.parameters
    assert awake.host == 0
    [both] = memory(arguments(**together, vllm__enable_sleep=True, ds__enable_sleep=True), model, 80 * GIB)
    moved = (2 + 12) * model.parameters / 8
    assert asleep.phases[0].total - both.phases[0].total == moved
    assert both.host - asleep.host == 8 * moved


def test_the_reference_is_counted_where_it_lives():
    model = PRESETS["Qwen/Qwen3-0.6B"]
    shared = {"algo__kl__init_coef": 0.1, "train__colocate_actor_ref": True}
    actor, _ = memory(arguments(**shared), model, 80 * GIB)
    assert actor.phases[0].parts["reference"] == 2 * model.parameters
    actor, _ = memory(arguments(**shared, ds__zero_stage=3), model, 80 * GIB)
    assert actor.phases[0].parts["reference"] == 2 * model.parameters / 8
    actor, _ = memory(arguments(**shared, ref__offload=True), model, 80 * GIB)
    assert "reference" not in actor.phases[0].parts
    assert actor.host == 8 * 2 * model.parameters
    _, alone, _ = memory(arguments(algo__kl__init_coef=0.1), model, 80 * GIB)
    assert alone.phases[0].parts["logits"] == 2 * 1000 * 151_936 * 6


def test_the_description_says_what_does_not_fit():
    model = PRESETS["Qwen/Qwen3-8B"]
    args = arguments(train__colocate_all=True, vllm__gpu_memory_utilization=0.6)
    text = describe(memory(args, model, 80 * GIB), args, 80 * GIB)
    assert text.startswith("8 GPUs on at least 1 node\n  8 GPUs: actor, 8 engines; at most ")
    assert "IT DOES NOT FIT" in text
    args.vllm.enable_sleep = args.ds.enable_sleep = True
    text = describe(memory(args, model, 80 * GIB), args, 80 * GIB)
    assert "IT DOES NOT FIT" not in text
    assert "sequences of 1,000 at once" in text
