"""Reports: every figure, what it rests on, and the problem set's true name."""

import json
from dataclasses import replace

import pytest
from messages import raises
from small_runs import ABOUT

from mars_env.errors import ConfigError
from mars_env.evaluation.baselines import refinement, single
from mars_env.evaluation.compare import compare_trees
from mars_env.evaluation.costs import uncounted as uncounted_notes
from mars_env.evaluation.report import Report, RunDescription, build_report
from mars_env.evaluation.tables import console_text, number_text


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


def test_figures_counts_and_baselines_are_shown(report):
    for text in (console_text(report), report.markdown()):
        assert "Corrector fix rate" in text
        assert "66.7%" in text  # the System, and the fix rate
        assert "Single agent, one sample" in text
        assert "corrector 1 of 4" in text  # cut off
    assert "| System minus Solver, paired | +16.7 |" in report.markdown()
    assert "; first attempt 50.0% [" in report.headline and "; difference +16.7 [" in report.headline


def test_what_was_left_out_is_said(episode):
    trees = [
        episode("p", 0, "S? Vc"),
        episode("p", 1, "S+ Vc", tokens=50),
        episode("p", 2, "S+", fault="the server\x1b[2J is gone"),
    ]
    refined = refinement(trees, [episode("p", 0, "S+", tokens=10)])
    report = build_report(trees, ABOUT, baselines=[refined])
    assert report.notes[0].startswith("Episodes not finished, left out of the System: 1 of 3: ")
    assert "1 x the server␛[2J is gone" in report.notes[0]
    assert report.notes[1] == "Grades UNKNOWN, left out of every rate: 1 x the worker was lost"
    assert "spent fewer tokens than the System (10 per problem)" in report.notes[2]
    for text in (console_text(report, 300), report.markdown().replace("\\[", "[")):
        assert all(note in text for note in report.notes)


def test_many_reasons_are_cut_short(episode):
    trees = [episode("p", i, "S+", fault=f"fault {i}") for i in range(9)]
    report = build_report(trees, ABOUT)
    assert report.notes[0].endswith("4 more reasons")
    note = f"Long: {'word ' * 100}end"
    empty = build_report([], ABOUT, notes=[note])
    assert f"- {note}" in empty.markdown() and "0 problems x 0 samples" in console_text(empty)


@pytest.mark.parametrize("width", [60, 80, 100, 120])
def test_narrow_consoles_keep_names_and_intervals(report, width):
    name, size, *numbers = report.tables()[1].rows[1]
    lines = console_text(report, width).splitlines()
    assert all(any(cell in line for line in lines) for cell in (name, size, *numbers))
    assert max(map(len, lines)) <= width


def test_numbers():
    assert [number_text(x, "amount") for x in (12345.6, 12.34, 1.234)] == ["12,346", "12.3", "1.23"]
    assert (number_text(0.41, "rate"), number_text(-0.024, "difference")) == ("41.0%", "-2.4")
    assert (number_text(None, "rate"), number_text(-2.5, "value")) == ("–", "-2.500")


def test_a_report_prints_as_tables_and_shows_in_notebooks(report, run):
    assert str(report).splitlines()[0] == "aime-solve-verify-correct"
    assert "Corrector fix rate" in str(report) and "Report(" not in str(report)
    assert max(map(len, str(report).splitlines())) <= 100
    html = report._repr_html_()
    assert "<td>System accuracy, avg@n</td>" in html and html.count("<table>") == 4
    compared = compare_trees(run, run, names=("<a>", "b"))
    assert "&lt;a&gt;" in compared._repr_html_() and "<a>" not in compared._repr_html_()
    assert "System accuracy" in str(compared) and "Row(" not in str(compared)


def test_tables_for_a_paper(report, run):
    latex = report.latex()
    assert latex.count(r"\begin{tabular}") == latex.count(r"\end{tabular}") == 2
    assert r"System accuracy, avg@n & 66.7\% & [" in latex and r"\\" in latex
    special = build_report(
        run, RunDescription(title=r"a_b & \c $d$ {e} #f ~^", problem_set="50%", generated=False)
    ).latex()
    assert r"a\_b \& \textbackslash{}c \$d\$ \{e\} \#f \textasciitilde{}\textasciicircum{}" in special
    assert r"50\%" in special
    assert r"\begin{tabular}" in compare_trees(run, run).latex()


