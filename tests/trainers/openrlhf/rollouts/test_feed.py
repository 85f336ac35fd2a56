"""Batches of the pipeline, asked for from a thread without an event loop."""

import asyncio
import signal
import threading
import time

import pytest
from messages import raises

from mars_env.errors import ModelError
from mars_env.players import assign_agents
from mars_env.trainers.openrlhf.rollouts.feed import RolloutFeed
from mars_env.trainers.openrlhf.rollouts.problems import DrawnProblems
from mars_env.trainers.openrlhf.settings import TeamSettings

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
def feed_of():
    """Feeds by how their agents act; what is not closed by a test is closed after it."""
    feeds = []

    def made(act, size=2, **overlap):
        problems = SETTINGS.training_problems()
        drawn, game = DrawnProblems(problems, 1, seed=0), SETTINGS.game()
        settings, agents = SETTINGS.model_copy(update=overlap), assign_agents(game.rules, act)
        feeds.append(RolloutFeed(game, agents, drawn, size, settings, lambda policy: None))
        return feeds[-1], drawn

    yield made
    for feed in feeds:
        feed.close()


def test_without_staleness_nothing_is_played_while_the_trainer_trains(feed_of):
    threads = set()

    def act(observation):
        threads.add(threading.current_thread().name)
        played.append(observation)
        return "Correctness: Correct"

    played = []
    feed, drawn = feed_of(act, staleness=0)
    batch = feed.next()
    seen = len(played)
    time.sleep(0.1)  # the trainer trains
    assert len(played) == seen
    assert len(batch.trained_tree_ids) == 2
    sizes = [len(batch.trained_tree_ids)]
    while (batch := feed.next()) is not None:
        sizes.append(len(batch.trained_tree_ids))
    assert sizes == [2, 2, 2]
    assert feed.next() is None
    assert drawn.updates == 3
    assert drawn.state_dict()["open"] == []
    assert threading.current_thread().name not in threads


def test_with_staleness_rollouts_go_on_meanwhile(feed_of):
    begun, played = [], []

    async def act(observation):
        begun.append(observation)
        await asyncio.sleep(0.05 * len(begun))  # the later, the slower
        played.append(observation)
        return "Correctness: Correct"

    feed, _ = feed_of(act, staleness=3, groups_per_update=1)
    assert len(feed.next().groups) == 1
    seen, deadline = len(played), time.monotonic() + 60
    while len(played) == seen and time.monotonic() < deadline:
        time.sleep(0.01)
    assert len(played) > seen


@pytest.mark.parametrize("groups", [None, 2], ids=["steps", "agentic"])
def test_a_model_that_is_gone_ends_the_run_and_no_problem_counts_as_trained(feed_of, groups):
    def act(observation):
        raise ModelError("the engine is lost")

    feed, drawn = feed_of(act, staleness=1, groups_per_update=groups)
    with raises(ModelError):
        feed.next()
    assert drawn.updates == 0
    assert len(drawn.state_dict()["open"]) >= 2


def test_a_problem_that_cannot_be_played_costs_its_own_tree_and_stays_open(feed_of):
    poisoned = SETTINGS.training_problems()[0]

    def act(observation):
        if observation["problem"] == poisoned.statement:
            raise ModelError("400: this prompt is refused")
        return "Correctness: Correct"

    feed, drawn = feed_of(act, staleness=0, size=1)
    sizes = []
    while (batch := feed.next()) is not None:
        sizes.append(bool(batch.groups))
    assert sorted(sizes) == [False, True, True, True, True, True]
    assert drawn.state_dict()["open"] == [(poisoned.id, 0)]


def test_an_evaluation_plays_beside_what_is_under_way(feed_of):
    feed, _ = feed_of(lambda observation: "Correctness: Correct", staleness=1)
    assert feed.next() is not None
    game = SETTINGS.evaluation_game()
    team = assign_agents(game.rules, lambda observation: r"\boxed{1} Correctness: Correct")
    trees = feed.play(game, team, SETTINGS.training_problems()[:3], samples=2, concurrency=4)
    assert len(trees) == 6
    assert feed.next() is not None


def test_an_interrupt_while_the_trainer_waits_ends_the_rollouts_and_the_thread(feed_of):
    begun, ended = threading.Event(), threading.Event()

    async def act(observation):
        begun.set()
        try:
            await asyncio.Event().wait()  # an engine that does not answer
        finally:
            ended.set()

    feed, _ = feed_of(act)

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

    feed, _ = feed_of(act, staleness=0)
    feed.next()
    time.sleep(0.2)
    feed.next()
    assert 0.02 <= feed.waited < feed.between
    assert feed.between >= 0.2
