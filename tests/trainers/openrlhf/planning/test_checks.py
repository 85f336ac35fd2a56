"""All checks of a run, together."""

import json
from types import SimpleNamespace as S

import pytest
from messages import raises
from openrlhf_arguments import arguments

from mars_env.errors import ConfigError
from mars_env.trainers.openrlhf.planning.checks import (
    check_launch,
    require_context,
    require_model,
    require_room_for,
)
from mars_env.trainers.openrlhf.planning.models import architecture
from mars_env.trainers.openrlhf.settings import TeamSettings

SETTINGS = TeamSettings(env="arithmetic-solve", problems=5)


def test_a_run_that_is_right():
    assert check_launch(SETTINGS, arguments()) == [("", "Qwen/Qwen3-8B")]


def test_all_that_is_wrong_is_reported_together(tmp_path):
    wrong = arguments(
        actor__model_name_or_path=str(tmp_path / "nothing"), train__batch_size=63, train__colocate_all=True,
        vllm__num_engines=2, algo__kl__init_coef=0.1, ref__num_gpus_per_node=2, rollout__max_new_tokens=2000,
    )  # fmt: skip
    with pytest.raises(ConfigError) as refused:
        check_launch(SETTINGS, wrong)
    lines = str(refused.value).splitlines()
    named = ("--algo.kl.use_loss", "--train.batch_size", "--ref.num_nodes", "--vllm.num_engines",
             "--actor.model_name_or_path", "--rollout.max_new_tokens")  # fmt: skip
    assert [[flag in line for line in lines].count(True) for flag in named] == [1] * len(named)
    assert len(lines) == len(named)


@pytest.mark.parametrize(
    "name", ["runs/a/b", "/no/where", "./base", "../base", "Qwen//Qwen3-8B", "Qwen/Qwen3 8B", "made/base", ""]
)
def test_a_model_that_cannot_be_there(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "made").mkdir()
    with pytest.raises(ConfigError):
        require_model(name, "--actor.model_name_or_path")


def test_a_folder_without_a_model(tmp_path):
    with pytest.raises(ConfigError):
        require_model(str(tmp_path), "--actor.model_name_or_path")
    (tmp_path / "config.json").write_text("{}", encoding="utf-8")
    require_model(str(tmp_path), "--actor.model_name_or_path")
    require_model("somebody/something-3.5", "--actor.model_name_or_path")
    require_model("gpt2", "--actor.model_name_or_path")


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
        with raises(ConfigError):
            require_context(str(tmp_path), 4097)


ROOM = TeamSettings(
    env="arithmetic-solve-verify-correct",
    options={"schedule": "training", "rounds": 1},
    problems=20,
)


def room(context, limit=100):
    rollout = S(max_new_tokens=limit, temperature=1.0)
    return S(data=S(max_len=context), rollout=rollout, eval=S(temperature=0.6))


def test_a_context_that_is_too_small_in_training_is_refused():
    require_room_for(ROOM, room(4000), "no/checkpoint")
    with raises(ConfigError):
        require_room_for(ROOM, room(200), "no/checkpoint")
    unchecked = ROOM.model_copy(update={"overflow": "unknown"})
    require_room_for(unchecked, room(200), "no/checkpoint")
    for limit in (200, 300):  # a completion fills the context by itself
        with raises(ConfigError):
            require_room_for(unchecked, room(200, limit), "no/checkpoint")


def test_a_context_that_is_too_small_in_evaluation_alone_is_refused(tmp_path):
    path = tmp_path / "long.jsonl"
    path.write_text('{"id": "a", "problem": "' + "one " * 5000 + '", "answer": "1"}\n')
    require_room_for(ROOM, room(4000), "no/checkpoint")
    longer = ROOM.model_copy(update={"eval_set": str(path), "eval_problems": 1})
    with raises(ConfigError):
        require_room_for(longer, room(4000), "no/checkpoint")
