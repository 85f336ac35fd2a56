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
        ({}, 16 * 3 + 8 * 2),  # 64 rows on 4 ranks: 16 micro-batches to train, 8 to read, twice
        ({"actor__gradient_checkpointing_enable": False}, 16 * 2 + 8 * 2),
        ({"train__dynamic_batch_enable": True}, 8 * 3 + 4 * 2),  # 2 rows to train on, 4 to read
    ],
)
def test_each_micro_batch_gathers_all_weights(changes, passes):
    assert gathers(arguments(**changes), MODEL, rows=64) == passes * WEIGHTS


@pytest.mark.parametrize(("checkpointing", "times"), [(True, 3), (False, 2)])
def test_a_layer_is_entered_as_often_as_its_weights_are_gathered(checkpointing, times):
    """ZeRO-3 gathers a module's weights before its forward and before its backward pass: both are counted."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    config = transformers.Qwen3Config(
        hidden_size=8, intermediate_size=16, num_hidden_layers=3, num_attention_heads=2,
        num_key_value_heads=2, head_dim=4, vocab_size=10,
    )  # fmt: skip
    model = transformers.Qwen3ForCausalLM(config).train()
    if checkpointing:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    entered = []
    for layer in model.model.layers:
        layer.register_forward_pre_hook(lambda *_: entered.append("forward"))
        layer.mlp.register_full_backward_pre_hook(lambda *_: entered.append("backward"))
    model(torch.arange(6).unsqueeze(0)).logits.sum().backward()
    assert len(entered) == 3 * times
    args = arguments(
        actor__gradient_checkpointing_enable=checkpointing, rollout__micro_batch_size=1,
        train__batch_size=16, ds__ring_attn_size=1,
    )  # fmt: skip
    args.algo.kl.init_coef = 0.0
    assert gathers(args, MODEL, rows=16) == (times + 1) * WEIGHTS  # one row a rank, read once before


def test_without_a_reference_one_pass_is_saved():
    args = arguments()
    args.algo.kl.init_coef = 0.0
    assert gathers(args, MODEL, rows=64) == (16 * 3 + 8) * WEIGHTS


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
