"""A run may be killed at any call, and its files may lose their ends: it continues to the same trees."""

import asyncio
import json
import shutil
import tempfile
from contextlib import aclosing, suppress
from dataclasses import replace
from functools import cache
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from sums_team import ByNumber, script, stored, sums, team, told

from mars_env.envs import Game, GroupedSettings, grouped, solve_verify_correct, team_outcome
from mars_env.errors import StoreError
from mars_env.models import ScriptedModel
from mars_env.rollout import Job, PipelineSettings, Store, collect, groups_of, read_run
from mars_env.rollout.pipeline import Training, pipeline

PROBLEMS = sums(3)
STEPS = [[Job(problem, sample) for problem in PROBLEMS] for sample in range(2)]
JOBS = [job for step in STEPS for job in step]
FILES = ("turns.jsonl", "trees.jsonl")


GAME = Game(
    solve_verify_correct(schedule="training"),
    ByNumber(),
    grower=grouped(GroupedSettings(group=3, branches=2)),
    team_reward=team_outcome,
)
GAMES = {False: GAME, True: replace(GAME, team_reward=None)}
"""By whether a pipeline trains the groups before their trees are finished."""


class Killed(BaseException):
    """Ends a run as a signal ends its process."""


class Mortal(ScriptedModel):
    """Is killed at a call."""

    def __init__(self, lives):
        super().__init__(script)
        self.lives = lives

    async def complete(self, prompt, n, sampling):
        self.lives -= 1
        if self.lives < 0:
            raise Killed
        return await super().complete(prompt, n, sampling)


@cache
def expected(is_pipelined):
    """The trees of a run without faults, by id."""
    trees = asyncio.run(collect(GAMES[is_pipelined], team(model=ScriptedModel(script)), JOBS, seed=1))
    return {tree.id: told(tree) for tree in trees}


def texts(groups):
    """What a training reads of groups."""
    return {group.id: [(turn.id, turn.text, turn.reward) for turn in group.turns] for group in groups}


class Runs(RuleBasedStateMachine):
    """One run that is played, killed, damaged and read in any order."""

    @initialize(is_pipelined=st.booleans())
    def choose(self, is_pipelined):
        self.path = Path(tempfile.mkdtemp())
        self.is_pipelined, self.is_damaged = is_pipelined, False
        self.trained = {}

    @rule(lives=st.integers(0, 40))
    def play_until_killed(self, lives):
        with suppress(Killed):
            self.play(lives)

    @rule(name=st.sampled_from(FILES), kept=st.floats(0, 1), zeros=st.sampled_from([0, 4096]))
    def lose_the_end_of_a_file(self, name, kept, zeros):
        """A torn line, or what a power failure takes."""
        if (self.path / name).exists():
            data = (self.path / name).read_bytes()
            (self.path / name).write_bytes(data[: int(kept * len(data))] + bytes(zeros))
            self.is_damaged = True

    @rule()
    def read(self):
        """Trees are read whole, or there is an error."""
        try:
            trees = read_run(self.path).trees
        except StoreError:
            return
        for tree in trees:
            assert told(tree) == expected(self.is_pipelined)[tree.id]

    def play(self, lives):
        before = self.rows()
        agents = team(model=Mortal(lives))
        try:
            asyncio.run(self.train(agents) if self.is_pipelined else self.collect(agents))
        finally:
            after = self.rows()
            assert after[: len(before)] == before
            places = [(row["tree"], row["id"]) for row in map(json.loads, after)]
            assert self.is_damaged or len({*places}) == len(places)

    async def collect(self, agents):
        async for _ in stored(
            self.path, GAMES[self.is_pipelined], agents, JOBS, PROBLEMS, seed=1, concurrency=3
        ):
            pass

    async def train(self, agents):
        options = PipelineSettings(groups_per_update=2, staleness=3)
        training = Training(trained={*self.trained})
        with Store(self.path, {}, PROBLEMS) as store:
            steps = [[job for job in step if job.tree_id not in store.finished] for step in STEPS]
            batches = pipeline(
                GAMES[self.is_pipelined], agents, steps, options, seed=1, training=training, journal=store
            )
            async with aclosing(batches) as due:
                async for batch in due:
                    groups = texts(batch.groups)
                    assert not groups.keys() & self.trained.keys()
                    self.trained |= groups

    def rows(self):
        """The whole lines of the turns."""
        file = self.path / "turns.jsonl"
        lines = file.read_bytes().splitlines(keepends=True) if file.exists() else []
        return [line for line in lines if line.endswith(b"\n")]

    def teardown(self):
        if not hasattr(self, "path"):
            return
        self.play(10**9)
        trees = {tree.id: tree for tree in read_run(self.path).trees}
        assert {name: told(tree) for name, tree in trees.items()} == expected(self.is_pipelined)
        everything = texts(groups_of(trees.values()))
        assert self.trained.items() <= everything.items()
        shutil.rmtree(self.path)


TestRuns = Runs.TestCase
TestRuns.settings = settings(max_examples=30, stateful_step_count=8, deadline=None)
