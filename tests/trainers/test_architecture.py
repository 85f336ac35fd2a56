"""Numbers of parameters, against transformers' own models and the published numbers."""

import json

import pytest

from mars_env.errors import ConfigError
from mars_env.trainers.architecture import PRESETS, architecture, architecture_of

SMALL = {
    "hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2,
    "intermediate_size": 96, "vocab_size": 111,
}  # fmt: skip
EXPERTS = {"num_experts": 5, "moe_intermediate_size": 24, "num_experts_per_tok": 2}


@pytest.mark.parametrize(
    ("kind", "extra"),
    [
        ("llama", {}),
        ("llama", {"attention_bias": True}),
        ("mistral", {"head_dim": 8}),
        ("qwen2", {"tie_word_embeddings": True}),
        ("qwen3", {"head_dim": 32}),
        ("qwen3", {"attention_bias": True}),
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


def test_a_directory_comes_before_a_preset(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "Qwen" / "Qwen3-8B").mkdir(parents=True)
    config = SMALL | {"model_type": "llama"}
    (tmp_path / "Qwen" / "Qwen3-8B" / "config.json").write_text(json.dumps(config), encoding="utf-8")
    assert architecture_of("Qwen/Qwen3-8B") == architecture(config)


def test_caches_of_keys_and_values_are_split_among_gpus():
    model = PRESETS["Qwen/Qwen3-30B-A3B"]
    assert model.kv_bytes() == 2 * 2 * 48 * 4 * 128
    assert model.kv_bytes(2) == model.kv_bytes() // 2
    assert model.kv_bytes(8) == model.kv_bytes(4), "fewer heads than GPUs: each keeps a copy"


LACKING = {"model_type": "llama", "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}


@pytest.mark.parametrize("config", [{"model_type": "mamba"}, LACKING])
def test_a_config_without_the_sizes_is_refused(config):
    with pytest.raises(ConfigError):
        architecture(config)


def test_unknown_models_and_configs_that_are_none_are_refused(tmp_path):
    for name, text in (("{", "{"), ("list", "[]")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(text, encoding="utf-8")
    for name in ("nowhere/such-a-model", "/no/such/folder", str(tmp_path / "{"), str(tmp_path / "list")):
        with pytest.raises(ConfigError):
            architecture_of(name)
