"""The ledger: append-only, one setting a table, intervals over seeds."""

import numpy as np
import pytest
from scipy import stats

from mars_env.errors import ConfigError, StoreError
from studies.common.ledger import (
    Ledger,
    LedgerRow,
    arm_difference,
    arm_estimate,
    arms_table,
    over_seeds,
    seed_text,
)


def row(arm="all", seed=0, settings="s1", **figures):
    about = {"commit": "c0ffee", "versions": {"python": "3.12.3"}, "settings": settings, "seconds": 2.5}
    return LedgerRow(arm=arm, seed=seed, figures=figures or {"system": 0.7}, **about)


@pytest.fixture
def ledger(tmp_path):
    return Ledger(tmp_path / "results" / "ablation.jsonl")


def test_rows_come_back_in_the_order_of_writing(ledger):
    rows = [row(seed=s, arm=a) for s in (3, 1) for a in ("none", "all")]
    assert ledger.rows() == []
    for r in rows:
        ledger.append(r)
    assert ledger.rows() == rows
    assert ledger.rows("s2") == []


def test_a_last_line_that_was_cut_inside_of_a_letter_is_no_row(ledger):
    ledger.append(row(seed=0, arm="größer"))
    whole = ledger.path.read_bytes()
    ledger.path.write_bytes(whole + whole[: whole.index("ö".encode()) + 1])
    assert [r.arm for r in ledger.rows()] == ["größer"]
    ledger.append(row(seed=1))
    assert [r.seed for r in ledger.rows()] == [0, 1]


def test_a_result_is_not_written_twice(ledger):
    ledger.append(row())
    with pytest.raises(StoreError):
        ledger.append(row(system=0.9))
    ledger.append(row(settings="s2"))
    assert len(ledger.rows()) == 2


def test_the_interval_over_seeds_is_students():
    values = [0.61, 0.66, 0.7, 0.72, 0.75]
    estimate = over_seeds(values)
    low, high = stats.t.interval(0.95, 4, loc=np.mean(values), scale=stats.sem(values))
    assert (estimate.low, estimate.high) == (pytest.approx(low), pytest.approx(high))
    assert estimate.seeds == 5 and estimate.sd == pytest.approx(np.std(values, ddof=1))
    alone = over_seeds([0.5])
    assert (alone.mean, alone.low, alone.high, alone.sd) == (0.5, None, None, None)
    assert seed_text(alone) == "50.0"
    with pytest.raises(ConfigError):
        over_seeds([])


def test_differences_of_arms_are_paired_by_seed():
    a, b = [0.3, 0.5, 0.4], [0.6, 0.79, 0.7]
    rows = [row("none", s, system=x) for s, x in enumerate(a)]
    rows += [row("all", s, system=x) for s, x in enumerate(b)]
    rows += [row("all", 9, system=0.0)]  # has no partner
    estimate = arm_difference(rows, "none", "all", "system")
    test = stats.ttest_rel(b, a).confidence_interval(0.95)
    assert (estimate.low, estimate.high) == (pytest.approx(test.low), pytest.approx(test.high))
    assert estimate.seeds == 3
    with pytest.raises(ConfigError):
        arm_difference(rows, "none", "solver", "system")


def test_one_table_never_mixes_settings_or_counts_a_run_twice():
    mixed = [row(settings="s1"), row(seed=1, settings="s2")]
    twice = [row(), row()]
    for call in (
        lambda rows: arm_estimate(rows, "all", "system"),
        lambda rows: arm_difference(rows, "all", "all", "system"),
        lambda rows: arms_table(rows, ["all"], {"system": "System"}),
    ):
        with pytest.raises(ConfigError):
            call(mixed)
        with pytest.raises(ConfigError):
            call(twice)
    with pytest.raises(ConfigError):
        arm_estimate([row()], "solver_only", "system")
