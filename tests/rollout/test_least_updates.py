"""Agents that act with the oldest weights that the pipeline allows: none of their turns gets too old."""

import asyncio
import random
from contextlib import aclosing
from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.simulator import run_virtual
from mars_env.envs import Game, GroupedSettings, SolveVerifyCorrect, grouped
from mars_env.envs.solve_verify_correct import TRAINING
from mars_env.players import assign_agents
from mars_env.rollout import Job, collect
from mars_env.rollout.pipeline import PipelineSettings, Training, pipeline
from mars_env.rollout.staleness import acting_after, least_updates
from mars_env.types import Action, Completion, Grade, Problem


class ByText:
    async def grade(self, problem, text):
        return Grade.correct() if text == "right" else Grade.wrong("by chance")


GAME = Game(SolveVerifyCorrect(TRAINING), ByText(), grower=grouped(GroupedSettings(group=2, branches=1)))


@dataclass
class Laggard:
    """Acts with the oldest weights that it may, after a random time."""

    first: int
    delays: random.Random
    policy: str = "mars"

    async def act(self, observation, n, seed):
        version = self.first + least_updates()
        await asyncio.sleep(self.delays.lognormvariate(0, 1))
        solving = "solution" not in observation or "report" in observation
        text = random.Random(seed).choice(("right", "wrong") if solving else ("Correctness: Wrong",))
        return [Action(text, (Completion("", versions=((version, 3),)),)) for _ in range(n)]


async def ages(bound, size, first, seed, train_time):
    steps = [[Job(Problem(f"p{step}.{i}", "", ""), step) for i in range(3)] for step in range(6)]
    actor = Laggard(first, random.Random(seed))
    options = PipelineSettings(staleness=bound, groups_per_update=size)
    found = []
    batches = pipeline(
        GAME, assign_agents(GAME.rules, actor), steps, options, seed=7, training=Training(version=first)
    )
    async with aclosing(batches) as due:
        async for batch in due:
            assert batch.dropped == 0
            found.append(batch.ages)
            await asyncio.sleep(train_time)
    return found


@settings(max_examples=40)
@given(
    st.integers(0, 4),
    st.sampled_from([None, 1, 2, 5]),
    st.integers(0, 9),
    st.integers(0, 99),
    st.floats(0, 9),
)
def test_no_turn_gets_too_old_in_a_new_or_a_resumed_run(bound, size, first, seed, train_time):
    found = run_virtual(ages(bound, size, first, seed, train_time))
    assert sum(map(len, found)) > 0
    assert all(age <= bound for batch in found for age in batch)


def test_by_steps_the_turns_are_exactly_as_old_as_the_bound():
    found = run_virtual(ages(2, None, 5, 0, 1.0))
    assert [set(batch) for batch in found] == [{0}, {1}, {2}, {2}, {2}, {2}]


async def test_outside_of_a_pipeline_nothing_is_said():
    told = []

    def act(observation):
        told.append(least_updates())
        return "Correctness: Correct"

    game = replace(GAME)
    await collect(game, assign_agents(game.rules, act), [Job(Problem("p", "", ""))], seed=0)
    assert set(told) == {None}


@pytest.mark.parametrize("updates", [0, 3])
def test_a_context_ends(updates):
    with acting_after(updates):
        assert least_updates() == updates
    assert least_updates() is None
