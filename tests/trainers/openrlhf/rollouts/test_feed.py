"""Batches of the pipeline, asked for from a thread without an event loop."""

import asyncio
import signal
import threading
import time

import pytest
from messages import raises

from mars_env.errors import ModelError, StoreError
from mars_env.players import assign_agents
from mars_env.trainers.openrlhf.rollouts.feed import RolloutFeed
from mars_env.trainers.openrlhf.settings import TeamSettings
from mars_env.trainers.rollouts import rollouts
from mars_env.trainers.team import Team

SETTINGS = TeamSettings(
    env="arithmetic-solve-verify-correct",
    options={"schedule": "training"},
    problem_options={"split": "train", "seed": 0},
    problems=6,
    group=2,
    branches=1,
    sampling="random",
)


@pytest.fixture
def feed_of(tmp_path):
    """Feeds by how their agents act; what is not closed by a test is closed after it."""
    feeds = []

    def made(act, size=2, done=0, passes=1, problems=6, **overlap):
        settings = SETTINGS.model_copy(update={"problems": problems, **overlap})
        game, run = settings.game(), settings.run(size)
        team = Team(assign_agents(game.rules, act), {})
        where = {"done": done, "directory": tmp_path, "passes": passes}
        feeds.append(RolloutFeed(rollouts(game, team, settings.training_problems(), run, **where)))
        return feeds[-1]

    yield made
    for feed in feeds:
        feed.close()


def right(observation):
    return "Correctness: Correct"


def trees_of(feed):
    """The trees of all further batches."""
    return [batch.trained_tree_ids for batch in iter(feed.next, None)]


def test_without_staleness_nothing_is_played_while_the_trainer_trains(feed_of):
    threads = set()

    def act(observation):
        threads.add(threading.current_thread().name)
        played.append(observation)
        return "Correctness: Correct"

    played = []
    feed = feed_of(act, staleness=0)
    batch = feed.next()
    seen = len(played)
    time.sleep(0.1)  # the trainer trains
    assert len(played) == seen
    assert len(batch.trained_tree_ids) == 2
    assert list(map(len, trees_of(feed))) == [2, 2]
    assert feed.next() is None
    assert threading.current_thread().name not in threads


def test_each_pass_plays_each_problem_once_in_an_order_of_its_own(feed_of):
    trees = [tree for step in trees_of(feed_of(right, 4, passes=2, staleness=0)) for tree in step]
    names = [problem.id for problem in SETTINGS.training_problems()]
    assert sorted(trees) == sorted(f"{name}#{number}" for name in names for number in range(2))
    first, second = ([tree.rpartition("#")[0] for tree in part] for part in (trees[:6], trees[6:]))
    assert sorted(first) == sorted(second) == sorted(names) and first != second


def test_a_resumed_run_begins_again_what_was_not_trained_and_draws_the_rest(feed_of):
    whole = trees_of(feed_of(right, staleness=0))
    feed = feed_of(right, staleness=0)
    assert [feed.next().trained_tree_ids for _ in range(2)] == whole[:2]
    feed.close()
    assert trees_of(feed_of(right, staleness=0, done=1)) == whole[1:]  # the second has no checkpoint
    with raises(StoreError):
        feed_of(right, staleness=0, done=3, problems=1).next()


def test_with_staleness_rollouts_go_on_meanwhile(feed_of):
    begun, played = [], []

    async def act(observation):
        begun.append(observation)
        await asyncio.sleep(0.05 * len(begun))  # the later, the slower
        played.append(observation)
        return "Correctness: Correct"

    feed = feed_of(act, staleness=3, groups_per_update=1)
    assert len(feed.next().groups) == 1
    seen, deadline = len(played), time.monotonic() + 60
    while len(played) == seen and time.monotonic() < deadline:
        time.sleep(0.01)
    assert len(played) > seen


@pytest.mark.parametrize("groups", [None, 2], ids=["steps", "agentic"])
def test_a_model_that_is_gone_ends_the_run_and_no_problem_counts_as_trained(feed_of, groups):
    def act(observation):
        raise ModelError("the engine is lost")

    feed = feed_of(act, staleness=1, groups_per_update=groups)
    with raises(ModelError):
        feed.next()
    assert len(trees_of(feed_of(right, staleness=0))) == 3


def test_a_problem_that_cannot_be_played_costs_its_own_tree_and_stays_open(feed_of):
    poisoned = SETTINGS.training_problems()[0]

    def act(observation):
        if observation["problem"] == poisoned.statement:
            raise ModelError("400: this prompt is refused")
        return "Correctness: Correct"

    feed = feed_of(act, staleness=0, size=1)
    sizes = [bool(batch.groups) for batch in iter(feed.next, None)]
    assert sorted(sizes) == [False, True, True, True, True, True]
    assert trees_of(feed_of(right, staleness=0, done=6)) == [(f"{poisoned.id}#0",)]


def test_an_interrupt_while_the_trainer_waits_ends_the_rollouts_and_the_thread(feed_of):
    begun, ended = threading.Event(), threading.Event()

    async def act(observation):
        begun.set()
        try:
            await asyncio.Event().wait()  # an engine that does not answer
        finally:
            ended.set()

    feed = feed_of(act)

    def interrupt():
        begun.wait()
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        try:
            feed.next()
        finally:
            feed.close()
    thread.join()
    assert ended.is_set()


def test_the_time_that_the_trainer_waited_is_told(feed_of):
    def act(observation):
        time.sleep(0.02)
        return "Correctness: Correct"

    feed = feed_of(act, staleness=0)
    feed.next()
    time.sleep(0.2)
    feed.next()
    assert 0.02 <= feed.waited < feed.between
    assert feed.between >= 0.2
