"""Reports: every figure, what it rests on, and the problem set's true name."""

import json

import pytest

from mars_env.evaluation.baselines import refinement, single
from mars_env.evaluation.report import (
    Report,
    build_report,
    console_text,
    interval,
    markdown_table,
    number,
    table,
)
from mars_env.evaluation.statistics import Estimate


@pytest.fixture
def report(run):
    return build_report(
        run,
        title="aime-solve-verify-correct",
        problem_set="aime",
        generated=True,
        style="AIME-style",
        seed=7,
        baselines=[single(run, run)],
    )


def test_generated_problems_are_called_so_everywhere(report):
    for text in (console_text(report), report.markdown()):
        assert "aime (generated, AIME-style): 3 problems x 2 samples, seed 7" in text
    data = json.loads(report.json_text())
    assert data["generated"] is True and data["style"] == "AIME-style"
    real = build_report([], title="t", problem_set="aime25", generated=False)
    assert real.set_name == "aime25"


def test_figures_counts_and_baselines_are_shown(report):
    for text in (console_text(report), report.markdown()):
        assert "Corrector fix rate" in text
        assert "66.7%" in text  # the System, and the fix rate
        assert "Single agent, one sample" in text
        assert "corrector 1 of 4" in text  # cut off
    assert "| System minus Solver, paired | +16.7 |" in report.markdown()


def test_it_reads_back_from_json(report):
    assert Report.model_validate_json(report.json_text()) == report


def test_what_was_left_out_is_said(episode):
    trees = [
        episode("p", 0, "S? Vc"),
        episode("p", 1, "S+ Vc", tokens=50),
        episode("p", 2, "S+", fault="the server\x1b[2J is gone"),
    ]
    refined = refinement(trees, [episode("p", 0, "S+", tokens=10)])
    report = build_report(trees, title="t", problem_set="p", generated=False, baselines=[refined])
    assert report.notes[0].startswith("Episodes not finished, left out of the System: 1 of 3: ")
    assert "1 x the server␛[2J is gone" in report.notes[0]
    assert report.notes[1] == "Grades UNKNOWN, left out of every rate: 1 x the worker was lost"
    assert "spent fewer tokens than the System (10 per problem)" in report.notes[2]
    for text in (console_text(report, 300), report.markdown().replace("\\[", "[")):
        assert all(note in text for note in report.notes)


def test_many_reasons_are_cut_short(episode):
    trees = [episode("p", i, "S+", fault=f"fault {i}") for i in range(9)]
    report = build_report(trees, title="t", problem_set="p", generated=False)
    assert report.notes[0].endswith("4 more reasons")


def test_an_empty_run_is_reported_as_such():
    report = build_report([], title="t", problem_set="none", generated=False)
    assert "0 problems x 0 samples" in console_text(report)


def test_markup_in_names_is_plain_text():
    assert "[red]x[/red]" in console_text(table(["a"], [["[red]x[/red]"]]))
    assert markdown_table(["a"], [["x|y\nz <b>"]]).splitlines()[2] == "| x\\|y z &lt;b> |"


@pytest.mark.parametrize(
    ("value", "scale", "text"),
    [
        (0.41, "rate", "41.0%"),
        (-0.024, "difference", "-2.4"),
        (12345.6, "amount", "12,346"),
        (12.34, "amount", "12.3"),
        (1.234, "amount", "1.23"),
        (None, "rate", "–"),
    ],
)
def test_numbers(value, scale, text):
    assert number(value, scale) == text


def test_an_open_interval_is_not_shown():
    assert interval(Estimate(1.0, None, None, 1, "amount")) == ""
