"""A server that always refuses one of 60 problems costs that problem alone; in virtual time."""

import asyncio
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_runs import ABOUT
from sums_team import sums, told
from virtual_servers import REFUSALS, Servers, address, serving

from benchmarks.simulator import run_virtual
from mars_env.agents import make_agents
from mars_env.envs import Game, solve
from mars_env.errors import ServerDown
from mars_env.evaluation.plan import LocalPlay, Plan
from mars_env.evaluation.report import build_report
from mars_env.evaluation.run import play_plan
from mars_env.models import HTTPModel
from mars_env.problems import ProblemSet
from mars_env.rollout import Job, play_all, read_run
from mars_env.types import Grade

PROBLEMS = sums(60)
BAD = PROBLEMS[17]


class ByNumber:
    """A grader without processes, which virtual time cannot wait for."""

    async def grade(self, problem, text):
        return Grade.correct() if text.endswith("{4}") else Grade.wrong("another number")


GAME = Game(solve(), ByNumber())


def asked(problem):
    """An expression for requests about a problem."""
    return problem.statement.replace("+", "[+]").replace("?", "[?]")


async def play(hosts="a", problems=PROBLEMS, concurrency=16):
    """The trees of a run and when each came."""
    agents = make_agents(HTTPModel(address(*hosts), "m"), GAME.rules.possible_agents)
    jobs = [Job(problem) for problem in problems]
    played = play_all(GAME, agents, jobs, seed=1, concurrency=concurrency)
    return [(told(tree), asyncio.get_running_loop().time()) async for tree in played]


def run(servers, **options):
    with serving(servers):
        played = run_virtual(play(**options))
    return {tree.id: tree for tree, _ in played}, [at for _, at in played]


@cache
def calm_run():
    """A run of which nothing is refused."""
    return run(Servers())


@pytest.mark.parametrize("refusal", [name for name in REFUSALS if name != "unreachable"])
def test_the_others_come_in_time_and_the_report_names_it(refusal):
    calm, times = calm_run()
    trees, at = run(Servers(refused=asked(BAD), refusal=refusal))
    lost = trees.pop(f"{BAD.id}#0")
    assert "ModelError" in lost.fault and lost.final is None
    assert trees == {name: tree for name, tree in calm.items() if name != lost.id}
    assert sorted(at)[-2] <= 2 * max(times) and max(at) < 600  # the others; the run within its patience
    report = build_report([*trees.values(), lost], ABOUT)
    assert report.counts.lost == (lost.id,) and lost.id in report.notes[0]
    assert report.bounds == (59 / 60, 1.0) and "59 of 60 episodes finished" in report.headline


@settings(max_examples=25, deadline=None)
@given(
    refused=st.sets(st.integers(0, 59), max_size=12),
    refusal=st.sampled_from([name for name in REFUSALS if name != "unreachable"]),
    hosts=st.sampled_from(["a", "abc"]),
    concurrency=st.integers(1, 64),
)
def test_any_refused_trees_are_lost_alone(refused, refusal, hosts, concurrency):
    """Invariant 4: everybody else's results are those of a run without the faults."""
    calm, _ = calm_run()
    servers = Servers(refused="|".join(asked(PROBLEMS[i]) for i in refused) or "(?!)", refusal=refusal)
    trees, _ = run(servers, hosts=hosts, concurrency=concurrency)
    lost = {PROBLEMS[i].id for i in refused}
    assert {tree.problem.id for tree in trees.values() if tree.fault} == lost
    assert all(trees[name] == calm[name] for name in trees if trees[name].problem.id not in lost)


def evaluate(servers, out, concurrency=1):
    """A stored evaluation."""
    agents = make_agents(HTTPModel(address("a"), "m"), GAME.rules.possible_agents)
    plan = Plan(
        title="sums-solve",
        problems=ProblemSet("sums", PROBLEMS[10:20]),
        samples=1,
        seed=1,
        concurrency=concurrency,
        baselines=False,
        config={"must_match": {}, "may_change": {}},
        game=GAME,
        make_game=lambda: GAME,
        make_agents=lambda: agents,
    )
    with serving(servers):
        return run_virtual(play_plan(plan, LocalPlay(GAME, agents), out=out))


def test_a_resumed_run_plays_lost_trees_once_more_and_goes_on(tmp_path):
    refused = Servers(refused=asked(BAD), refusal="502")
    for _ in range(2):
        before = sum(refused.requests.values())
        report, trees = evaluate(refused, tmp_path)
        assert report.counts.lost == (f"{BAD.id}#0",) and len(trees) == 10
        assert sum(refused.requests.values()) > before  # it was played once more
    report, _ = evaluate(Servers(), tmp_path)
    assert not report.counts.lost and report.bounds is None


def test_a_tree_at_which_a_run_ended_does_not_end_the_resumed_run(tmp_path):
    """A server that refuses even the harmless request cannot be told from one that is down."""
    servers = Servers(refused=f"{asked(BAD)}|Hello", refusal="500")
    with pytest.raises(ServerDown):
        evaluate(servers, tmp_path)
    [lost] = [tree for tree in read_run(tmp_path).trees if tree.fault]
    assert lost.problem.id == BAD.id
    report, trees = evaluate(servers, tmp_path)
    assert report.counts.lost == (lost.id,) and sum(not tree.fault for tree in trees) == 9


def test_an_outage_ends_the_run_after_the_patience_and_loses_nothing(tmp_path):
    servers = Servers(dead=["a"], refusal="unreachable")
    with pytest.raises(ServerDown):
        evaluate(servers, tmp_path, concurrency=8)
    servers.dead.clear()
    report, _ = evaluate(servers, tmp_path)
    assert not report.counts.lost
