"""The pipeline on a virtual clock: agents that act by chance, and what must hold at every moment."""

import asyncio
import random
from contextlib import aclosing
from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.simulator import run_virtual
from mars_env.envs import Game, GroupedSettings, grouped, solve_verify_correct, team_outcome
from mars_env.errors import ConfigError, ContextError, MarsError, ModelError
from mars_env.players import assign_agents
from mars_env.rollout import Job, collect, groups_of
from mars_env.rollout.groups import is_uniform
from mars_env.rollout.pipeline import PipelineSettings, Training, pipeline
from mars_env.rollout.staleness import least_updates
from mars_env.seeds import derive_seed
from mars_env.types import Action, Completion, Grade, Problem

GROUP = 3


class ExactGrader:
    async def grade(self, problem, text):
        return Grade.correct() if text == "right" else Grade.wrong("by chance")


EPISODES = Game(solve_verify_correct(schedule="training"), ExactGrader())
GAME = replace(EPISODES, grower=grouped(GroupedSettings(group=GROUP, branches=2)))


@dataclass
class Actor:
    """Acts by chance; the seed decides everything but the time it takes. `versions` are a policy's."""

    versions: list[int]
    delays: random.Random
    policy: str = "mars"
    fails: float = 0.0
    told: bool = True

    def version(self):
        return self.versions[-1]

    async def act(self, observation, n, seed):
        rng = random.Random(seed)
        first = self.version()
        await asyncio.sleep(self.delays.lognormvariate(0, 1))
        if rng.random() < self.fails:
            raise ModelError("lost")
        second = self.version()
        await asyncio.sleep(self.delays.lognormvariate(0, 1))
        solving = "solution" not in observation or "report" in observation
        texts = ("right", "wrong") if solving else ("Correctness: Correct", "Correctness: Wrong")
        versions = ((first, 2), (second, 1)) if self.told else ()
        return [Action(rng.choice(texts), (Completion("", versions=versions),)) for _ in range(n)]


class Laggard(Actor):
    """Acts with the oldest weights that it may."""

    def version(self):
        return self.versions[0] + least_updates()


def steps_of(count, problems):
    return [[Job(Problem(f"p{step}.{i}", "", ""), step) for i in range(problems)] for step in range(count)]


def plain(groups):
    """Groups as plain data, without what the schedule may change."""
    return {g.id: tuple((t.id, t.agent, t.text, t.reward) for t in g.turns) for g in groups}


def batches_of(actor, options, steps, game=GAME, **more):
    return pipeline(game, assign_agents(game.rules, actor), steps, options, seed=7, **more)


async def all_batches(actor, options, steps, *, train_time=2.0, game=GAME, late=(), first=0, **more):
    """Train on a virtual clock; checks on the way what must hold at every moment."""
    batches, size = [], options.groups_per_update
    async with aclosing(batches_of(actor, options, steps, game, **more)) as due:
        async for batch in due:
            assert batch.version == first + len(batches)
            assert all(age <= options.staleness for age in batch.ages)
            for group in batch.groups:
                for turn in group.turns:
                    for version, _ in turn.action.completions[0].versions:
                        assert batch.version - options.staleness <= version <= batch.version
            if size is not None:
                assert len(batch.groups) <= options.bound + int((options.refill - 1) * size)
            batches.append(batch)
            await asyncio.sleep(train_time)
            if len(batches) not in late:
                actor.versions.append(first + len(batches))
    return batches


def everything(actor, steps, game=GAME):
    """What a run without a pipeline plays."""
    jobs = [job for step in steps for job in step]
    return groups_of(run_virtual(collect(game, assign_agents(game.rules, actor), jobs, seed=7)))


STALENESS, CONCURRENCY = st.integers(0, 4), st.none() | st.integers(1, 9)
OPTIONS = st.builds(
    PipelineSettings,
    staleness=STALENESS,
    groups_per_update=st.none() | st.integers(1, 12),
    concurrency=CONCURRENCY,
) | st.builds(
    PipelineSettings,
    staleness=STALENESS,
    groups_per_update=st.integers(1, 12),
    refill=st.floats(1, 4),
    concurrency=CONCURRENCY,
)


