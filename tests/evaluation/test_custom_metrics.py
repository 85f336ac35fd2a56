"""Metrics of your own: in reports and comparisons like all others; a fault of one loses nothing else."""

import logging

import pytest
from small_runs import ABOUT

from mars_env.evaluation import build_report, compare_trees, register_metric, remove_metric


@pytest.fixture(autouse=True)
def _forgotten():
    yield
    for name in ("shortness", "debt", "fussy"):
        remove_metric(name)


def test_a_metric_stands_in_reports_and_comparisons(run):
    register_metric("shortness", lambda tree: len(tree.turns) <= 2, title="Short episodes", scale="rate")
    register_metric("debt", lambda tree: -float(len(tree.turns)))
    report = build_report(run, ABOUT)
    assert report.metrics["shortness"].estimate.value == pytest.approx(4 / 6 - 1 / 6)
    assert "Short episodes" in str(report) and report.metrics["shortness"].estimate.low > 0
    debt = report.metrics["debt"].estimate
    assert debt.value == pytest.approx(-(4 + 2 + 2 + 6 + 4 + 2) / 6) and debt.low < debt.value < debt.high < 0
    assert "-3.333" in str(report)
    assert compare_trees(run, run).rows["debt"].difference.value == 0


def test_none_says_nothing_and_a_fault_is_logged(run, caplog):
    def fussy(tree):
        if tree.id == "p1#0":
            raise KeyError("no \x1b[2J field")
        return None if tree.id == "p1#1" else float("nan") if tree.id == "p2#0" else 2.0

    register_metric("fussy", fussy, scale="amount")
    with caplog.at_level(logging.WARNING):
        estimate = build_report(run, ABOUT).metrics["fussy"].estimate
    assert (estimate.value, estimate.problems) == (2.0, 2)
    assert len(caplog.records) == 2 and "\x1b" not in caplog.text and "p1#0" in caplog.text
