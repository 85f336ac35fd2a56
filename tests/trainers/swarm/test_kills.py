"""Learner and sampler in processes of their own, either of them killed with SIGKILL."""

import asyncio
import os
from collections import Counter

import pytest
import swarm_run
import torch
from kills import TURNS, killed, lasting

from mars_env.loggers import read_jsonl
from mars_env.rollout.groups import step_jobs
from mars_env.trainers.local import Policy
from mars_env.trainers.loop import train
from mars_env.trainers.rollouts import LEDGER, read_lines
from mars_env.trainers.team import Team, refresher
from studies.rubrics.lock import opener

STEPS = 12


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the script that kills the run forks it")
@pytest.mark.slow
@pytest.mark.parametrize("bound", [0, 2])
def test_killed_and_started_again_either_process_costs_no_turn(tmp_path, bound):
    killed(swarm_run, tmp_path, bound, STEPS)
    updates = lasting(read_jsonl(tmp_path / TURNS))
    assert list(updates) == list(range(1, STEPS + 1))
    assert len({row["attempt"] for update in updates.values() for row in update}) == 3
    turns = [row for update in updates.values() for row in update]
    wanted = {
        (job.tree_id, str(sample))
        for step in range(STEPS)
        for job in step_jobs(swarm_run.problems(), step=step, problems_per_step=swarm_run.LOCKS, seed=1)
        for sample in range(swarm_run.GROUP)
    }
    assert Counter((row["tree"], row["turn"]) for row in turns) == dict.fromkeys(
        wanted, 1
    )  # none twice, none lost
    assert max(row["age"] for row in turns) <= bound
    ledger = read_lines(tmp_path / LEDGER)
    assert [row["update"] for row in ledger] == list(range(1, STEPS + 1))
    if bound == 0:
        assert_bitwise_the_synchronous_run(tmp_path)


def assert_bitwise_the_synchronous_run(folder):
    both = swarm_run.model()
    policies = {"opener": Policy(both.module, both.tokenizer)}
    team = Team({"solver_0": opener(both)}, policies, refresher({"opener": both}))
    asyncio.run(train(swarm_run.game(), team, swarm_run.problems(), swarm_run.settings(0, STEPS)))
    found = torch.load(folder / "weights.pt", weights_only=True)
    state = both.module.state_dict()
    assert found.keys() == state.keys() and all(torch.equal(found[name], state[name]) for name in state)