@settings(max_examples=40)
@given(
    options=OPTIONS,
    chance=st.integers(0, 10**6),
    train_time=st.sampled_from([0.01, 1.0, 5.0, 40.0]),
    told=st.booleans(),
    fails=st.floats(0, 0.2),
    kind=st.sampled_from([Actor, Laggard]),
    first=st.integers(0, 9),  # of a run that is resumed
)
def test_no_group_is_lost_repeated_or_older_than_the_bound(
    options, chance, train_time, told, fails, kind, first
):
    steps, training = steps_of(4, 3), Training(version=first)
    actor = kind([first], random.Random(chance), fails=fails, told=told)
    batches = run_virtual(
        all_batches(actor, options, steps, train_time=train_time, first=first, training=training)
    )
    trained = [group for batch in batches for group in batch.groups]
    assert len({group.id for group in trained}) == len(trained)
    assert all(len(group.turns) == GROUP for group in trained)
    assert plain(trained) == plain(everything(Actor([0], random.Random(0), fails=fails), steps))
    assert not any(batch.dropped for batch in batches)
    trees = [tree for batch in batches for tree in batch.trained_tree_ids]
    assert len(trees) == len(set(trees))
    assert {tree.partition("/")[0] for tree in trees} <= {job.tree_id for step in steps for job in step}


def test_without_staleness_a_step_is_trained_as_a_whole_and_on_policy():
    steps = steps_of(3, 4)
    batches = run_virtual(all_batches(Actor([0], random.Random(1)), PipelineSettings(staleness=0), steps))
    assert len(batches) == 3
    for batch, step in zip(batches, steps, strict=True):
        expected = everything(Actor([0], random.Random(2)), [step])
        assert [group.id for group in batch.groups] == [group.id for group in expected]
        assert plain(batch.groups) == plain(expected)
        assert set(batch.ages) == {0}


def test_a_group_is_trained_before_its_tree_is_finished():
    async def first_batch():
        options = PipelineSettings(groups_per_update=2, staleness=3)
        async with aclosing(batches_of(Actor([0], random.Random(4)), options, steps_of(1, 4))) as due:
            return await anext(due)

    batch = run_virtual(first_batch())
    assert {turn.agent for group in batch.groups for turn in group.turns} == {"solver_0"}
    assert batch.trained_tree_ids == ()


class Able(Actor):
    """Solvers are nearly always right, as in a team that has learned: most of their groups are uniform."""

    async def act(self, observation, n, seed):
        if "solution" in observation:
            return await super().act(observation, n, seed)
        rng = random.Random(seed)
        await asyncio.sleep(self.delays.lognormvariate(0, 1))
        completion = Completion("", versions=((self.versions[-1], 3),))
        return [Action("wrong" if rng.random() < 0.1 else "right", (completion,)) for _ in range(n)]


def lessons(refill):
    """Of each update but the last: how many groups teach something, and how many there are."""
    options = PipelineSettings(groups_per_update=6, staleness=1, refill=refill)
    batches = run_virtual(all_batches(Able([0], random.Random(8)), options, steps_of(12, 4)))
    return [(sum(not is_uniform(group) for group in b.groups), len(b.groups)) for b in batches[:-1]]


def test_other_groups_are_played_in_the_place_of_uniform_ones():
    plain_run, refilled = lessons(refill=1), lessons(refill=4)
    assert min(lesson for lesson, _ in plain_run) < 6
    assert {groups for _, groups in plain_run} == {6}
    assert all(lesson >= 6 or groups >= 24 for lesson, groups in refilled)
    assert sum(lesson for lesson, _ in refilled) / len(refilled) >= 6
    assert all(groups <= 24 for _, groups in refilled)


def test_groups_without_versions_are_as_old_as_the_weights_under_which_they_were_started():
    begun = {}

    class Noting(Actor):
        async def act(self, observation, n, seed):
            begun[seed] = self.versions[-1]
            return await super().act(observation, n, seed)

    actor, options = Noting([0], random.Random(3), told=False), PipelineSettings(staleness=1)
    batches = run_virtual(all_batches(actor, options, steps_of(4, 3), train_time=50.0))
    ages = [
        batch.version - begun[derive_seed(7, group.turns[0].tree_id, group.turns[0].id)]
        for batch in batches
        for group in batch.groups
    ]
    assert set(ages) == {0, 1}
    assert ages == [age for batch in batches for age in batch.ages]


