"""What graders in other processes give, without Ray: the pool calls the host in this process."""

from functools import partial

import pytest

from mars_env.agents import make_agents as make_named_agents
from mars_env.distributed.hosts import (
    Host,
    RemoteGrader,
    graders_of,
    policies_of,
    with_remote_graders,
    worker_of,
)
from mars_env.envs import Game, solve
from mars_env.evaluation.plan import evaluated_game
from mars_env.grading import grader_for
from mars_env.grading.rubrics import RubricGrader
from mars_env.models import ScriptedModel
from mars_env.types import Problem

SAYS = '{"explanation": "e", "met": %s}'
KIND = Problem("p", "Be kind.", None, "open", {"rubric": [{"text": "It is kind."}]})


def strict_in_evaluation():
    judges = ScriptedModel([SAYS % "true"]), ScriptedModel([SAYS % "false"])
    return Game(solve(), RubricGrader(judges[0], evaluation_judge=judges[1]), needs_reference=False)


def mathematics():
    return Game(solve(), grader_for("math"))


@pytest.mark.parametrize("change", [lambda game: game, evaluated_game])
@pytest.mark.parametrize(
    ("make_game", "problem"), [(strict_in_evaluation, KIND), (mathematics, Problem("q", "2 + 2?", "4"))]
)
async def test_remote_graders_judge_as_those_of_one_process(make_game, problem, change):
    one, remote = make_game(), with_remote_graders(make_game, Host(partial(graders_of, make_game)))
    for text in (r"\boxed{4}", r"\boxed{5}"):
        here, there = [await change(game).grader.grade(problem, text) for game in (one, remote)]
        assert (here.verdict, here.score, here.reason) == (there.verdict, there.score, there.reason)


def player(observation):
    return "4"


async def test_a_worker_acts_and_grades_unless_others_do():
    def make_agents():
        return make_named_agents({"solver": player}, ["solver_0"])

    both = Host(partial(worker_of, mathematics, make_agents))
    assert await both.apply(policies_of) == await Host(make_agents).apply(policies_of)
    grade = await RemoteGrader(both).grade(Problem("q", "2 + 2?", "4"), "4")
    assert grade.score is not None
    assert set(await Host(partial(worker_of, None, make_agents)).load()) == {"solver_0"}
