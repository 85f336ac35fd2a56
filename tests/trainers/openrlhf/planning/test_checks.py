"""All checks of a run, together."""

import json

import pytest
from openrlhf_arguments import arguments

from mars_env.errors import ConfigError
from mars_env.trainers.architecture import architecture
from mars_env.trainers.openrlhf.planning.checks import check_launch, require_context, require_model
from mars_env.trainers.recipes import MARSRL

SETTINGS = MARSRL.with_(
    environment={"id": "arithmetic-solve", "limit": 5},
    team={"model": "Qwen/Qwen3-8B"},
    sampling={"max_tokens": 64},
    out="run",
)


def test_all_that_is_wrong_is_reported_together(tmp_path):
    wrong = arguments(train__colocate_all=True, vllm__num_engines=2)
    changes = {"team": {"model": str(tmp_path / "nothing")}, "sampling": {"max_tokens": 2000}}
    with pytest.raises(ConfigError) as refused:
        check_launch(SETTINGS.with_(**changes), wrong)
    lines = str(refused.value).splitlines()
    named = ("--vllm.num_engines", "team.model", "sampling.max_tokens")
    assert [[flag in line for line in lines].count(True) for flag in named] == [1] * len(named)
    assert len(lines) == len(named)


@pytest.mark.parametrize(
    "name", ["runs/a/b", "/no/where", "./base", "../base", "Qwen//Qwen3-8B", "Qwen/Qwen3 8B", "made/base"]
)
def test_a_model_that_cannot_be_there(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "made").mkdir()
    with pytest.raises(ConfigError):
        require_model(name)


def test_a_folder_without_a_model(tmp_path):
    with pytest.raises(ConfigError):
        require_model(str(tmp_path))
    (tmp_path / "config.json").write_text("{}", encoding="utf-8")
    require_model(str(tmp_path))
    require_model("somebody/something-3.5")
    require_model("gpt2")


SMALL = {
    "hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 96,
    "vocab_size": 111,
}  # fmt: skip


@pytest.mark.parametrize(
    ("rotation", "context"),
    [
        ({}, 4096),
        ({"rope_scaling": None}, 4096),
        ({"rope_parameters": {"rope_type": "default", "rope_theta": 1e6}}, 4096),
        ({"rope_scaling": {"type": "yarn", "factor": 4.0}}, None),
    ],
)
def test_a_length_beyond_the_context_is_refused(tmp_path, rotation, context):
    config = SMALL | {"model_type": "qwen3", "max_position_embeddings": 4096} | rotation
    assert architecture(config).context == context
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    require_context(str(tmp_path), 4096)
    require_context("nobody/nothing", 10**9)
    if context is None:
        require_context(str(tmp_path), 4097)
    else:
        with pytest.raises(ConfigError):
            require_context(str(tmp_path), 4097)