def test_the_queue_is_bounded_however_slow_the_trainer_is():
    running, peak, finished = set(), [], set()

    @dataclass
    class Watched(Actor):
        async def act(self, observation, n, seed):
            running.add(seed)
            peak.append(len(running) + len(finished))
            actions = await super().act(observation, n, seed)
            running.discard(seed)
            finished.add(seed)
            return actions

    options = PipelineSettings(groups_per_update=5, staleness=2)

    async def train():
        actor = Watched([0], random.Random(5), told=False)
        async with aclosing(batches_of(actor, options, steps_of(40, 1))) as due:
            async for batch in due:
                await asyncio.sleep(1000)
                for group in batch.groups:  # trained: they leave the queue
                    finished.discard(derive_seed(7, group.turns[0].tree_id, group.turns[0].id))

    run_virtual(train())
    assert max(peak) == options.bound == 15


def test_an_update_waits_for_what_it_would_make_too_old():
    class Slow(Actor):
        """The very first group takes a hundred times as long as the others."""

        async def act(self, observation, n, seed):
            if seed == derive_seed(7, "p0.0#0", "0"):
                await asyncio.sleep(1000)
            return await super().act(observation, n, seed)

    options = PipelineSettings(groups_per_update=3, staleness=2)
    batches = run_virtual(all_batches(Slow([0], random.Random(6), told=False), options, steps_of(20, 1)))
    [late] = [batch for batch in batches if "p0.0#0/0" in {group.id for group in batch.groups}]
    assert late.version == 2
    assert not any(batch.dropped for batch in batches)


def test_turns_of_a_model_that_lags_behind_are_dropped_and_counted(caplog):
    """The last resort: an engine that was not refreshed after an update."""
    steps = steps_of(12, 2)
    options = PipelineSettings(groups_per_update=6, staleness=1)
    batches = run_virtual(all_batches(Actor([0], random.Random(7)), options, steps, late=(3,)))
    dropped = sum(batch.dropped for batch in batches)
    trained = [group for batch in batches for group in batch.groups]
    everywhere = everything(Actor([0], random.Random(0)), steps)
    assert dropped > 0
    assert dropped == GROUP * (len(everywhere) - len(trained))
    assert caplog.text.count("is the model refreshed after each update") == dropped // GROUP


@pytest.mark.parametrize("size", [None, 2])
def test_a_model_that_never_gets_new_weights_ends_the_run(size):
    options = PipelineSettings(staleness=1, groups_per_update=size)
    with pytest.raises(MarsError):
        run_virtual(all_batches(Actor([0], random.Random(7)), options, steps_of(99, 2), late=range(99)))


def test_policies_that_are_not_trained_do_not_age():
    options = PipelineSettings(groups_per_update=4, staleness=0)
    actor = Actor([0], random.Random(8), policy="frozen")

    async def train():
        training = Training(policy_version={"mars": 9}.get)
        async with aclosing(batches_of(actor, options, steps_of(3, 2), training=training)) as due:
            return [batch async for batch in due]

    batches = run_virtual(train())
    assert sum(batch.dropped for batch in batches) == 0
    assert {age for batch in batches for age in batch.ages} == {0}


def test_closing_early_leaves_nothing_behind():
    async def train():
        due = batches_of(Actor([0], random.Random(12)), PipelineSettings(groups_per_update=1), steps_of(5, 3))
        await anext(due)
        await due.aclose()
        return len(asyncio.all_tasks())

    assert run_virtual(train()) == 1


def test_a_team_reward_needs_whole_trees():
    game = replace(GAME, team_reward=team_outcome)
    whole, parts = PipelineSettings(), PipelineSettings(groups_per_update=2)
    assert run_virtual(all_batches(Actor([0], random.Random(13)), whole, steps_of(1, 2), game=game))
    with pytest.raises(ConfigError):
        run_virtual(all_batches(Actor([0], random.Random(13)), parts, steps_of(1, 2), game=game))


@pytest.mark.parametrize("concurrency", [1, 2, 3])
def test_the_error_that_ends_a_run_is_told_while_its_tree_takes_time_to_close(concurrency):
    class Refuses(Actor):
        acted = 0

        async def act(self, observation, n, seed):
            if "solution" not in observation:
                return [Action("wrong")] * n
            self.acted += 1
            if self.acted == 1:
                await asyncio.sleep(5)
                raise ContextError("too long a prompt")
            try:
                await asyncio.sleep(20)
            finally:
                await asyncio.sleep(20)  # closing a connection takes a moment
            return [Action("Correctness: Wrong")] * n

    options = PipelineSettings(groups_per_update=100, concurrency=concurrency)
    game = replace(GAME, grower=grouped(GroupedSettings(group=GROUP, branches=3)))
    with pytest.raises(ContextError):
        run_virtual(all_batches(Refuses([0], random.Random(1)), options, steps_of(1, 3), game=game))
