"""Training on the command line, with tiny checkpoints that the tests write."""

import sys

import pytest
import torch
from command_line import run_cli
from safetensors.torch import load_file
from tiny_team import tiny
from typer.testing import CliRunner

from mars_env.cli import app
from mars_env.errors import ConfigError, StoreError
from mars_env.trainers.metrics import read_jsonl

REWARDS = '''
"""A random model solves nothing."""
from mars_env.agents.roles import RoleAgent
from mars_env.types import Sampling


def digits(turn, path, problem):
    return sum(letter.isdigit() for letter in turn.text) / 6


def team(model):
    prompt = "{{ problem[:20] }}|"
    return {"solver": RoleAgent(model, sampling=Sampling(max_tokens=6), prompt=prompt, thinking=None)}
'''
COMMON = [
    *["--reward", "solver=tiny_rewards:digits", "--max-tokens", "6"],
    *["--option", "problems_per_step=3", "--option", "train.learning_rate=0.003"],
]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Two checkpoints and a module of rewards."""
    for seed, name in enumerate(("one", "two")):
        model = tiny(name, seed, positions=2048)
        model.module.save_pretrained(tmp_path / name)
        model.tokenizer.save_pretrained(tmp_path / name)
    (tmp_path / "tiny_rewards.py").write_text(REWARDS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    torch.set_num_threads(1)
    yield tmp_path
    sys.modules.pop("tiny_rewards", None)


def called(*arguments):
    """`mars-env train` in this process."""
    result = CliRunner().invoke(app, ["train", *map(str, arguments)])
    if result.exception is not None:
        raise result.exception
    return result.output


def search(*arguments, steps=1):
    common = ["arithmetic-tree-search", *COMMON, "--set", "nodes=4", "--option", f"steps={steps}"]
    return called(*common, *arguments)


def refused(*arguments, error=ConfigError):
    with pytest.raises(error) as caught:
        search(*arguments)
    return str(caught.value)


def weights(step):
    """The weights of a checkpoint, by policy."""
    found = {}
    for folder in step.iterdir():
        for name in ("model.safetensors", "adapter_model.safetensors"):
            if (folder / name).exists():
                found[folder.name] = load_file(folder / name)
    return found


def same(one, other):
    return one.keys() == other.keys() and all(torch.equal(value, other[name]) for name, value in one.items())


def test_two_models_are_trained_in_one_tree_and_a_run_is_taken_up(folder):
    both = ["--model", "one", "--model", "two", "--checkpoint-every", 1]
    search(*both, "--out", "whole", steps=3)
    search(*both, "--out", "parts", steps=2)
    search(*both, "--out", "parts", steps=3)
    whole, parts = weights(folder / "whole/step-00000003"), weights(folder / "parts/step-00000003")
    assert sorted(whole) == ["solver_0", "solver_1"]
    for agent, begun in (("solver_0", "one"), ("solver_1", "two")):
        assert same(whole[agent], parts[agent])
        assert not same(whole[agent], load_file(folder / begun / "model.safetensors"))
    rows = read_jsonl(folder / "parts/metrics.jsonl")
    assert [row["step"] for row in rows] == [1, 2, 3]
    assert all(row["advantages/turns"] == 12 and row["advantages/groups"] == 3 for row in rows)
    paper = {"policy/solver_0/vetoed", "policy/solver_1/kl"}  # --option left the paper's loss as it is
    assert paper <= rows[0].keys()
    other = refused(*both, "--out", "parts", "--option", "problems_per_step=2", error=StoreError)
    assert "problems_per_step" in other


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--agents", 3, "--team", "tiny_rewards:team"],
        ["--agents", 2, "--option", "pipeline.max_staleness=1"],
    ],
    ids=["single", "homogeneous", "pipelined"],
)
def test_one_model_plays_all_agents(folder, arguments):
    search("--model", "one", *arguments, "--out", "run", steps=2)
    assert sorted(weights(folder / "run/step-00000002")) == ["policy"]
    rows = read_jsonl(folder / "run/metrics.jsonl")
    assert [row["step"] for row in rows] == [1, 2]
    assert ("pipeline/oldest" in rows[0]) == ("pipeline.max_staleness=1" in arguments)


def test_adapters_on_one_model_are_a_team_of_their_own(folder):
    pytest.importorskip("peft", reason="adapters need the extra lora")
    search("--model", "one", "--agents", 2, "--lora", 2, "--out", "run")
    adapters = weights(folder / "run/step-00000001")
    assert sorted(adapters) == ["solver_0", "solver_1"]
    assert all(min(value.shape) == 2 for adapter in adapters.values() for value in adapter.values())
    assert not same(*adapters.values())


def test_settings_come_from_a_file_and_single_ones_from_options(folder):
    (folder / "run.toml").write_text(
        'steps = 9\nseed = 4\n[train]\nratio = "token"\n[train.overlong]\nbuffer = 1\n'
    )
    search("--model", "one", "--config", "run.toml", "--option", "train.epochs=2", "--out", "run")
    rows = read_jsonl(folder / "run/metrics.jsonl")
    assert [row["step"] for row in rows] == [1] and rows[0]["policy/policy/updates"] == 2


def test_a_team_of_another_size_is_refused_in_one_sentence(folder):
    both = ["--model", "one", "--model", "two", "--out", "run"]
    assert "3 agents take one --model" in refused(*both, "--agents", 3)
    assert "got 2" in refused(*both, "--lora", 2)
    assert "do not fit MARS2Settings" in refused("--model", "one", "--out", "run", "--option", "step=3")
    assert "has no parts" in refused("--model", "one", "--out", "run", "--option", "steps.more=3")
    assert not (folder / "run").exists()
    with pytest.raises(ConfigError, match="MarsRL trains one model"):
        called("arithmetic-solve-verify-correct", *both)


def test_marsrl_trains_one_model_in_all_roles(folder):
    rewards = [f"--reward={role}=tiny_rewards:digits" for role in ("solver", "verifier", "corrector")]
    settings = [f"--option={setting}" for setting in ("steps=1", "problems_per_step=1", "rollouts.group=3")]
    arguments = ["--model", "one", "--out", "run", "--max-tokens", 6, *rewards, *settings]
    called("arithmetic-solve-verify-correct", *arguments)
    assert sorted(weights(folder / "run/step-00000001")) == ["policy"]


def test_the_command_itself(folder, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    said = run_cli("train", "programs-tree-search", "--model", "nowhere", "--out", "run", code=2)
    assert "nowhere" in said and "Traceback" not in said
