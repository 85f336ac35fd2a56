"""Faults of model servers: tried again where that helps, otherwise the tree is discarded with its reason."""

import asyncio
import time

import pytest
from sums_team import game, stored, sums, told

from mars_env.agents import make_agents
from mars_env.errors import ServerDown
from mars_env.models import HTTPModel
from mars_env.rollout import Job, read_run
from mars_env.types import Problem

PROBLEMS = sums(10)
GAME = game()


async def run(directory, url, *, problems=PROBLEMS, seconds=90, on_tree=None, **options):
    """Play every problem four times, stored; the trees that the store then holds, without their timings."""
    options = {"backoff": 0.01, "attempts": 12, "timeout": 20.0} | options
    jobs = [Job(problem, sample) for sample in range(4) for problem in problems]
    async with asyncio.timeout(seconds):
        agents = make_agents(HTTPModel(url, "m", **options), GAME.rules.possible_agents)
        async for tree in stored(directory, GAME, agents, jobs, problems, seed=3, concurrency=8):
            if on_tree is not None:
                on_tree(tree)
    trees = read_run(directory).trees
    assert len(trees) == len(jobs)
    return list(map(told, trees))


async def undisturbed(chaos, directory, problems=PROBLEMS):
    trees = await run(directory, chaos.start().url, problems=problems)
    chaos.kill()
    await asyncio.sleep(0.05)  # until the loop's session knows that its connections are closed
    assert not any(tree.fault for tree in trees)
    return trees


@pytest.mark.parametrize(
    "faults", [("429",), ("500", "503"), ("malformed",), ("truncated", "closed"), ("hang",)]
)
async def test_passing_faults_change_nothing(chaos, tmp_path, faults):
    expected = await undisturbed(chaos, tmp_path / "calm")
    hangs = faults == ("hang",)
    chaos.start(*faults, rate=0.04 if hangs else 0.3)
    assert await run(tmp_path / "run", chaos.url, timeout=0.4 if hangs else 20.0) == expected


async def test_a_server_that_is_killed_and_comes_back_costs_nothing(chaos, tmp_path):
    expected = await undisturbed(chaos, tmp_path / "calm")
    chaos.start(seconds=0.02)
    finished, kills = [], []

    async def bring_back():
        await asyncio.sleep(0.3)  # away for a while: calls meet a closed port
        await asyncio.to_thread(chaos.start)

    def kill_once(tree):
        finished.append(tree)
        if len(finished) == 10:
            chaos.kill()
            kills.append(asyncio.ensure_future(bring_back()))

    assert await run(tmp_path / "run", chaos.url, on_tree=kill_once, backoff=0.1) == expected
    assert len(kills) == 1 and kills[0].done()


@pytest.mark.parametrize("fault", ["500", "malformed", "truncated", "hang"])
async def test_what_does_not_pass_is_a_fault_with_its_reason_and_never_a_reward(chaos, tmp_path, fault):
    """Half of all answers fail and nothing is tried again; then the run is taken up, and nothing is lost."""
    expected = await undisturbed(chaos, tmp_path / "calm")
    chaos.start(fault, rate=0.5)
    began = time.monotonic()
    trees = await run(tmp_path / "run", chaos.url, attempts=1, timeout=0.5)
    assert time.monotonic() - began < 300  # the server hangs for an hour
    given_up = {tree.id: tree for tree in trees if tree.fault}
    assert 10 < len(given_up) < 40
    for tree, whole in zip(trees, expected, strict=True):
        if tree.id in given_up:
            assert "ModelError" in tree.fault and tree.final is None
            assert tree.turns == whole.turns[: len(tree.turns)]  # what was finished before stays as it was
        else:
            assert tree == whole

    before = (tmp_path / "run" / "turns.jsonl").read_bytes()
    chaos.kill()
    chaos.start()
    assert await run(tmp_path / "run", chaos.url) == expected
    assert (tmp_path / "run" / "turns.jsonl").read_bytes().startswith(before)


@pytest.mark.parametrize("fault", ["400", "500", "hang"])
async def test_one_poisoned_problem_costs_its_own_trees_only(chaos, tmp_path, fault):
    poisoned = [*PROBLEMS[:4], Problem("bad", "POISON \ud800 {{ problem }} {0}", "1"), *PROBLEMS[4:]]
    expected = await undisturbed(chaos, tmp_path / "calm", poisoned)
    chaos.start(fault)
    trees = await run(tmp_path / "run", chaos.url, problems=poisoned, attempts=2, timeout=0.5)
    for tree, calm in zip(trees, expected, strict=True):
        if tree.problem.id == "bad":
            assert tree.fault and tree.final is None and not tree.turns
        else:
            assert tree == calm


@pytest.mark.parametrize("fault", ["hang", "503", "gone"])
async def test_a_server_that_stays_down_ends_the_run_which_continues(chaos, tmp_path, fault):
    expected = await undisturbed(chaos, tmp_path / "calm")
    chaos.start(seconds=0.02)
    finished = []

    def fail(tree):
        finished.append(tree.id)
        if len(finished) == 10:
            chaos.kill()
            if fault != "gone":
                chaos.start(fault, rate=1.0)

    with pytest.raises(ServerDown):
        await run(tmp_path / "run", chaos.url, on_tree=fail, patience=2.0, timeout=0.2)
    stored = {tree.id: tree for tree in read_run(tmp_path / "run").trees}
    assert set(finished) <= stored.keys() and not any(tree.fault for tree in stored.values())
    chaos.kill()
    chaos.start()
    assert await run(tmp_path / "run", chaos.url) == expected


async def test_the_wall_clock_may_jump(chaos, tmp_path, monkeypatch):
    """Nothing waits for, times out by or measures with the wall clock, which others set."""
    expected = await undisturbed(chaos, tmp_path / "calm")
    real, jumps = time.time, iter(range(10**9))
    monkeypatch.setattr(time, "time", lambda: real() + (-1) ** next(jumps) * 86_400.0 * 365)
    chaos.start("429", "500", rate=0.3)
    assert await run(tmp_path / "run", chaos.url) == expected
    turns = [turn for tree in read_run(tmp_path / "run").trees for turn in tree.turns]
    assert all(0 < turn.seconds < 60 for turn in turns)
    assert all(0 <= turn.grade.seconds < 60 for turn in turns if turn.grade)
