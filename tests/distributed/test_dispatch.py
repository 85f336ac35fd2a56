"""Assigning trees, with workers in this process that are lost when the tests say so."""

import asyncio
import random
from contextlib import aclosing
from dataclasses import replace

import pytest
from messages import raises
from sums_team import PROBLEMS, game, grouped_game, jobs, search_game, team, told

from mars_env.distributed.dispatch import CannotStart, WorkerLost, dispatch
from mars_env.distributed.worker import Assignment, RunContext, Worker, WorkerReport
from mars_env.errors import MarsError
from mars_env.rollout import Job, Store, collect, read_run

RUN = RunContext(seed=7)


class LocalWorker:
    """A worker in this process; `loses` says after each exchange whether it is lost, with its news."""

    def __init__(
        self, make_game=game, make_agents=team, loses=lambda assignments, news: False, starts=lambda: True
    ):
        self.make = make_game, make_agents
        self.loses, self.starts = loses, starts
        self.worker, self.started, self.discarded = None, 0, 0

    async def begin(self, run):
        if not self.starts():
            raise CannotStart("there is no room")
        if self.worker is None:
            self.started += 1
            self.worker = Worker()
            await self.worker.setup(*self.make)
        await self.worker.begin(run)

    async def exchange(self, assignments):
        news = await self.worker.exchange(assignments)
        if self.loses(assignments, news):
            await self.discard()
            raise WorkerLost("the worker is lost")
        return news

    async def discard(self):
        self.discarded += 1
        worker, self.worker = self.worker, None
        if worker is not None:
            await worker.begin(RUN)


async def played(workers, wanted, run=RUN, **options):
    async with aclosing(dispatch(workers, wanted, run, **options)) as trees:
        found = {tree.id: tree async for tree in trees}
    return [told(found[job.tree_id]) for job in wanted]


async def expected(wanted, make_game=game):
    return [told(tree) for tree in await collect(make_game(), team(), wanted, seed=RUN.seed)]


GAMES = pytest.mark.parametrize(
    "make_game", [game, grouped_game, search_game], ids=["episodes", "groups", "searches"]
)


@GAMES
@pytest.mark.parametrize("workers", [1, 3])
async def test_workers_play_the_trees_of_one_process(make_game, workers):
    wanted = jobs(3)
    workers = [LocalWorker(make_game) for _ in range(workers)]
    trees = await played(workers, wanted, concurrency=8)
    assert trees == await expected(wanted, make_game)
    assert all(tree.turns and not tree.fault for tree in trees)
    assert all(worker.started == 1 for worker in workers)


@GAMES
async def test_lost_workers_cost_nothing_but_their_unfinished_turns(make_game, tmp_path):
    wanted, chance, heard = jobs(4), random.Random(3), []
    losses = []

    def loses(assignments, news):
        lost = bool(news.events) and len(losses) < 5 and chance.random() < 0.3
        if lost:
            losses.append(news)
        return lost

    workers = [LocalWorker(make_game, loses=loses) for _ in range(2)]
    with Store(tmp_path, {"seed": 7}, PROBLEMS) as store:
        trees = await played(
            workers, wanted, replace(RUN, attempts=9), concurrency=6, journal=store, on_turns=heard.extend
        )
    assert trees == await expected(wanted, make_game)
    assert len(losses) == 5
    stored = read_run(tmp_path).trees
    assert sorted(map(str, map(told, stored))) == sorted(map(str, trees))
    rows = (tmp_path / "turns.jsonl").read_bytes().count(b"\n")
    assert rows == len(heard) == sum(len(tree.turns) for tree in trees)  # none was reported twice


