"""Comparisons: paired by problem, refused where the problems are not the same."""

import json
from dataclasses import replace

import numpy as np
import pytest

from mars_env.errors import ConfigError
from mars_env.evaluation.compare import compare_trees


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


def test_the_numbers_of_samples_may_differ(run):
    rows = compare_trees(run, [tree for tree in run if tree.id.endswith("#0")]).rows
    assert rows["solver_accuracy"].difference.value == pytest.approx(1 / 3 - 1 / 2)
    tokens = rows["tokens"].difference
    assert tokens.low < tokens.value < tokens.high


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
    assert "leave out" in str(comparison) and "leave out" not in str(compare_trees(both, both))


def test_a_share_keeps_the_problems_where_nothing_of_it_occurred(episode):
    a = [episode(f"p{i}", 0, "S- Vw" if i < 2 else "S+ Vw" if i < 4 else "S+ Vc") for i in range(8)]
    b = [episode(f"p{i}", 0, "S- Vw") for i in range(8)]
    row = compare_trees(a, b).rows["verifier_precision"]
    assert row.difference.value == pytest.approx(1 - 2 / 4) and row.left_out == 0


def test_other_problems_are_refused(run):
    with pytest.raises(ConfigError):
        compare_trees(run, run[:4])
    changed = [replace(t, problem=replace(t.problem, reference="8")) for t in run]
    with pytest.raises(ConfigError):
        compare_trees(run, changed)
    with pytest.raises(ConfigError):
        compare_trees(run, [])


@pytest.mark.parametrize("name", ["\x9b", "\u202e", "a\udcff"])  # the last: a folder's name that is not UTF-8
def test_its_json_is_ascii_whatever_the_names_hold(run, name):
    text = compare_trees(run, run, (name, "b")).json_text()
    assert text.isascii() and json.loads(text)["names"] == [name, "b"]


def test_foreign_texts_are_no_markup_in_a_report(run):
    names = ("[x](javascript:1)", "![i](http://e) `c` *b* ~s~ $m$ <b> www.e.org _u_ solver_0")
    compared = compare_trees(run, run, names)
    text = compared.markdown()
    assert "\\[x](javascript:1)" in text
    assert "!\\[i](http\\://e) \\`c\\` \\*b\\* \\~s\\~ \\$m\\$ &lt;b> www\\.e.org \\_u\\_ solver_0" in text
    assert "&lt;b&gt;" in compared._repr_html_() and "<b>" not in compared._repr_html_()
    special = compare_trees(run, run, (r"a_b & \c $d$ {e} #f ~^", "50%")).latex()
    assert r"a\_b \& \textbackslash{}c \$d\$ \{e\} \#f \textasciitilde{}\textasciicircum{}" in special
    assert r"50\%" in special
