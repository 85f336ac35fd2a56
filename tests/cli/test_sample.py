"""`mars-env sample`: a sampler in a process of its own acts for a learner here, and is stopped cleanly."""

import asyncio
import os
import signal
import sys

import pytest
import torch
from command_line import command, run_cli
from tiny_team import tiny
from typer.testing import CliRunner

import mars_env
from mars_env.cli import app
from mars_env.envs import GroupedSettings
from mars_env.errors import ConfigError
from mars_env.models import HFModel
from mars_env.rollout import PipelineSettings
from mars_env.trainers import Policy, RunSettings, TrainConfig, train
from mars_env.trainers.swarm import Swarm, SwarmSettings
from mars_env.types import Sampling

TEAM = '''
"""A team of its own prompts, and one that never answers."""
import asyncio

from mars_env.agents.roles import RoleAgent


def team(model, sampling):
    prompt = "{{ problem[:20] }}|"
    return {"solver": RoleAgent(model, sampling=sampling, prompt=prompt, thinking=None)}


class Slow(RoleAgent):
    async def act(self, observation, n, seed):
        await asyncio.sleep(600)


def slow(model, sampling):
    return {"solver": Slow(model, sampling=sampling, prompt="|", thinking=None)}
'''
SETTINGS = RunSettings(
    steps=2,
    problems_per_step=2,
    rollouts=GroupedSettings(group=3, branches=1),
    sampling=Sampling(max_tokens=6),
    pipeline=PipelineSettings(staleness=0),
    train=TrainConfig(learning_rate=3e-3),
)


def digits(turn, path, problem):
    return sum(letter.isdigit() for letter in turn.text) / 6


@pytest.fixture
def folder(tmp_path, monkeypatch):
    model = tiny("one", 0, positions=2048)
    model.module.save_pretrained(tmp_path / "one")
    model.tokenizer.save_pretrained(tmp_path / "one")
    (tmp_path / "far_team.py").write_text(TEAM)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ECHO_KEY", "a key")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    torch.set_num_threads(1)
    return tmp_path


def arguments(url, *more, team="far_team:team"):
    return ["sample", url, "--env", "arithmetic-solve", "--model", "one", "--team", team, "--max-tokens", "6",
            "--api-key-env", "ECHO_KEY", *more]  # fmt: skip


async def started(*given):
    return await asyncio.create_subprocess_exec(
        *command(*given), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )


def swarm_of(folder, **options):
    model = HFModel(folder / "one", dtype="float32", name="policy")
    policies = {"policy": Policy(model.module, model.tokenizer)}
    return Swarm(
        {"solver_0": "policy"}, policies, folder / "weights", SwarmSettings(**options), keys=["a key"]
    )


@pytest.mark.parametrize("store", [False, True])
async def test_a_sampler_acts_until_the_training_is_over(folder, store):
    env = mars_env.make("arithmetic-solve", rewards={"solver": digits})
    async with swarm_of(folder) as swarm:
        more = ["--weights", folder / "weights"] if store else []
        sampler = await started(*arguments(swarm.url, *more))
        history = await train(env.game, swarm.team, env.problems, SETTINGS, loggers=[swarm])
    said, errors = await asyncio.wait_for(sampler.communicate(), 120)
    assert sampler.returncode == 0, errors.decode()
    assert len(history) == 2
    assert said.decode().strip() == "the training is over: 4 answers"  # 2 updates of 2 problems
    assert f"acting for {swarm.url} as solver_0; Ctrl-C ends it" in errors.decode()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
async def test_a_sampler_that_is_stopped_hands_back_what_is_under_way(folder, number, code):
    async with swarm_of(folder, lease=600.0, attempts=1) as swarm:
        swarm.publish(swarm.team.policies)
        act = asyncio.create_task(swarm.act("solver_0", {"problem": "1 + 1?"}, 1, 0))
        sampler = await started(*arguments(swarm.url, team="far_team:slow"))
        while not any(opened.holder for opened in swarm._open.values()):
            assert sampler.returncode is None, (await sampler.communicate())[1].decode()
            await asyncio.sleep(0.05)
        sampler.send_signal(number)
        _, errors = await asyncio.wait_for(sampler.communicate(), 120)
        assert sampler.returncode == code
        assert "stopped: the learner gives what was under way to other samplers" in errors.decode()
        assert "Traceback" not in errors.decode()
        [opened] = swarm._open.values()
        assert not opened.holder and opened.tries == 0 and not swarm._seen  # at once, long before the lease
        act.cancel()
        await asyncio.gather(act, return_exceptions=True)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["ftp://127.0.0.1:1"], "a learner's address is like http://"),
        (["http://127.0.0.1:1", "--patience", "0"], "--patience is in seconds"),
        (["http://127.0.0.1:1", "--patience", "0.2"], "is gone for 0.2 s"),
        (["http://127.0.0.1:1", "--weights", "nowhere"], "there is no folder nowhere"),
        (
            ["http://127.0.0.1:1", "--api-key-env", "NO_SUCH_KEY"],
            "NO_SUCH_KEY with the learner's key is not set",
        ),
        (["http://127.0.0.1:1", "--option", "sampling.top_p=0.5"], "top"),
    ],
)
def test_bad_input_gets_one_sentence(folder, given, message):
    url, *more = given
    said = run_cli(*arguments(url, *more), code=2)
    assert message in " ".join(said.split()) and "Traceback" not in said


def test_a_search_has_as_many_agents_as_models(monkeypatch):
    def told(assigned, lora, seed):
        raise ConfigError(str(assigned))

    monkeypatch.setattr("mars_env.cli.sample.loaded_models", told)
    models = ["--model", "one", "--model", "two"]
    done = CliRunner().invoke(app, ["sample", "http://a", "--env", "arithmetic-tree-search", *models])
    assert str(done.exception) == "{'solver_0': ('solver_0', 'one'), 'solver_1': ('solver_1', 'two')}"


async def test_a_wrong_key_or_policy_ends_the_sampler_with_one_sentence(folder, monkeypatch):
    async with swarm_of(folder) as swarm:
        swarm.publish(swarm.team.policies)
        other = await started(*arguments(swarm.url, "--policy", "another"))
        _, errors = await asyncio.wait_for(other.communicate(), 120)
        assert other.returncode == 2 and "the team is 'solver_0' with 'policy'" in " ".join(
            errors.decode().split()
        )
        monkeypatch.setitem(os.environ, "ECHO_KEY", "wrong")
        other = await started(*arguments(swarm.url))
        _, errors = await asyncio.wait_for(other.communicate(), 120)
        assert other.returncode == 2 and "key is missing or wrong" in " ".join(errors.decode().split())


def test_a_key_that_goes_unencrypted_to_another_machine_is_told(folder):
    said = run_cli(*arguments("http://no-such-host.invalid:8700", "--patience", "0.1"), code=2)
    assert "the key goes to no-such-host.invalid unencrypted" in " ".join(said.split())
    said = run_cli(*arguments("http://127.0.0.1:1", "--patience", "0.1"), code=2)
    assert "unencrypted" not in said and sys.executable not in said
