"""MarsRL in miniature: stored rows repeat, and a continued Solver belongs to its arm."""

import asyncio
import re
from dataclasses import replace

import pytest
from messages import raises

import studies.marsrl.study as study
import studies.marsrl_robustness.study as robustness
from mars_env.errors import ConfigError
from mars_env.evaluation.provenance import Provenance
from mars_env.miniature.recipe import QUICK, RECIPE
from studies.common.study import Run


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_row_of_the_ledger_is_run_again(tmp_path):
    """To the digit on the ledger's machine; elsewhere other kernels may sample some tokens otherwise."""
    [stored] = [row for row in study.STUDY.rows() if (row.arm, row.seed) == (study.FORCED, 0)]
    now = asyncio.run(study.play([study.FORCED], Run(0, RECIPE, tmp_path)))[study.FORCED]
    for name in ("solver_accuracy", "system_accuracy", "verifier_recall", "verifier_precision"):
        assert now.figures[name] == pytest.approx(stored.figures[name], abs=0.02), name


def test_a_continued_solver_must_belong_to_its_arm(tmp_path, monkeypatch):
    """The team is trained again; were it another one, its Solver would meet another team's System."""
    own = replace(study.STUDY, root=tmp_path)
    monkeypatch.setattr(study, "STUDY", own)
    name, run = "none, continued", Run(3, QUICK, tmp_path)
    [row] = own.made(["none"], run, Provenance("c" * 40, {"python": "3"}), None)
    own.ledger.append(row)
    assert asyncio.run(study.play([name], run))[name].detail["repeats_row"]
    other = row.model_copy(update={"figures": {**row.figures, "tokens": row.figures["tokens"] + 1}})
    own.ledger.path.write_text(other.model_dump_json() + "\n")
    with raises(ConfigError):
        asyncio.run(study.play([name], run))


def test_the_rows_of_the_second_study_are_those_of_its_plan():
    plan = robustness.STUDY.plan.read_text(encoding="utf-8")
    arms = dict(re.findall(r"^\| `([^`]+)` \| [^|]*\|([^|]*\|[^|]*)\|$", plan, re.MULTILINE))
    arms = {name: cells for name, cells in arms.items() if "to" in cells}
    assert {row.arm.name for row in robustness.ROWS.values()} == arms.keys()
    for row in robustness.ROWS.values():
        seeds = f"{row.seeds[0]} to {row.seeds[-1]}"
        where, when = arms[row.arm.name].split("|")
        assert "all four" in where or row.start is robustness.POOR
        assert seeds in when
    assert sum(len(row.seeds) for row in robustness.ROWS.values()) == 6 * 10 + 3 * 3 * 5 + 3 * 5
