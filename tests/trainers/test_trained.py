"""What `mars-env train` wrote, evaluated and asked on the command line."""

import json
import shutil

import pytest
import torch
from typer.testing import CliRunner

from mars_env.agents import make_agents
from mars_env.cli import app
from mars_env.errors import ConfigError, StoreError
from mars_env.miniature import CHECKPOINT
from mars_env.models import HFModel
from mars_env.trainers.folders import write_digests
from mars_env.trainers.trained import TrainedTeam

ENV = "arithmetic-solve-verify-correct"
TEAM = "mars_env.miniature.agents:team"
NAMES = ["solver_0", "verifier_0", "corrector_0"]
QUESTION = "Work modulo 1000. Start with a = 882. Then b = a - 27. What is b?"
SMALL = ["steps=2", "problems_per_step=1", "rollouts.group=2", "rollouts.branches=1"]


def called(*arguments):
    result = CliRunner().invoke(app, list(arguments))
    if result.exception is not None:
        raise result.exception
    return result.stdout


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for name in ("one", "two"):
        shutil.copytree(CHECKPOINT, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def train(*options, team=TEAM):
    small = [f"--{setting}" for setting in SMALL]
    called("train", ENV, *(["--team.agents", team] if team else []), "--out", "run", *small, *options)


@pytest.mark.parametrize(
    ("options", "policies"),
    [
        (["--model", "one"], dict.fromkeys(NAMES, "policy")),
        (
            ["--team.model.solver", "one", "--team.model.verifier,corrector", "two"],
            {"solver_0": "solver", "verifier_0": "verifier-corrector", "corrector_0": "verifier-corrector"},
        ),
        (["--model", "one", "--team.lora", "2"], {name: name for name in NAMES}),
    ],
    ids=["shared", "several", "adapters"],
)
def test_train_evaluate_and_ask(folder, monkeypatch, options, policies):
    if "--team.lora" in options:
        pytest.importorskip("peft", reason="adapters need the extra lora")
    train(*options)
    team = make_agents("team:run", NAMES)
    assert {name: agent.policy for name, agent in team.items()} == policies
    assert len({id(agent.model) for agent in team.values()}) == len({*policies.values()})
    (folder / "elsewhere").mkdir()
    monkeypatch.chdir(folder / "elsewhere")
    report = json.loads(called("evaluate", ENV, "--agents", "team:../run", "--limit", "2", "--json"))
    assert report["metrics"]["system_accuracy"]["estimate"]["problems"] == 2
    assert json.loads(called("solve", QUESTION, "--agents", "team:../run", "--json"))["answer"]


def test_adapters_are_those_that_were_trained(folder):
    pytest.importorskip("peft", reason="adapters need the extra lora")
    train("--model", "one", "--team.lora", "2", "--train.learning_rate=0.1", "--rollouts.group=8")
    team, ids = TrainedTeam("run"), torch.tensor([[3, 4, 5]])
    for name in NAMES:
        apart = HFModel(folder / f"run/step-00000002/{name}").module(input_ids=ids).logits
        torch.testing.assert_close(team.agent(name).model.module(input_ids=ids).logits, apart)
    state = folder / "run/step-00000002/state.json"
    state.write_text(state.read_text().replace('"corrector_0": "corrector_0"', '"corrector_0": "a server"'))
    write_digests(state.parent)
    assert TrainedTeam("run").agent("solver_0").policy == "solver_0"


def test_a_base_that_is_gone_is_named(folder):
    pytest.importorskip("peft", reason="adapters need the extra lora")
    train("--model", "one", "--team.lora", "2")
    (folder / "one").rename(folder / "moved")
    for agents in ("team:run", "hf:run/step-00000002/verifier_0"):
        with pytest.raises(ConfigError) as caught:
            make_agents(agents, ["solver_0"])
        assert str(folder / "one") in str(caught.value)


def test_the_librarys_own_agents_sample_as_in_the_run(folder):
    train("--model", "one", "--sampling.max_tokens", "7", "--sampling.overflow", "unknown", team=None)
    team = make_agents("team:run?temperature=0.5", NAMES)
    assert [type(agent).__name__ for agent in team.values()] == ["Solver", "Verifier", "Corrector"]
    assert {(a.sampling.max_tokens, a.sampling.temperature) for a in team.values()} == {(7, 0.5)}


def test_what_is_no_trained_team(folder):
    train("--model", "one")
    state = folder / "run" / "step-00000002" / "state.json"
    for agents, names in (
        ("team:one", NAMES),
        ("team:run", ["coder_0"]),
        ("team:run?temperature=0.5", NAMES),
        ("team:run?function=nothing", NAMES),
    ):
        with pytest.raises(ConfigError):
            make_agents(agents, names)
    state.write_text(state.read_text().replace(f'"{TEAM}"', "null"))
    with pytest.raises(StoreError):  # it is not what the run wrote
        make_agents("team:run", NAMES)
    write_digests(state.parent)
    with pytest.raises(ConfigError):
        make_agents("team:run/step-00000002", NAMES)
    assert make_agents(f"team:run/step-00000002?function={TEAM}", NAMES)["solver_0"].policy == "policy"
