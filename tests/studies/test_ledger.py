"""The ledger: append-only, one setting a table, intervals over seeds."""

import multiprocessing

import numpy as np
import pytest
from messages import raises
from scipy import stats

from mars_env.errors import ConfigError, StoreError
from studies.common.ledger import (
    Ledger,
    LedgerRow,
    arm_difference,
    arm_estimate,
    arms_table,
    origins,
    over_seeds,
    seed_text,
    seeds_of,
    settings_hash,
)


def row(arm="all", seed=0, settings="s1", commit="c0ffee", versions=(("python", "3.12.3"),), **figures):
    return LedgerRow(
        arm=arm,
        seed=seed,
        commit=commit,
        versions=dict(versions),
        settings=settings,
        seconds=2.5,
        figures=figures or {"system": 0.7},
    )


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


def test_only_what_is_missing_is_run(ledger):
    ledger.append(row("none", 0))
    ledger.append(row("all", 1))
    ledger.append(row("none", 1, settings="s2"))
    assert ledger.missing(["none", "all"], range(2), "s1") == [("none", 1), ("all", 0)]
    assert ledger.missing(iter(["none"]), iter([0]), "s1") == []


def test_a_result_is_not_written_twice(ledger):
    ledger.append(row())
    with raises(StoreError):
        ledger.append(row(system=0.9))
    ledger.append(row(settings="s2"))
    assert len(ledger.rows()) == 2


def test_a_row_without_versions_is_read_but_not_written(ledger):
    ledger.append(row())
    old = row(seed=1).model_dump_json(exclude={"versions"})
    with ledger.path.open("a") as file:
        file.write(old + "\n")
    assert [r.versions for r in ledger.rows()] == [{"python": "3.12.3"}, {}]
    with raises(StoreError):
        ledger.append(row(seed=2, versions=()))
    assert len(ledger.rows()) == 2


@pytest.mark.parametrize("line", ["not json", "\udcff", '{"arm": "all"}', "", '{"arm": 1, "seed": "x"}'])
def test_a_line_that_cannot_be_read_is_named(ledger, line):
    ledger.append(row())
    with ledger.path.open("a", errors="surrogateescape") as file:
        file.write(line + "\n")
    with raises(StoreError):
        ledger.rows()


def append_all(path, seeds):
    for seed in seeds:
        Ledger(path).append(row(seed=seed))


def test_several_processes_may_append(ledger):
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=append_all, args=(ledger.path, range(n, n + 5))) for n in (0, 5)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert sorted(r.seed for r in ledger.rows()) == list(range(10))


def test_settings_hash():
    assert settings_hash({"a": 1, "b": {"c": 2}}) == settings_hash({"b": {"c": 2}, "a": 1})
    assert settings_hash({"a": 1}) != settings_hash({"a": 2})
    for bad in ({"a": object()}, {"a": float("nan")}):
        with raises(ConfigError):
            settings_hash(bad)


def test_the_interval_over_seeds_is_students():
    values = [0.61, 0.66, 0.7, 0.72, 0.75]
    estimate = over_seeds(values)
    low, high = stats.t.interval(0.95, 4, loc=np.mean(values), scale=stats.sem(values))
    assert (estimate.low, estimate.high) == (pytest.approx(low), pytest.approx(high))
    assert estimate.seeds == 5 and estimate.sd == pytest.approx(np.std(values, ddof=1))
    alone = over_seeds([0.5])
    assert (alone.mean, alone.low, alone.high, alone.sd) == (0.5, None, None, None)
    assert seed_text(alone) == "50.0"
    with raises(ConfigError):
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
    with raises(ConfigError):
        arm_difference(rows, "none", "solver", "system")


def test_two_figures_of_one_arm():
    rows = [row("all", s, solver=0.4, system=0.4 + x) for s, x in enumerate((0.2, 0.3))]
    assert arm_difference(rows, "all", "all", "solver", "system").mean == pytest.approx(0.25)


def test_one_table_never_mixes_settings_or_counts_a_run_twice():
    mixed = [row(settings="s1"), row(seed=1, settings="s2")]
    twice = [row(), row()]
    for call in (
        lambda rows: arm_estimate(rows, "all", "system"),
        lambda rows: arm_difference(rows, "all", "all", "system"),
        lambda rows: arms_table(rows, ["all"], {"system": "System"}),
    ):
        with raises(ConfigError):
            call(mixed)
        with raises(ConfigError):
            call(twice)
    with raises(ConfigError):
        arm_estimate([row()], "solver_only", "system")


def test_the_table():
    rows = [row("all", s, system=x, solver=0.4) for s, x in ((2, 0.6), (0, 0.7), (1, 0.8))]
    rows.append(row("none", 0, solver=0.3))
    lines = arms_table(rows, ["none", "all", "absent"], {"solver": "Solver", "system": "System"}).splitlines()
    assert lines[0] == "| Arm | Seeds | Solver | System |"
    assert lines[2:] == [
        "| none | 0 | 30.0 | – |",
        "| all | 0, 1, 2 | 40.0 [40.0, 40.0] | 70.0 [45.2, 94.8] |",
    ]


def test_intervals_of_rates_stay_within_what_a_rate_can_be():
    """0.8, 0.9, 1.0, 1.0: Student's interval goes to 1.077, and of 0.0, 0.0, 0.2 it starts at -0.220."""
    rows = [row("all", s, high=x, gain=x - 1) for s, x in enumerate((0.8, 0.9, 1.0, 1.0))]
    rows += [row("low", s, high=x, gain=-x) for s, x in enumerate((0.0, 0.0, 0.2))]
    lines = arms_table(rows, ["all", "low"], {"high": "High", "gain": "Gain"}, differences=("gain",))
    assert lines.splitlines()[2:] == [
        "| all | 0, 1, 2, 3 | 92.5 [77.3, 100.0] | -7.5 [-22.7, +7.7] |",
        "| low | 0, 1, 2 | 6.7 [0.0, 35.4] | -6.7 [-35.4, +22.0] |",
    ]
    assert seed_text(over_seeds([0.9, -0.9, 1.0]), signed=True) == "+33.3 [-100.0, +100.0]"


def test_where_the_rows_come_from_is_said():
    rows = [
        row("none", 0, commit="a" * 40 + "-dirty", versions=()),
        row("all", 0, commit="b" * 40),
        row("none", 1, commit="b" * 40),
        row("all", 1, commit="b" * 40),
        row("all", 2, commit=None, versions=(("python", "3.13.0"),)),
    ]
    assert origins(rows) == (
        "5 rows of 3 commits (aaaaaaaa-dirty: 1, bbbbbbbb: 3, no checkout: 1). "
        "The arms of one seed come from different commits where the seed is 0. "
        "Versions: python 3.12.3 (3 rows); python 3.13.0 (1 row). Versions were not recorded in 1 row."
    )


def test_seeds_that_are_named_twice_are_run_once(tmp_path):
    assert seeds_of("0-2,1") == [0, 1, 2]
    assert Ledger(tmp_path / "l.jsonl").missing(["all"], [1, 0, 1], "s") == [("all", 1), ("all", 0)]


@pytest.mark.parametrize("text", ["", "x", "4-0", "0,", "-1"])
def test_a_text_that_names_no_seeds_is_refused(text):
    with raises(ConfigError):
        seeds_of(text)
