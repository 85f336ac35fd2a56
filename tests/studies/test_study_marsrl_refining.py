"""The control of the first MarsRL study: its rows are the plan's, and its page is made of rows."""

import re

import pytest
from messages import raises
from turns import turn

import studies.marsrl_refining.study as study
from mars_env.envs import SolveVerifyCorrect
from mars_env.envs.solve_verify_correct import Schedule
from mars_env.errors import ConfigError
from mars_env.types import Completion, Grade, Problem, Tree


def test_the_plan_names_the_arms_and_the_team_has_a_row_of_every_seed():
    plan = study.STUDY.plan.read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `([^`]+)` \|", plan, re.MULTILINE)) == set(study.ARMS)
    assert {row.seed for row in study.team_rows()} >= set(range(5))
    assert all(study.budget_of(seed) > 39 for seed in range(5))
    with raises(ConfigError):
        study.budget_of(77)


def test_the_team_that_may_correct_more_often_begins_as_that_of_the_first_study():
    first = {row.seed: row.figures for row in study.team_rows()}
    for row in study.STUDY.rows():
        if row.arm == study.LONGER:
            assert row.detail["by_correction"][3] == pytest.approx(first[row.seed][study.LAST])
            assert row.detail["tokens_by_correction"][3] == pytest.approx(first[row.seed][study.TOKENS])


def chain(*turns):
    """An episode of such turns: agent, tokens, and whether it is right or what a Verifier says."""
    made = []
    for i, (agent, tokens, found) in enumerate(turns):
        judged = {"info": {"verdict": "Correct" if found else "Wrong"}}
        graded = {"grade": Grade.correct() if found else Grade.wrong("")}
        more = judged if agent == "verifier_0" else graded
        completion = Completion("", completion_tokens=tokens)
        made.append(turn("0" + ".0" * i, None, completion, agent=agent, tree="p#0", **more))
    return Tree("p#0", Problem("p", "What?", "1"), tuple(made))


def test_an_episode_with_fewer_corrections_is_the_beginning_of_the_same():
    rules = SolveVerifyCorrect(Schedule(rounds=3, accept_after=1))
    repaired = chain(
        ("solver_0", 10, False), ("verifier_0", 5, False), ("corrector_0", 7, True), ("verifier_0", 4, True)
    )
    accepted = chain(("solver_0", 20, True), ("verifier_0", 6, True))
    right, tokens = study.by_correction([repaired, accepted], rules)
    assert right == [0.5, 1.0, 1.0, 1.0]
    assert tokens == [(15 + 26) / 2] + [(26 + 26) / 2] * 3
