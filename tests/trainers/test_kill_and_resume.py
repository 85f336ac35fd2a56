"""A run that is killed at any access to its files, damaged and continued ends as an undisturbed one."""

import asyncio
import shutil
import tempfile
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from file_kills import killed_at
from hypothesis import settings as profile
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test
from tiny_team import LOSS, made, weights

from mars_env.errors import StoreError
from mars_env.loggers import JsonlLogger, read_jsonl
from mars_env.rollout.groups import step_jobs
from mars_env.rollout.row_files import rows_of
from mars_env.trainers import train
from mars_env.trainers.checkpoints import newest_checkpoint
from mars_env.trainers.rollouts import LEDGER, SAMPLES

STEPS, PROBLEMS, BOUND = 3, 2, 2
TEAM = (2, ["a", "b"], 4)
"""Two agents and their policies, which grow trees of four nodes."""


def run(folder, staleness, *, steps=STEPS, every=1, **changes):
    """Train to the end, from what is in the folder; the weights."""
    env, team, settings = made(
        *TEAM,
        steps=steps,
        problems_per_step=PROBLEMS,
        pipeline={"staleness": staleness},
        train=LOSS.model_copy(update=changes),
        logging={"record": True},
        out=str(folder),
        checkpoint_every=every,
    )
    logger = JsonlLogger(folder / "metrics.jsonl")
    asyncio.run(train(env.game, team, env.problems, settings, loggers=[logger]))
    return {name: values.tolist() for name, values in weights(team).items()}


@cache
def undisturbed():
    """The weights and the files of a run in step that nothing disturbs."""
    with tempfile.TemporaryDirectory() as folder:
        return run(Path(folder), 0), written(Path(folder))


def written(folder):
    """What a run says that it has trained; metrics without times."""
    metrics = [
        {name: value for name, value in row.items() if "seconds" not in name and name != "time"}
        for row in read_jsonl(folder / "metrics.jsonl")
    ]
    return (folder / LEDGER).read_text(), (folder / SAMPLES).read_text(), metrics


class Attempts(RuleBasedStateMachine):
    """One run in several attempts."""

    staleness = 0

    def __init__(self):
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())

    @property
    def newest(self):
        return newest_checkpoint(self.folder)

    @rule(
        access=st.integers(1, 240),
        steps=st.integers(1, STEPS),
        every=st.integers(1, 3),
        again=st.booleans(),
    )
    def attempt(self, access, steps, every, again):
        done = int(self.newest.name[5:]) if self.newest else 0
        with killed_at(access, self.folder):
            how = {"gradient_checkpointing": again}
            run(self.folder, self.staleness, steps=max(done, steps), every=every, **how)

    @precondition(lambda self: self.newest)
    @rule(name=st.sampled_from(["state.json", "a/model.safetensors", "b/optimizer.state"]))
    def damage(self, name):
        path = self.newest
        data = (path / name).read_bytes()
        (path / name).write_bytes(bytes([data[0] ^ 1]) + data[1:])
        with pytest.raises(StoreError):
            run(self.folder, self.staleness)
        shutil.rmtree(path)  # as the message advises

    def teardown(self):
        found = run(self.folder, self.staleness)
        self.compare(found)
        shutil.rmtree(self.folder)

    def compare(self, found):
        assert (found, written(self.folder)) == undisturbed()


class AttemptsAhead(Attempts):
    """The same with rollouts that run ahead: no tree is lost or trained twice, and none is too old."""

    staleness = BOUND

    def compare(self, found):
        rows, steps = [row for _, row in rows_of(self.folder / LEDGER)], range(1, STEPS + 1)
        assert [row["update"] for row in rows] == [*steps]
        assert [row["step"] for row in read_jsonl(self.folder / "metrics.jsonl")] == [*steps]
        problems = made(*TEAM)[0].problems
        jobs = [
            job.tree_id
            for step in range(STEPS)
            for job in step_jobs(problems, step=step, problems_per_step=PROBLEMS, seed=3)
        ]
        assert sorted(tree for row in rows for tree in row["trees"]) == sorted(jobs)
        assert all(0 <= age <= BOUND for row in rows for age in row["ages"])
        nodes = Counter((row["tree_id"], row["turn_id"]) for _, row in rows_of(self.folder / SAMPLES))
        assert set(nodes.values()) == {1} and {tree for tree, _ in nodes} <= {*jobs}


@pytest.mark.parametrize("machine", [Attempts, AttemptsAhead])
def test_a_disturbed_run_ends_as_an_undisturbed_one(machine):
    run_state_machine_as_test(machine, settings=profile(max_examples=5, stateful_step_count=3, deadline=None))
