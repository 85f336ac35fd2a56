"""The second MarsRL study: its rows are the plan's, its page is made of rows, and every kind of row runs."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import studies.marsrl_robustness.study as study
from studies.common.ledger import LedgerRow

ROOT = Path(__file__).parents[2]


def test_the_rows_are_those_of_the_plan():
    plan = study.STUDY.plan.read_text(encoding="utf-8")
    arms = dict(re.findall(r"^\| `([^`]+)` \| [^|]*\|([^|]*\|[^|]*)\|$", plan, re.MULTILINE))
    arms = {name: cells for name, cells in arms.items() if "to" in cells}
    assert {row.arm.name for row in study.ROWS.values()} == arms.keys()
    for row in study.ROWS.values():
        seeds = f"{row.seeds[0]} to {row.seeds[-1]}"
        where, when = arms[row.arm.name].split("|")
        assert "all four" in where or row.start is study.POOR
        assert seeds in when
    assert sum(len(row.seeds) for row in study.ROWS.values()) == 6 * 10 + 3 * 3 * 5 + 3 * 5


def made_up(name, seed):
    """A row with every figure that its kind has."""
    figures = dict.fromkeys((*study.COLUMNS, "tokens"), 0.5 + 0.01 * (seed % 3))
    if name.endswith(", all"):
        keys = ("baseline_majority", study.WEIGHTED, study.RETRIES)
        figures |= {f"{key}{end}": 0.4 for key in keys for end in ("", "_tokens")}
        figures |= {
            f"{figure} with {other.name}": 0.3
            for other in study.STARTS
            for figure in (study.SYSTEM, study.SOLVER)
        }
    detail = {"plan": "0123456789", "problems": 1000, "rewards": {}}
    return LedgerRow(
        arm=name, seed=seed, commit="c" * 40, versions={}, settings=study.STUDY.settings(), seconds=60.0,
        figures=figures, detail=detail,
    )  # fmt: skip


def test_the_page_says_what_is_missing_and_judges_every_claim():
    rows = [made_up(name, seed) for name, row in study.ROWS.items() for seed in row.seeds]
    whole = study.page(rows)
    assert "have not been run yet" not in whole
    for claim in study.CLAIMS:
        assert f"| {claim.text} |" in whole
    part = study.page([row for row in rows if row.seed < 12])
    assert f"**{len(rows) - 2 * len(study.ROWS)} rows of the plan have not been run yet.**" in part


@pytest.mark.slow
def test_each_kind_of_row_runs(tmp_path):
    """A few steps of chains, of several updates with a KL term, and of a new warm start with all controls."""
    rows = ["poor, shared chains", "poor, 4x2, kl", "good, all"]
    command = [sys.executable, "-m", "studies.marsrl_robustness", "--quick", "--cache", str(tmp_path)]
    done = subprocess.run(
        [*command, *(word for row in rows for word in ("--arm", row))],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    shown = [line.split(", seed")[0] for line in done.stdout.splitlines() if ", seed" in line]
    assert sorted(shown) == sorted(rows)
