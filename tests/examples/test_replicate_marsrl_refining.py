"""The control of the first MarsRL study: its rows are the plan's, and its page is made of rows."""

import re

import pytest
import replicate_marsrl_refining as study

from mars_env.errors import ConfigError
from mars_env.evaluation import LedgerRow


def made_up(arm, seed):
    """A row with every figure."""
    figures = {study.FIRST: 0.3, study.LAST: 0.4 + 0.01 * (seed % 3), study.TOKENS: 150.0}
    detail = {"plan": "0123456789", "turns": 5 + seed, "by_turn": [0.3, 0.5, 0.25] + [0.2] * seed}
    return LedgerRow(
        arm=arm, seed=seed, commit="c" * 40, versions={}, settings=study.settings(), seconds=60.0,
        figures=figures, detail=detail,
    )  # fmt: skip


def test_the_plan_names_the_arms_and_the_team_has_a_row_of_every_seed():
    plan = study.PLAN.read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `([^`]+)` \|", plan, re.MULTILINE)) == set(study.ARMS)
    assert {row.seed for row in study.team_rows()} >= set(range(5))
    assert all(study.budget_of(seed) > 39 for seed in range(5))
    with pytest.raises(ConfigError, match="no row of seed 77"):
        study.budget_of(77)


def test_the_page_says_what_is_missing_and_judges_every_claim():
    rows = [made_up(arm, seed) for arm in study.ARMS for seed in range(5)]
    whole = study.page(rows)
    assert "have not been run yet" not in whole and "Turns within them: 5 to 9." in whole
    for claim in study.CLAIMS:
        assert f"| {claim.text} |" in whole
    assert "| trained | 30.0 | 50.0 | 25.0 |" in whole, "no row is longer than the shortest"
    assert "**8 rows of the plan have not been run yet.**" in study.page([r for r in rows if r.seed == 0])


def test_the_ledger_holds_only_rows_of_the_plan():
    for row in study.LEDGER.rows(study.settings()):
        assert row.arm in study.ARMS and row.seed in range(5)
        assert re.fullmatch("[0-9a-f]{40}", row.commit)
