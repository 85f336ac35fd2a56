"""Reports: every figure, what it rests on, and the problem set's true name."""

import json

import pytest
from small_runs import ABOUT

from mars_env.evaluation.baselines import refinement, single
from mars_env.evaluation.counts import Counts
from mars_env.evaluation.report import Report, RunDescription, build_report, derived_notes
from mars_env.evaluation.tables import console_text


@pytest.fixture
def report(run):
    about = RunDescription(title="aime-solve-verify-correct", problem_set="aime", generated=True, seed=7)
    return build_report(run, about, baselines=[single(run, run)])


def test_generated_problems_are_called_so_everywhere(report):
    for text in (console_text(report), report.markdown()):
        assert "aime (generated, AIME-style): 3 problems x 2 samples, seed 7" in text
    data = json.loads(report.json_text())
    assert data["generated"] is True and Report.model_validate_json(report.json_text()) == report
    assert ABOUT.set_name == "s"


def test_what_was_left_out_is_said(episode):
    trees = [
        episode("p", 0, "S? Vc"),
        episode("p", 1, "S+ Vc", tokens=50),
        episode("p", 2, "S+", fault="the server\x1b[2J is gone"),
    ]
    refined = refinement(trees, [episode("p", 0, "S+", tokens=10)])
    report = build_report(trees, ABOUT, baselines=[refined])
    assert report.notes[0].startswith("Episodes not finished, left out of the System: 1 of 3 (p#2): ")
    assert "1 x the server␛[2J is gone" in report.notes[0]
    assert report.notes[1] == "Grades UNKNOWN, left out of every rate: 1 x the worker was lost"
    assert "spent fewer tokens than the System (10 per problem)" in report.notes[2]
    for text in (console_text(report, 300), report.markdown().replace("\\[", "[")):
        assert all(note in text for note in report.notes)


@pytest.mark.parametrize(("malformed", "is_named"), [(0, False), (1, False), (2, True), (10, True)])
def test_a_note_names_malformed_verdicts_where_they_are_many(malformed, is_named):
    notes = derived_notes(Counts(verdicts=10, malformed=malformed), ())
    assert any(f"{malformed} of 10" in note for note in notes) is is_named
