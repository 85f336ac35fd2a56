"""What `mars-env train` wrote, evaluated and asked on the command line."""

import json
import shutil
from functools import cache

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


def called(*arguments):
    result = CliRunner().invoke(app, list(arguments))
    if result.exception is not None:
        raise result.exception
    return result.stdout


def train(*options):
    small = ["--steps=2", "--problems_per_step=1", "--rollouts.group=4", "--rollouts.branches=1"]
    called("train", ENV, *small, *options)


OWN = ["--team.agents", TEAM]
RUNS = {
    "library": ["--model", "one", "--sampling.max_tokens=7", "--sampling.overflow=unknown"],
    "several": [*OWN, "--team.model.solver=one", "--team.model.verifier,corrector=two"],
    "adapters": [*OWN, "--model", "one", "--team.lora=2", "--train.learning_rate=0.1"],
}
"""Options of a run, by the name of its folder. The first is of the library's own agents."""


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A function that trains a run, once; it returns the folder of the run and of its first checkpoints."""
    folder = tmp_path_factory.mktemp("trained")
    for name in ("one", "two"):
        shutil.copytree(CHECKPOINT, folder / name)

    @cache
    def made(name):
        if "--team.lora=2" in RUNS[name]:
            pytest.importorskip("peft", reason="adapters need the extra lora")
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            train(*RUNS[name], "--out", name)
        return folder

    return made


@pytest.fixture
def copied(trained, tmp_path, monkeypatch):
    """A function that copies a run, so that it may be changed; it returns the last checkpoint."""
    monkeypatch.chdir(tmp_path)

    def copied(name):
        shutil.copytree(trained(name) / name, tmp_path / "run")
        return tmp_path / "run" / "step-00000002"

    return copied


@pytest.mark.parametrize(
    ("name", "policies"),
    [
        (
            "several",
            {"solver_0": "solver", "verifier_0": "verifier-corrector", "corrector_0": "verifier-corrector"},
        ),
        ("adapters", {name: name for name in NAMES}),
    ],
)
def test_evaluate_and_ask(trained, tmp_path, monkeypatch, name, policies):
    run = f"team:{trained(name) / name}"
    team = make_agents(run, NAMES)
    assert {name: agent.policy for name, agent in team.items()} == policies
    assert len({id(agent.model) for agent in team.values()}) == len({*policies.values()})
    monkeypatch.chdir(tmp_path)
    report = json.loads(called("evaluate", ENV, "--agents", run, "--limit", "2", "--json"))
    assert report["metrics"]["system_accuracy"]["estimate"]["problems"] == 2
    assert json.loads(called("solve", QUESTION, "--agents", run, "--json"))["answer"]


def test_adapters_are_those_that_were_trained(copied):
    path = copied("adapters")
    team, ids = TrainedTeam("run"), torch.tensor([[3, 4, 5]])
    for name in NAMES:
        apart = HFModel(path / name).module(input_ids=ids).logits
        torch.testing.assert_close(team.agent(name).model.module(input_ids=ids).logits, apart)
    state = path / "state.json"
    state.write_text(state.read_text().replace('"corrector_0": "corrector_0"', '"corrector_0": "a server"'))
    write_digests(path)
    assert TrainedTeam("run").agent("solver_0").policy == "solver_0"


def test_the_librarys_own_agents_sample_as_in_the_run(trained):
    team = make_agents(f"team:{trained('library') / 'library'}?temperature=0.5", NAMES)
    assert [type(agent).__name__ for agent in team.values()] == ["Solver", "Verifier", "Corrector"]
    assert {(a.sampling.max_tokens, a.sampling.temperature) for a in team.values()} == {(7, 0.5)}
    assert {agent.policy for agent in team.values()} == {"policy"}


def test_what_is_no_trained_team(copied):
    path = copied("several")
    state = path / "state.json"
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
    write_digests(path)
    with pytest.raises(ConfigError):
        make_agents("team:run/step-00000002", NAMES)
    assert make_agents(f"team:run/step-00000002?function={TEAM}", NAMES)["solver_0"].policy == "solver"