async def test_a_tree_that_ends_its_workers_is_discarded_and_takes_no_other_with_it():
    poisoned = f"{PROBLEMS[3].id}#0"
    there: dict[int, set[str]] = {}

    def worker(number):
        def loses(assignments, news):
            open_ = there.setdefault(number, set())
            open_ |= {assignment.job.tree_id for assignment in assignments}
            open_ -= {event.tree.id for event in news.events if hasattr(event, "turn_ids")}
            if poisoned in open_ or any(assignment.job.tree_id == poisoned for assignment in assignments):
                there[number] = set()
                return True
            return False

        return LocalWorker(loses=loses)

    wanted = jobs(2)
    trees = await played([worker(0), worker(1)], wanted, concurrency=8)
    good = await expected(wanted)
    for job, tree, sound in zip(wanted, trees, good, strict=True):
        if job.tree_id == poisoned:
            assert tree.fault == "its worker was lost 3 times: the worker is lost" and tree.final is None
        else:
            assert tree == sound


async def test_what_was_stored_before_is_not_played_again(tmp_path):
    wanted = jobs(2)
    with Store(tmp_path, {"seed": 7}, PROBLEMS) as store:
        async with aclosing(dispatch([LocalWorker()], wanted, RUN, concurrency=4, journal=store)) as trees:
            for _ in range(5):
                await anext(trees)
    before = (tmp_path / "turns.jsonl").read_bytes()
    with Store(tmp_path, {"seed": 7}, PROBLEMS) as store:
        owed = [job for job in wanted if job.tree_id not in store.finished]
        assert len(owed) <= len(wanted) - 5
        heard = []
        await played([LocalWorker(), LocalWorker()], owed, journal=store, on_turns=heard.extend)
    stored = read_run(tmp_path).trees
    assert sorted(map(str, map(told, stored))) == sorted(map(str, await expected(wanted)))
    after = (tmp_path / "turns.jsonl").read_bytes()
    assert after.startswith(before) and after.count(b"\n") == before.count(b"\n") + len(heard)


@pytest.mark.parametrize("under_way", [True, False])
async def test_closing_discards_a_worker_with_what_is_under_way_alone(under_way):
    worker = LocalWorker()
    trees = dispatch([worker], jobs(5) if under_way else jobs(1)[:1], RUN, concurrency=4)
    await anext(trees)
    await trees.aclose()
    assert (worker.discarded, worker.worker is None) == (int(under_way), under_way)


async def test_a_worker_that_cannot_start_leaves_the_work_to_the_others(caplog):
    workers = [LocalWorker(), LocalWorker(starts=lambda: False)]
    wanted = jobs(2)
    assert await played(workers, wanted, concurrency=4) == await expected(wanted)
    assert "there is no room; the others continue" in caplog.text


async def test_where_none_can_start_the_run_ends_and_says_why():
    with raises(CannotStart):
        await played([LocalWorker(starts=lambda: False) for _ in range(2)], jobs(1))


async def test_nothing_to_play_starts_nobody():
    worker = LocalWorker(starts=lambda: False)
    assert await played([worker], []) == []


@pytest.mark.parametrize("error", [MarsError, TimeoutError])
async def test_a_failure_around_the_agents_ends_the_run(error):
    def made():
        class Broken(type(game().rules)):
            def note(self, state, action):
                raise error("no rules today")

        return replace(game(), rules=Broken())

    with raises(error):
        await played([LocalWorker(made)], jobs(1))


async def test_the_number_of_open_trees_is_bounded():
    most = []
    at_once = {}

    class Counting(LocalWorker):
        async def exchange(self, assignments):
            at_once[id(self)] = at_once.get(id(self), 0) + len(assignments)
            most.append(sum(at_once.values()))
            news = await super().exchange(assignments)
            at_once[id(self)] -= sum(hasattr(event, "turn_ids") for event in news.events)
            return news

    await played([Counting() for _ in range(3)], jobs(6), concurrency=7)
    assert max(most) == 7


async def test_an_exchange_of_an_earlier_run_reports_nothing_of_the_next_one():
    worker = Worker()
    await worker.setup(game, team)
    await worker.begin(RUN)
    forgotten = asyncio.create_task(worker.exchange([]))
    await asyncio.sleep(0)
    await worker.begin(RunContext(seed=8))
    news = await worker.exchange([Assignment(Job(PROBLEMS[0]), {})])
    assert news.events and await forgotten == WorkerReport((), {})
