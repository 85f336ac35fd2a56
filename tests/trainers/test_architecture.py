"""Numbers of parameters, against transformers' own models and the published numbers."""

import pytest

from mars_env.errors import ConfigError
from mars_env.trainers.architecture import PRESETS, architecture

SMALL = {
    "hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2,
    "intermediate_size": 96, "vocab_size": 111,
}  # fmt: skip
EXPERTS = {"num_experts": 5, "moe_intermediate_size": 24, "num_experts_per_tok": 2}


@pytest.mark.parametrize(
    ("kind", "extra"),
    [
        ("llama", {}),
        ("mistral", {"head_dim": 8}),
        ("qwen2", {"tie_word_embeddings": True}),
        ("qwen3", {"head_dim": 32}),
        ("qwen3_moe", EXPERTS | {"mlp_only_layers": [1]}),
        ("qwen3_moe", EXPERTS | {"decoder_sparse_step": 2}),
    ],
)
def test_parameters_are_those_of_transformers(kind, extra):
    torch = pytest.importorskip("torch")
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.for_model(kind, **SMALL, **extra)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    counted = sum(p.numel() for p in model.parameters() if p.dim() > 1)
    assert architecture(config.to_dict()).parameters == counted


PUBLISHED = {
    "Qwen/Qwen3-0.6B": 596_049_920,
    "Qwen/Qwen3-1.7B": 1_720_574_976,
    "Qwen/Qwen3-4B": 4_022_468_096,
    "Qwen/Qwen3-8B": 8_190_735_360,
    "Qwen/Qwen3-14B": 14_768_307_200,
    "Qwen/Qwen3-30B-A3B-Thinking-2507": 30_532_122_624,
    "Qwen/Qwen2.5-Coder-7B-Instruct": 7_615_616_512,
}


def test_presets_have_the_published_sizes():
    assert {name: PRESETS[name].parameters for name in PUBLISHED} == pytest.approx(PUBLISHED, rel=1e-3)


LACKING = {"model_type": "llama", "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}


@pytest.mark.parametrize("config", [{"model_type": "mamba"}, LACKING])
def test_a_config_without_the_sizes_is_refused(config):
    with pytest.raises(ConfigError):
        architecture(config)
