"""Costs of a run beside the memory of its GPUs, against numbers worked out by hand."""

from types import SimpleNamespace as S

import pytest

from mars_env.trainers.openrlhf.planning.costs import checkpoint, describe_costs, gathers, loading
from mars_env.trainers.openrlhf.planning.sizes import Architecture, architecture_of

MODEL = Architecture(8, 3, 2, 2, 4, 16, vocabulary=10)


def arguments(**changes):
    args = S(
        actor=S(num_nodes=2, num_gpus_per_node=8, gradient_checkpointing_enable=True),
        algo=S(kl=S(init_coef=0.001)),
        ckpt=S(save_hf=False, max_num=3),
        data=S(max_len=1000),
        ds=S(ring_attn_size=4, tensor_parallel_size=1, zero_stage=3),
        rollout=S(micro_batch_size=2, max_tokens_per_gpu=1000),
        train=S(micro_batch_size=1, batch_size=64, dynamic_batch_enable=False, max_tokens_per_gpu=500),
    )
    for path, value in changes.items():
        group, name = path.split("__")
        setattr(getattr(args, group), name, value)
    return args


WEIGHTS = 2 * MODEL.parameters


@pytest.mark.parametrize(
    ("changes", "passes"),
    [
        ({}, 16 * 2 + 8 * 2),  # 64 rows on 4 ranks: 16 micro-batches to train, 8 to read, twice
        ({"actor__gradient_checkpointing_enable": False}, 16 * 2 + 8 * 2),
        ({"train__dynamic_batch_enable": True}, 8 * 2 + 4 * 2),  # 2 rows to train on, 4 to read
    ],
)
def test_each_micro_batch_gathers_all_weights(changes, passes):
    assert gathers(arguments(**changes), MODEL, rows=64) == passes * WEIGHTS


def test_without_a_reference_one_pass_is_saved():
    args = arguments()
    args.algo.kl.init_coef = 0.0
    assert gathers(args, MODEL, rows=64) == (16 * 2 + 8) * WEIGHTS


def test_experts_are_on_the_host_twice_while_they_load():
    dense, sparse = architecture_of("Qwen/Qwen3-14B"), architecture_of("Qwen/Qwen3-30B-A3B")
    assert loading(arguments(), dense) == 8 * 2 * dense.parameters
    assert loading(arguments(), sparse) == 8 * 4 * sparse.parameters


def test_a_checkpoint_holds_weights_and_the_optimiser_s_states():
    assert checkpoint(arguments(), MODEL) == 14 * MODEL.parameters
    assert checkpoint(arguments(ckpt__save_hf=True), MODEL) == 16 * MODEL.parameters


def test_gathers_are_told_of_where_weights_are_divided():
    told = "\n".join(describe_costs(arguments(), architecture_of("Qwen/Qwen3-14B"), 64))
    assert "load" in told
    assert "3 are kept" in told
    assert "an update of 64 rows" in told
    assert "gathers" not in "\n".join(describe_costs(arguments(ds__zero_stage=2), MODEL, 64))
