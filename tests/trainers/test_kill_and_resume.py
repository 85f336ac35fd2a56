import os
from collections import Counter

import mars2_run
import pytest
import tiny_team
from kills import TURNS, killed, lasting

from mars_env.loggers import read_jsonl
from mars_env.rollout.groups import step_jobs
from mars_env.trainers.rollouts import LEDGER, read_lines

forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="the script that kills the run forks it")


@forks
@pytest.mark.parametrize("every", [1, 3])
def test_killed_at_random_moments_a_run_ends_bitwise_the_same(toy, tmp_path, every):
    never_killed = toy.train(None, every)
    result = killed(toy, tmp_path, every, 3)
    assert result["result"] == never_killed
    assert result["killed"] == 3
    assert result["resumed"] >= 1  # not all kills came before the first checkpoint
    assert [row["step"] for row in read_jsonl(tmp_path / "metrics.jsonl")] == list(range(1, toy.STEPS + 1))


@forks
def test_killed_asynchronous_training_on_trees_loses_repeats_and_over_ages_no_turn(tmp_path):
    result = killed(mars2_run, tmp_path, 2, 2)  # a checkpoint every two steps
    assert result["killed"] == 2 and result["resumed"] >= 1
    steps = list(range(1, mars2_run.STEPS + 1))

    updates = lasting(read_jsonl(tmp_path / TURNS))
    assert list(updates) == steps
    turns = [turn for update in updates.values() for turn in update]
    problems = tiny_team.environment(2).problems
    wanted = [
        job.tree_id
        for step in range(mars2_run.STEPS)
        for job in step_jobs(problems, step=step, problems_per_step=mars2_run.PROBLEMS, seed=mars2_run.SEED)
    ]
    assert len(set(wanted)) == len(wanted) == 3 * len(steps)
    nodes = Counter((turn["tree"], turn["turn"]) for turn in turns)
    assert set(nodes.values()) == {1}  # none is trained twice
    assert Counter(tree for tree, _ in nodes) == dict.fromkeys(wanted, 8)  # and none is lost
    assert {turn["policy"] for turn in turns} == {"a", "b"}
    assert 0 < max(turn["age"] for turn in turns) <= mars2_run.BOUND

    ledger = read_lines(tmp_path / LEDGER)
    assert [row["update"] for row in ledger] == steps
    for row in ledger:
        assert sorted(row["groups"]) == sorted({turn["tree"] for turn in updates[row["update"]]})
    figures = read_jsonl(tmp_path / "metrics.jsonl")
    assert [row["step"] for row in figures] == steps
    for row in figures:
        assert row["pipeline/oldest"] == max(turn["age"] for turn in updates[row["step"]])
        assert row["pipeline/dropped"] == 0