def test_every_role_has_its_mean_reward_and_graded_ones_their_accuracy(run):
    report = build_report(run, ABOUT)
    figures = report.metrics
    assert figures["reward:solver"].estimate.value == pytest.approx((0.5 + 0 + 1) / 3)
    assert figures["accuracy:corrector"].estimate.value == pytest.approx((1 + 0.5 + 0) / 3)
    assert "accuracy:solver" not in figures  # that is the Solver's accuracy
    assert "Mean reward, corrector" in str(report)


def test_negative_rewards_keep_their_sign_and_their_unit(run):
    fined = [replace(x, turns=tuple(replace(t, reward=-2.5) for t in x.turns)) for x in run]
    estimate = build_report(fined, ABOUT).metrics["reward:solver"].estimate
    assert (estimate.value, estimate.low, estimate.high) == (-2.5, -2.5, -2.5)
    row = compare_trees(run, fined).rows["reward:solver"]
    assert row.difference_text.startswith("-3.000 [-")


def test_what_does_not_apply_is_left_out(episode):
    alone = [episode("p", i, "S+", tokens=0) for i in range(2)]
    report = build_report(alone, ABOUT)
    assert not report.metrics.keys() & {"gain", "tokens", "solver_tokens", "rounds", "malformed"}
    for nothing in ("Verdicts", "accepted", "Rewards that failed", "by context", "Tokens sampled"):
        assert nothing not in str(report)
    assert "Grades UNKNOWN" in str(report)  # it applies, and is 0


def test_another_role_that_answers_first_has_its_own_name(episode):
    tree = episode("p", 0, "S+ Vc")
    tree = replace(tree, turns=(replace(tree.turns[0], agent="debater_0"), tree.turns[1]))
    report = build_report([tree], ABOUT)
    assert report.metrics["solver_accuracy"].title == "Debater accuracy, avg@n"
    assert report.metrics["gain"].title == "System minus Debater, paired"


def test_agents_code_and_cost_are_named(run):
    made = {"commit": "abc123", "versions": {"mars_env": "0.1.0"}, "rewards": {"solver": "my_module:brevity"}}
    report = build_report(run, ABOUT.model_copy(update=made), prices={"": (1.0, 2.0)})
    for text in (str(report), report.markdown(), report._repr_html_()):
        assert "policy (solver" in text.replace("\\_", "_") and "abc123" in text
        assert "mars_env 0.1.0" in text and "solver: my_module:brevity" in text
    assert report.cost == pytest.approx((5 * 20 + 10 * 20 * 2) / 1e6)
    assert ("Cost", "0.0005") in report.tables()[-1].rows  # not 0.00
    with raises(ConfigError):
        build_report(run, ABOUT, prices={"other": (1, 2)})


def test_tokens_that_a_server_did_not_count_are_not_zero(run, episode):
    uncounted = [episode(tree.problem.id, i % 2, "S+ Vc", tokens=0) for i, tree in enumerate(run)]
    report = build_report(uncounted, ABOUT)
    for named in (report.metrics, compare_trees(uncounted, run).rows):
        assert "system_accuracy" in named and not {"tokens", "solver_tokens"} & named.keys()
    assert uncounted_notes(uncounted) and not uncounted_notes(run)
    with raises(ConfigError):
        build_report(uncounted, ABOUT, prices={"": (1, 2)})


def test_a_figure_that_is_too_large_for_a_number_is_unknown(episode):
    trees = [episode("p", i, "S+") for i in range(2)]
    trees = [replace(tree, turns=tuple(replace(t, reward=1e308) for t in tree.turns)) for tree in trees]
    report = build_report(trees, ABOUT)
    assert report.metrics["reward:solver"].estimate.value is None
    assert Report.model_validate_json(report.json_text()) == report
