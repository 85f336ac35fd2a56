"""The control of the first MarsRL study: its rows are the plan's, and its page is made of rows."""

import re

import pytest
from messages import raises

import studies.marsrl_refining.study as study
from mars_env.envs import SolveVerifyCorrect
from mars_env.envs.solve_verify_correct import Schedule
from mars_env.errors import ConfigError
from mars_env.types import Action, Completion, Grade, Problem, Tree, Turn
from studies.common.ledger import LedgerRow


def made_up(arm, seed):
    """A row with every figure."""
    figures = {study.FIRST: 0.3, study.LAST: 0.4 + 0.01 * (seed % 3), study.TOKENS: 150.0}
    detail = {"plan": "0123456789", "turns": 5 + seed, "by_turn": [0.3, 0.5, 0.25] + [0.2] * seed}
    if arm == study.LONGER:
        detail = {"by_correction": [0.3] * 8 + [0.7], "tokens_by_correction": [45.0] * 8 + [155.0]}
    return LedgerRow(
        arm=arm, seed=seed, commit="c" * 40, versions={}, settings=study.STUDY.settings(), seconds=60.0,
        figures=figures, detail=detail,
    )  # fmt: skip


def test_the_plan_names_the_arms_and_the_team_has_a_row_of_every_seed():
    plan = study.STUDY.plan.read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `([^`]+)` \|", plan, re.MULTILINE)) == set(study.ARMS)
    assert {row.seed for row in study.team_rows()} >= set(range(5))
    assert all(study.budget_of(seed) > 39 for seed in range(5))
    with raises(ConfigError):
        study.budget_of(77)


def test_the_page_says_what_is_missing_and_judges_every_claim():
    rows = [made_up(arm, seed) for arm in study.ARMS for seed in range(5)]
    whole = study.page(rows)
    assert "have not been run yet" not in whole and "Turns within them: 5 to 9." in whole
    for claim in study.CLAIMS:
        assert f"| {claim.text} |" in whole
    assert "| trained | 30.0 | 50.0 | 25.0 |" in whole, "no row is longer than the shortest"
    assert "| tokens | 45.0 |" in whole and "| 155.0 |" in whole
    assert "**12 rows of the plan have not been run yet.**" in study.page([r for r in rows if r.seed == 0])


def test_the_team_that_may_correct_more_often_begins_as_that_of_the_first_study():
    first = {row.seed: row.figures for row in study.team_rows()}
    for row in study.STUDY.rows():
        if row.arm == study.LONGER:
            assert row.detail["by_correction"][3] == pytest.approx(first[row.seed][study.LAST])
            assert row.detail["tokens_by_correction"][3] == pytest.approx(first[row.seed][study.TOKENS])


def turn(number, agent, tokens, found):
    """A turn of a chain; `found` is whether a solution is right or what a Verifier says."""
    action, grade, info = Action("", (Completion("", completion_tokens=tokens),)), None, {}
    if agent == "verifier_0":
        info = {"verdict": "Correct" if found else "Wrong"}
    else:
        grade = Grade.correct() if found else Grade.wrong("")
    return Turn("p#0", "0" + ".0" * number, None, "", agent, "", "p", action, grade, info=info)


def chain(*turns):
    """An episode of such turns, given as agent, tokens and what is found."""
    return Tree("p#0", Problem("p", "What?", "1"), tuple(turn(i, *each) for i, each in enumerate(turns)))


def test_an_episode_with_fewer_corrections_is_the_beginning_of_the_same():
    rules = SolveVerifyCorrect(Schedule(rounds=3, accept_after=1))
    repaired = chain(
        ("solver_0", 10, False), ("verifier_0", 5, False), ("corrector_0", 7, True), ("verifier_0", 4, True)
    )
    accepted = chain(("solver_0", 20, True), ("verifier_0", 6, True))
    right, tokens = study.by_correction([repaired, accepted], rules)
    assert right == [0.5, 1.0, 1.0, 1.0]
    assert tokens == [(15 + 26) / 2] + [(26 + 26) / 2] * 3
