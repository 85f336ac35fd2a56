"""Echo on a real Ray: two samplers and a learner, sequential and asynchronous, with one sampler killed."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import replace
from functools import partial

import locks_run
import pytest
import torch
from examples_run import EXAMPLES
from locks_run import LOCKS
from real_engines import local_ray
from tiny_team import Rows, flat
from waiting import wait_until

import mars_env
from mars_env.distributed import RaySamplers
from mars_env.distributed.samplers import SamplerFleet
from mars_env.envs import GroupedSettings
from mars_env.errors import ConfigError
from mars_env.models import HFModel, tiny_model
from mars_env.rollout import PipelineSettings
from mars_env.trainers import RunSettings, make_team, train
from mars_env.trainers.elsewhere import sampled_by
from mars_env.trainers.lora import add_adapters
from mars_env.trainers.rollouts import LEDGER
from mars_env.types import Sampling

ray = pytest.importorskip("ray")

SAMPLERS = RaySamplers(count=2, cpus=0.5)


@pytest.fixture(scope="module", autouse=True)
def running():
    """One Ray for the tests of this module."""
    with local_ray(cpus=4):
        yield


async def run(chosen, samplers=None, out=None):
    """The weights at the end, and the metrics of each update."""
    trained, heard = locks_run.model(), Rows()
    team = locks_run.team(trained)
    chosen = chosen.with_(samplers=samplers, out=None if out is None else str(out))
    await train(locks_run.game(), team, locks_run.problems(), chosen, loggers=[heard])
    return flat(trained.module), heard.rows


async def both(players):
    """The process ids of both samplers, once they answer."""
    while len(pids := await players.agents["solver_0"].fleet.processes.pids()) < 2:
        await asyncio.sleep(0.1)
    return pids


def rewards(rows):
    return [row["role/solver/reward"] for row in rows]


async def test_at_staleness_0_two_samplers_train_what_one_process_trains(tmp_path):
    """The run stops after two updates, and another learner continues it with one sampler."""
    before = flat(locks_run.model().module)
    alone, rows = await run(locks_run.settings(0, steps=3))
    _, first = await run(locks_run.settings(0, steps=2), SAMPLERS, out=tmp_path)
    one = SAMPLERS.model_copy(update={"count": 1})
    there, last = await run(locks_run.settings(0, steps=3), one, out=tmp_path)
    assert torch.equal(alone, there) and not torch.equal(before, alone)
    assert rewards(rows) == rewards(first) + rewards(last)


async def test_a_sampler_that_is_killed_changes_nothing(monkeypatch):
    chosen, fleets, publish = locks_run.settings(0, steps=6), [], SamplerFleet.publish

    def noted(fleet, policies):
        fleets.append(fleet)
        publish(fleet, policies)

    monkeypatch.setattr(SamplerFleet, "publish", noted)
    here = await run(chosen)
    trained, heard = locks_run.model(), Rows()
    chosen = chosen.with_(samplers=SAMPLERS)
    parts = locks_run.game(), locks_run.team(trained, 0.3), locks_run.problems(), chosen
    running = asyncio.create_task(train(*parts, loggers=[heard]))
    while len(heard.rows) < 2 and not running.done():
        await asyncio.sleep(0.02)
    lost, *_ = await fleets[0].processes.pids()
    os.kill(lost, signal.SIGKILL)
    await running
    assert torch.equal(here[0], flat(trained.module)) and rewards(here[1]) == rewards(heard.rows)


@pytest.mark.parametrize("changes", [{}, {"groups_per_update": 2}], ids=["steps", "agentic"])
async def test_above_0_no_turn_is_older_than_the_bound_lost_or_trained_twice(changes, tmp_path):
    chosen = locks_run.settings(2, steps=6, **changes)
    _, rows = await run(chosen, SAMPLERS, out=tmp_path)
    assert max(row["pipeline/oldest"] for row in rows) <= 2
    assert all(row["pipeline/dropped"] == 0 for row in rows)
    ledger = [json.loads(line) for line in (tmp_path / LEDGER).read_text().splitlines()]
    groups = [group for row in ledger for group in row["groups"]]
    assert len(set(groups)) == len(groups) >= 6 * changes.get("groups_per_update", LOCKS)


async def test_demanded_weights_are_as_old_as_the_bound_allows_and_the_run_repeats():
    chosen, runs = locks_run.settings(2, steps=5), []
    for count in (1, 2):
        samplers = SAMPLERS.model_copy(update={"count": count, "refresh": "demanded"})
        weights, rows = await run(chosen, samplers)
        assert [row["pipeline/age"] for row in rows] == [0, 1, 2, 2, 2]
        runs.append((weights, rewards(rows)))
    assert torch.equal(runs[0][0], runs[1][0]) and runs[0][1] == runs[1][1]


async def test_a_fast_sampler_acts_more_often_than_a_slow_one(tmp_path):
    team = replace(locks_run.team(locks_run.model()), make_agents=partial(locks_run.uneven_agents, tmp_path))
    samplers = SAMPLERS.model_copy(update={"concurrency": 1})
    async with sampled_by(team, samplers) as players:
        await both(players)
        players.refresh(team.policies)
        agent = players.agents["solver_0"]
        [problem, *_] = locks_run.problems()
        acts = (agent.act({"problem": problem.statement}, 1, seed) for seed in range(20))
        await asyncio.gather(*acts)
    slow, fast = (locks_run.acts_in(tmp_path / name) for name in ("slow", "fast"))
    assert slow + fast == 20 and fast >= locks_run.MANY


@pytest.mark.parametrize("by_file", [False, True])
def test_the_simplest_call_trains_and_leaves_no_process(by_file, tmp_path):
    cpus = ray.available_resources()["CPU"]
    run = RunSettings(
        steps=2,
        problems_per_step=2,
        rollouts=GroupedSettings(group=2, branches=1),
        sampling=Sampling(max_tokens=4),
        pipeline=PipelineSettings(staleness=1),
    )
    if by_file:
        tables = {"environment": {"id": "arithmetic-solve"}, "team": {"model": "tiny"}, "samplers": SAMPLERS}
        history = mars_env.train(run.with_(**tables, out=str(tmp_path), engine={"context": 512}))
    else:
        model = tiny_model(context=512)
        history = mars_env.train("arithmetic-solve", models=model, run=run.with_(samplers=SAMPLERS))
    assert [step.step for step in history] == [1, 2]
    wait_until(lambda: ray.available_resources().get("CPU") == cpus)


async def test_adapters_are_trained_while_samplers_act():
    start = locks_run.model()
    adapter = add_adapters(start.module, ["opener"])["opener"]
    before = flat(adapter)
    model = HFModel((adapter, start.tokenizer), name="opener", batch=start.limits)
    game, chosen, heard = locks_run.game(), locks_run.settings(1).with_(samplers=SAMPLERS), Rows()
    team = make_team(chosen, ["solver_0"], [model], agent=locks_run.named_opener)
    await train(game, team, locks_run.problems(), chosen, loggers=[heard])
    assert max(row["pipeline/oldest"] for row in heard.rows) == 1
    assert not torch.equal(before, flat(adapter))


async def test_agents_that_cannot_be_sent_are_rejected_before_a_process_starts():
    team = locks_run.team(locks_run.model())
    blocked = replace(team, agents={"solver_0": Unsendable()})
    with pytest.raises(ConfigError):
        async with sampled_by(blocked, SAMPLERS):
            raise AssertionError("it started")


def test_the_example_trains_with_two_samplers(tmp_path):
    script = [sys.executable, EXAMPLES / "echo.py"]
    done = subprocess.run(script, cwd=tmp_path, capture_output=True, text=True, check=True)
    [rewards] = re.findall(r"^rewards: (.*)$", done.stdout, re.MULTILINE)
    assert len(rewards.split()) == 12


class Unsendable:
    policy = "opener"

    def __reduce__(self):
        raise TypeError("it holds a connection")
