"""Comparisons: paired by problem, refused where the problems are not the same."""

import json
from dataclasses import replace

import numpy as np
import pytest
from messages import raises

from mars_env.errors import ConfigError
from mars_env.evaluation.compare import Comparison, compare_trees
from mars_env.evaluation.tables import console_text


def played(episode, rng, lift):
    return [
        episode(f"p{i}", k, "S+" if rng.random() < min(1, i / 30 + lift) else "S-", tokens=10 + i)
        for i in range(30)
        for k in range(8)
    ]


def test_a_run_against_itself_differs_by_nothing(run):
    comparison = compare_trees(run, run)
    assert {"solver_accuracy", "system_accuracy", "tokens"} <= comparison.rows.keys()
    assert all(row.difference.value == pytest.approx(0) for row in comparison.rows.values())
    assert not any(row.clear for row in comparison.rows.values())


def test_a_real_difference_is_found_and_signed(episode):
    before = played(episode, np.random.default_rng(0), 0.0)
    after = played(episode, np.random.default_rng(1), 0.25)
    row = compare_trees(before, after).rows["solver_accuracy"]
    assert row.clear and 0.1 < row.difference.low < row.difference.value < row.difference.high < 0.35
    back = compare_trees(after, before).rows["solver_accuracy"].difference
    assert back.value == pytest.approx(-row.difference.value)
    # Pairing narrows it: the two intervals alone would overlap widely.
    assert row.difference.high - row.difference.low < (row.a.high - row.a.low) * 0.7


def test_the_numbers_of_samples_may_differ(run, episode):
    fewer = [tree for tree in run if tree.id.endswith("#0")]
    assert compare_trees(run, fewer).rows["solver_accuracy"].difference.value == pytest.approx(1 / 3 - 1 / 2)


def test_metrics_that_one_run_lacks_are_left_out(run, episode):
    alone = [episode(p, 0, "S+") for p in ("p1", "p2", "p3")]
    assert "fix_rate" not in compare_trees(run, alone).rows


def lost(tree):
    """The tree of an episode that a fault ended before its first turn."""
    return replace(tree, turns=(), final=None, fault="the server is gone")


def test_problems_that_one_run_has_lost_are_no_difference(episode):
    easy = [episode(f"easy{i}", 0, "S+ Vc") for i in range(20)]
    hard = [episode(f"hard{i}", 0, "S- Vc", tokens=1000) for i in range(20)]
    both = [*easy, *hard]
    for a, b in ((([*easy, *map(lost, hard[1:]), hard[0]]), both), (both, [*map(lost, easy), *hard])):
        comparison = compare_trees(a, b)
        for name in ("solver_accuracy", "system_accuracy", "tokens", "acceptance_precision"):
            assert comparison.rows[name].difference.value == pytest.approx(0), name
            assert not comparison.rows[name].clear
    assert comparison.rows["tokens"].left_out == 20 and comparison.rows["tokens"].difference.problems == 20
    for text in (str(comparison), comparison.markdown(), comparison.latex(), comparison._repr_html_()):
        assert "Differences leave out problems that only one run knows: up to 20 a metric." in text
    assert "leave out" not in str(compare_trees(both, both))


def test_runs_that_know_no_problem_in_common_show_no_difference(episode):
    easy, hard = [episode(f"p{i}", 0, "S+") for i in range(3)], [episode(f"q{i}", 0, "S-") for i in range(3)]
    row = compare_trees([*easy, *map(lost, hard)], [*map(lost, easy), *hard]).rows["system_accuracy"]
    assert row.difference.value is None and not row.clear and row.left_out == 6


def test_a_share_keeps_the_problems_where_nothing_of_it_occurred(episode):
    a = [episode(f"p{i}", 0, "S- Vw" if i < 2 else "S+ Vw" if i < 4 else "S+ Vc") for i in range(8)]
    b = [episode(f"p{i}", 0, "S- Vw") for i in range(8)]
    row = compare_trees(a, b).rows["verifier_precision"]
    assert row.difference.value == pytest.approx(1 - 2 / 4) and row.left_out == 0


def test_other_problems_are_refused(run):
    with raises(ConfigError):
        compare_trees(run, run[:4])
    changed = [replace(t, problem=replace(t.problem, reference="8")) for t in run]
    with raises(ConfigError):
        compare_trees(run, changed)
    with raises(ConfigError):
        compare_trees(run, [])


def test_it_is_rendered_for_the_console_and_as_markdown_and_json(run, episode):
    comparison = compare_trees(run, run, ("before", "after"))
    text = console_text(comparison)
    assert "after against before, 3 problems" in text and "System accuracy" in text
    assert "| System accuracy, avg@n | 66.7%" in comparison.markdown()
    assert Comparison.model_validate_json(comparison.json_text()) == comparison


def test_names_cannot_break_a_table_or_a_terminal(run):
    comparison = compare_trees(run, run, ("a|b[red]", "c\x1b[31m"))
    assert "\x1b" not in console_text(comparison)
    assert "a\\|b\\[red]" in comparison.markdown()


def test_foreign_texts_are_no_markup_in_a_report(run):
    names = ("[x](javascript:1)", "![i](http://e) `c` *b* ~s~ $m$ <b> www.e.org _u_ solver_0")
    text = compare_trees(run, run, names).markdown()
    assert "\\[x](javascript:1)" in text
    assert "!\\[i](http\\://e) \\`c\\` \\*b\\* \\~s\\~ \\$m\\$ &lt;b> www\\.e.org \\_u\\_ solver_0" in text


def test_differences_of_amounts_are_not_percentages(run, episode):
    row = compare_trees(run, run).rows["tokens"]
    assert row.difference_text == "+0.00 [+0.00, +0.00]"


@pytest.mark.parametrize("name", ["\x9b", "\u202e", "a\udcff"])  # the last: a folder's name that is not UTF-8
def test_its_json_is_ascii_whatever_the_names_hold(run, name):
    text = compare_trees(run, run, (name, "b")).json_text()
    assert text.isascii() and json.loads(text)["names"] == [name, "b"]
