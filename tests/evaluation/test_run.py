"""Playing an evaluation: the baselines' folders and notes, and prices that are none."""

import asyncio
import inspect
import random

import pytest

import mars_env
from mars_env.agents import Corrector, Solver, Verifier
from mars_env.api import prepare, start_play
from mars_env.errors import ConfigError
from mars_env.evaluation.counters import Counters
from mars_env.models import ScriptedModel
from mars_env.rollout import read_run
from mars_env.types import Action, Grade, Problem, Sampling

PROBLEMS = [Problem(f"p{i}", f"Question {i}", "1") for i in range(8)]


def solver(lengths):
    """A Solver whose completions have these lengths, drawn by the call's seed."""

    def script(prompt, sample, seed):
        rng = random.Random(seed)
        return "w " * rng.choice(lengths) + rf"\boxed{{{rng.randint(1, 3)}}}"

    return ScriptedModel(script)


def coin(prompt, sample, seed):
    return f"Correctness: {random.Random(seed).choice(['Correct', 'Wrong'])}"


def team(lengths):
    own = Sampling(max_tokens=500)
    return {
        "solver_0": Solver(solver(lengths), sampling=own),
        "verifier_0": Verifier(ScriptedModel(coin)),
        "corrector_0": Corrector(solver(lengths), sampling=own),
    }


def played(agents, **settings):
    settings = {"problems": PROBLEMS, "baselines": True, **settings}
    return mars_env.evaluate("arithmetic-solve-verify-correct", agents=agents, **settings)


class Judge:
    async def grade(self, problem, text):
        return Grade.correct(tokens=700) if "1" in text else Grade.wrong("no 1")


def named(report):
    return {baseline.name: baseline for baseline in report.baselines}


def test_a_run_with_baselines_grows_in_its_folder(tmp_path):
    agents = team([5, 40, 900])
    first = played(agents, out=tmp_path, samples=1)
    grown = played(agents, out=tmp_path, samples=3)
    assert grown == played(agents, samples=3)
    assert named(first).keys() == named(grown).keys()
    name = "Single agent, going on writing"
    assert named(first)[name].detail != named(grown)[name].detail


@pytest.mark.parametrize(
    "prices",
    [
        (0.5, 2.0),
        *({"": price} for price in (0.5, ("a", "b"), (-1, 2), (1, 2, 3), (float("nan"), 1))),
        {"large": (1.0, 2.0)},  # there is no such agent
    ],
)
def test_prices_that_are_none_are_refused_before_anything_is_played(prices):
    trees = []
    with pytest.raises(ConfigError):
        played(team([10]), prices=prices, on_tree=trees.append)
    assert not trees


def test_open_problems_have_baselines_but_no_votes():
    """The whole run was played; then an error asked for a grader, which was given."""
    problems = [Problem(f"p{i}", "Write about one.", None, "open") for i in range(4)]
    report = played(team([10]), problems=problems, grader=Judge())
    assert {"Single agent, one sample", "Single agent, self-refinement"} <= named(report).keys()
    left_out = "A baseline is left out: problems of the kind 'open' have no answers to count in a vote"
    assert report.notes.count(left_out) == 2


def test_what_judges_sample_and_read_is_told_to_be_in_no_cost():
    seen, settings = [], {"problems": PROBLEMS, "agents": r"scripted:\boxed{1}", "prices": {"": (1.0, 1.0)}}
    judge = Verifier(ScriptedModel(["Correctness: Wrong"]))
    search = {**settings, "problems": PROBLEMS[:1], "nodes": 1, "on_tree": seen.append}
    report = mars_env.evaluate("arithmetic-tree-search", verifier=judge, **search)
    [turn] = seen[0].turns
    [completion] = turn.action.completions
    counted = completion.read_tokens + completion.sampled_tokens + turn.info["search_tokens"]
    assert report.cost == pytest.approx(counted / 1e6)
    report = mars_env.evaluate("arithmetic-solve", grader=Judge(), **settings)
    assert "5,600 tokens" in report.notes[0]
    searched = mars_env.evaluate("arithmetic-tree-search", grader=Judge(), oracle=True, **search)
    assert searched.metrics["judging_tokens"].estimate.value == 700  # there they are the search's


async def test_a_watched_evaluation_counts_turns_as_they_are_graded():
    counters, spec = Counters(), mars_env.spec("arithmetic-solve-verify-correct")
    plan = prepare(spec, team([1]), PROBLEMS, samples=1, seed=0, concurrency=1, baselines=False)
    async with start_play(plan, on_turns=counters.count_turns) as play:
        trees = play(plan.jobs, seed=0, concurrency=1, journal=None, change=lambda game: game)
        turns = [turn async for tree in trees for turn in tree.turns]
    solved = [turn.grade.score for turn in turns if turn.role == "solver"]
    assert counters.snapshot().correct["solver"] == (sum(solved), 8)


class Waiting:
    """An agent that answers so many times, and then waits for its gate."""

    policy = "waiting"

    def __init__(self, answers=0):
        self.calls, self.answers, self.gate = 0, answers, asyncio.Event()

    def identity(self):
        return {}

    async def act(self, observation, n, seed):
        self.calls += 1
        if self.calls > self.answers:
            await self.gate.wait()
        return [Action("\\boxed{5}")] * n


async def test_the_loop_goes_on_meanwhile():
    """Two runs end only because a task beside them lets them."""
    agent = Waiting()

    async def open_gate():
        agent.gate.set()

    runs = [mars_env.aevaluate("arithmetic-solve", agents=agent, limit=3) for _ in range(2)]
    one, two, _ = await asyncio.gather(*runs, open_gate())
    assert one.counts.episodes == two.counts.episodes == 3
    assert inspect.signature(mars_env.evaluate) == inspect.signature(mars_env.aevaluate)


async def test_a_cancelled_one_continues(tmp_path):
    out, agent = tmp_path / "run", Waiting(answers=10)
    options = {"limit": 20, "out": out, "concurrency": 4}
    task = asyncio.ensure_future(mars_env.aevaluate("arithmetic-solve", agents=agent, **options))
    while agent.calls < 14:
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(read_run(out).trees) >= 10
    again = Waiting(answers=20)
    report = await mars_env.aevaluate("arithmetic-solve", agents=again, **options)
    assert report.counts.episodes == 20 and again.calls == 10
