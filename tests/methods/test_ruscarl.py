"""RuscaRL's scaffold: shares by values computed by hand, what is recorded, and who refuses it."""

import math

import pytest

import mars_env
from mars_env.agents import Solver
from mars_env.distributed.hosts import Host, policies_of
from mars_env.envs import Game, GroupedSettings, grouped, solve
from mars_env.errors import ConfigError
from mars_env.grading.rubrics import Rubric, RubricGrader
from mars_env.methods.ruscarl import Scaffold, Scaffolded, with_criteria
from mars_env.models import ScriptedModel
from mars_env.rollout import Job, collect
from mars_env.types import Problem, Sampling, TrainingAsk

ROWS = [{"text": f"It says {word}.", "check": {"contains": word}} for word in ("one", "two", "three", "four")]
PROBLEM = Problem("p", "Count.", None, "open", {"rubric": ROWS})
RUBRIC = Rubric.from_rows(ROWS)


def agent(scaffold=None, **settings):
    solver = Solver(ScriptedModel(["one two"], ids=True), sampling=Sampling(max_tokens=64))
    return Scaffolded(solver, scaffold, **settings)


async def acted(agent, n=5, progress=0.0, seed=7):
    return await agent.act_in_training({"problem": "Count."}, n, seed, TrainingAsk(PROBLEM, progress))


def test_inside_the_group():
    assert [Scaffold(run="constant").share(i, 5, 0.9) for i in range(5)] == [1.0, 0.75, 0.5, 0.25, 0.0]
    binary = Scaffold(group="binary", first=2, run="constant")
    assert [binary.share(i, 4, 0) for i in range(4)] == [1, 1, 0, 0]
    assert Scaffold(group="all", run="constant").share(0, 1, 0.5) == 1.0
    with pytest.raises(ConfigError):
        Scaffold().share(0, 1, 0.0)


def test_over_the_run():
    def run(name, t, **changes):
        return Scaffold(group="all", run=name, **changes).share(0, 8, t)

    assert run("sigmoid", 0.2) == 0.5
    assert run("sigmoid", 0.21) == pytest.approx(1 / (1 + math.exp(1.25)))
    assert run("sigmoid", 0.0) == pytest.approx(1.0) and run("sigmoid", 1.0) == pytest.approx(0.0)
    assert run("sigmoid", 1.0, a=1e9) < 1e-300  # no overflow
    assert run("linear", 0.25) == 0.75
    assert run("power", 0.5, n=3) == 0.125
    assert run("constant", 1.0) == 1.0
    steps = [t / 349 for t in range(350)]  # the paper's 350 steps: from 0.9 to 0.1 in 12 of them
    assert sum(0.1 < run("sigmoid", t) < 0.9 for t in steps) == 12


def test_the_two_are_multiplied_and_the_number_is_rounded():
    scaffold = Scaffold(run="linear")
    assert scaffold.share(1, 5, 0.2) == pytest.approx(0.6)
    assert len(scaffold.choose(RUBRIC.criteria, 0.6, seed=0)) == 2  # round(2.4)
    assert len(scaffold.choose(RUBRIC.criteria, 0.9, seed=0)) == 4  # round(3.6)
    drawn = {tuple(c.id for c in scaffold.choose(RUBRIC.criteria, 0.5, seed)) for seed in range(50)}
    assert len(drawn) == 6  # every pair of the four, in their order
    assert all(list(ids) == sorted(ids) for ids in drawn)


def test_in_the_given_order_the_last_one_is_shown_only_at_a_share_of_one():
    rows = [{"text": "Boxed.", "tags": ["format"]}, *ROWS]
    criteria = Rubric.from_rows(rows).criteria
    scaffold = Scaffold(order="given")
    assert [c.id for c in scaffold.choose(criteria, 0.0, 0)] == ["c1"]
    assert [c.id for c in scaffold.choose(criteria, 0.99, 0)] == ["c1", "c2", "c3", "c4"]
    assert len(scaffold.choose(criteria, 1.0, 0)) == 5


def test_at_the_start_of_a_run_the_first_sample_sees_the_whole_given_order():
    scaffold = Scaffold(order="given")  # the sigmoid begins at 1 - 1.4e-11

    def numbers(t, size=5):
        return [len(scaffold.choose(RUBRIC.criteria, scaffold.share(i, size, t), 0)) for i in range(size)]

    assert numbers(0.0) == numbers(1 / 349) == [4, 3, 2, 1, 0]
    assert numbers(0.15) == [3, 2, 1, 0, 0]  # 0.998
    many = Rubric.from_rows([{"text": str(i)} for i in range(22)]).criteria
    shares = [Scaffold(run="constant").share(i, 23, 0.0) for i in range(23)]
    assert [len(scaffold.choose(many, share, 0)) for share in shares] == [*range(22, -1, -1)]


async def test_each_sample_has_its_own_share_and_records_both_prompts():
    helped = agent(Scaffold(run="constant"))
    actions = await acted(helped)
    plain = helped.model.encode(helped.prompt({"problem": "Count."}))
    lengths = [len(action.completions[0].prompt_ids) for action in actions]
    assert lengths == sorted(lengths, reverse=True) and lengths[-1] == len(plain)
    assert [action.completions[0].train_prompt_ids for action in actions] == [plain] * 4 + [()]
    assert [a.completions[0] for a in actions] == [a.completions[0] for a in await acted(helped)]


async def test_the_prompt_that_was_read_can_be_trained_on():
    actions = await acted(agent(Scaffold(group="all", run="constant"), train_on="read"))
    assert all(not action.completions[0].train_prompt_ids for action in actions)


def test_criteria_go_into_the_system_message():
    criteria = Rubric.from_rows([{"text": "a", "points": 2}, {"text": "b", "points": -1}]).criteria
    said = with_criteria(
        [{"role": "system", "content": "Solve."}, {"role": "user", "content": "?"}], criteria
    )
    assert [message["role"] for message in said] == ["system", "user"]
    assert said[0]["content"].startswith("Solve.\n\n") and "- a (2 points)" in said[0]["content"]
    text = said[0]["content"]
    assert text.index("- a") < text.index("avoid") < text.index("- b")
    assert with_criteria("Text", criteria).endswith("\n\nText")
    with pytest.raises(ConfigError):
        with_criteria([1, 2], criteria)


async def test_the_engine_tells_progress_only_in_training():
    game = Game(solve(), RubricGrader(), grower=grouped(GroupedSettings(group=4)))
    [tree] = await collect(game, {"solver_0": agent()}, [Job(PROBLEM, progress=0.0)], seed=0)
    assert [bool(t.action.completions[0].train_prompt_ids) for t in tree.turns] == [True, True, True, False]
    [refused] = await collect(game, {"solver_0": agent()}, [Job(PROBLEM)], seed=0)
    assert "for training alone" in refused.fault


def test_an_evaluation_refuses_a_scaffold():
    with pytest.raises(ConfigError):
        mars_env.evaluate("aime-solve", problems=[PROBLEM], agents=agent(), grader=RubricGrader())
    plain = agent().agent
    report = mars_env.evaluate("aime-solve", problems=[PROBLEM], agents=plain, grader=RubricGrader())
    assert report.counts.episodes == 1


async def test_workers_refuse_a_scaffold():
    with pytest.raises(ConfigError):
        await Host(lambda: {"solver_0": agent()}).apply(policies_of)
